"""What scoring a line gives, for every kind of language model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from nlptools.configs.scoring import Score
from nlptools.files.streams import LineBlock
from nlptools.inference.words import WordScore
from nlptools.text.unknown import UnknownTokens
from nlptools.text.vocab import Vocab


@dataclass(frozen=True)
class LineScore:
    """The log-probability (nats) of a line, token by token."""

    tokens: list[str]
    logprobs: list[float]

    @property
    def logprob(self) -> float:
        """Of the whole line."""
        return float(sum(self.logprobs))


# log-probability (nats) and number of tokens of a line; of a bidirectional model also the log-probabilities of both directions
Total = tuple[float, int] | tuple[float, int, float, float]


class Scorer(Protocol):
    """What `load` returns for `Score`: a model that scores text."""

    unknown: UnknownTokens

    def score_batch(self, lines: Sequence[str], settings: Score) -> list[LineScore]:
        """The scores of some lines, token by token."""

    def totals(self, lines: Sequence[str], settings: Score) -> Sequence[Total]:
        """(log-probability in nats, number of tokens) of each line, and what else `Total` has."""

    def words(self, lines: Sequence[str], settings: Score) -> list[WordScore]:
        """The surprisals of the words of each line."""

    def perplexity(self, blocks: Iterable[LineBlock], settings: Score | None = None) -> dict[str, Any]:
        """Perplexities of a text, and the protocol."""


def token_name(vocab: Vocab, id: int) -> str:
    """The token of an id, or the id itself for one that only the model has."""
    return vocab.token(id) if id < len(vocab) else str(id)
