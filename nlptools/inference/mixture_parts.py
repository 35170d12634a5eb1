"""The parts of a mixture of language models. No PyTorch here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from nlptools import bundle, messages
from nlptools.configs.scoring import Score
from nlptools.errors import UsageError, display
from nlptools.files.streams import LineBlock
from nlptools.json_types import Json, JsonObject
from nlptools.models.language.alignment import TokenAlignment, Tokens, align
from nlptools.models.language.ngram import NGrams
from nlptools.text.unknown import UnknownTokens

if TYPE_CHECKING:
    from nlptools.models.contract import LanguageModel

AnyBundle: TypeAlias = "bundle.Bundle[LanguageModel | NGrams]"


def ngrams_of(loaded: AnyBundle) -> bundle.Bundle[NGrams] | None:
    """A part that is an n-gram model; else None."""
    return cast(bundle.Bundle[NGrams], loaded) if isinstance(loaded.model, NGrams) else None


@dataclass(frozen=True)
class Parts:
    """The models of a mixture. The first is the main model; the mixture has its tokens."""

    bundles: tuple[AnyBundle, ...]
    alignments: tuple[TokenAlignment, ...]
    weights: tuple[float, ...]

    @property
    def names(self) -> list[str]:
        """Of the models, as the user gave them."""
        return [display(str(each.path)) for each in self.bundles]

    def describe(self, weights: Sequence[float]) -> JsonObject:
        """The models and weights, for the protocol."""
        models: list[Json] = [{"model": n, "weight": w} for n, w in zip(self.names, weights, strict=True)]
        rule = "of the first model; tokens that another one lacks share the probability of its unknown token"
        return {"mixture": models, "vocabulary": rule}


def parts_of(bundles: Sequence[AnyBundle], weights: Sequence[float] | None) -> Parts:
    """The models as parts of a mixture, with equal weights if there are none.

    Raises:
        UsageError: not as many weights as models.
    """
    if weights is not None and len(weights) != len(bundles):
        raise UsageError(f"--mix-weights has {len(weights)} numbers, the mixture has {len(bundles)} models")
    main, *others = [_tokens(each) for each in bundles]
    parts = Parts(
        tuple(bundles),
        (TokenAlignment.identity(main), *(align(main, other) for other in others)),
        tuple(weights or [1 / len(bundles)] * len(bundles)),
    )
    for name, alignment in zip(parts.names[1:], parts.alignments[1:], strict=True):
        if not alignment.same:
            lacking = messages.counted(alignment.lacking, "token")
            messages.warn(
                f"{name} lacks {lacking} of {parts.names[0]}, which share the probability of its unknown token;"
                f" {messages.counted(len(alignment.others), 'token')} that {parts.names[0]} lacks are unknown"
            )
    return parts


def _tokens(loaded: AnyBundle) -> Tokens:
    vocab = loaded.tokenizer.vocab
    assert vocab is not None
    ngrams = ngrams_of(loaded)
    if ngrams is not None:
        size, impossible = ngrams.model.vocab_size, frozenset({ngrams.model.config.bos} - {loaded.eos})
        return Tokens(vocab, size, loaded.eos, loaded.start, impossible)
    neural = cast("LanguageModel", loaded.model)
    return Tokens(vocab, neural.output.vocab_size, loaded.eos, loaded.start)


class Mixed(Protocol):
    """A mixture at work."""

    parts: Parts
    unknown: UnknownTokens

    @property
    def weights(self) -> list[float]:
        """Of the models."""

    def part_scores(self, blocks: Iterable[LineBlock], settings: Score) -> NDArray[np.float64]:
        """(T, K) the log-probability of each token of a text by each model, in nats."""

    def set_weights(self, weights: Sequence[float]) -> None:
        """Replace the weights."""
