"""Maps the vocabulary of one model to the tokens of another; for mixtures.

A mixture reads and predicts the tokens of its main model. Each other part contributes its own probabilities of these tokens:

* A token with the same spelling in both keeps the part's probability. The two end-of-text tokens correspond, whatever their
  names, and so do the two unknown tokens.
* Tokens that the part lacks are read as its unknown token. They and the main model's unknown token share its probability evenly.
* Tokens that the main model lacks add their probabilities to its unknown token.

The probabilities of a part still sum to 1, and perplexities are comparable with any model of the main vocabulary. If the main
model has no unknown token (models of bytes), the probability of the part's other tokens is lost.
Shapes: V tokens of the main model, X other tokens of the part. Nothing here needs PyTorch.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nlptools.text.vocab import Vocab


@dataclass(frozen=True)
class Tokens:
    """The tokens of a model.

    Attributes:
        vocab: of the tokenizer.
        size: of the model's distribution, which may have more.
        eos: the end of the text.
        start: the token before a text.
        excluded: tokens that have no probability.
    """

    vocab: Vocab
    size: int
    eos: int
    start: int
    excluded: Collection[int] = ()


@dataclass(frozen=True, eq=False)
class TokenAlignment:
    """A map from the tokens of the main model to the tokens of a part.

    Attributes:
        ids: (V,) int64, the part's token for each main one.
        sharing: (V,) int64, how many main tokens share the probability of that token evenly; 0: this one gets none of it.
        unknown: the main model's unknown token; None: it has none.
        others: (X,) int64, tokens of the part that add their probability to the unknown token.
        lacking: number of main tokens that the part lacks.
    """

    ids: NDArray[np.int64]
    sharing: NDArray[np.int64]
    unknown: int | None
    others: NDArray[np.int64]
    lacking: int

    @classmethod
    def identity(cls, tokens: Tokens) -> TokenAlignment:
        """The main model as a part of the mixture."""
        ids, nothing = np.arange(tokens.size), np.zeros(0, np.int64)
        return cls(ids, np.ones_like(ids), tokens.vocab.unk, nothing, 0)

    @property
    def same(self) -> bool:
        """Whether the two vocabularies have the same tokens, in any order."""
        return self.lacking == 0 and len(self.others) == 0

    def log_shares(self) -> NDArray[np.float64]:
        """(V,) in nats: what to add to the part's log-probability of each token."""
        return np.where(self.sharing > 0, -np.log(np.maximum(self.sharing, 1)), -np.inf)

    def differs(self, main: NDArray[np.int64], part: NDArray[np.int64]) -> bool:
        """Whether the ids that the main model's tokenizer and the part's have for a text are of different tokens."""
        if len(main) != len(part):
            return True
        wrong = self.ids[main] != part
        if self.unknown is not None:
            wrong &= ~((main == self.unknown) & np.isin(part, self.others))
        return bool(wrong.any())


def align(main: Tokens, part: Tokens) -> TokenAlignment:
    """The map from the tokens of `main` to the tokens of `part`."""
    unknown, theirs = main.vocab.unk, part.vocab.unk
    roles = {main.eos: part.eos, **({} if unknown is None or theirs is None else {unknown: theirs})}
    taken = {part.eos, theirs, *part.excluded}
    ids = np.full(main.size, 0 if theirs is None else theirs, np.int64)
    sharing = np.zeros(main.size, np.int64)
    lacking = []
    for id, token in enumerate(main.vocab.tokens[: main.size]):
        there = part.vocab.ids.get(token)
        if id in roles or id == unknown:
            continue
        if there is not None and there not in taken and there < part.size:
            ids[id], sharing[id] = there, 1
        elif id not in main.vocab.marks and id not in main.excluded:
            lacking.append(id)
    for id, there in roles.items():
        ids[id], sharing[id] = there, 1
    if main.start != main.eos:
        ids[main.start] = part.start
    if theirs is not None:
        sharers = lacking if unknown is None else [*lacking, unknown]
        sharing[sharers] = len(sharers)
    mapped = {*ids[sharing > 0].tolist(), *part.excluded, *([] if theirs is None else [theirs])}
    others = np.array([id for id in range(part.size) if id not in mapped], np.int64)
    return TokenAlignment(ids, sharing, unknown, others, len(lacking))
