"""What scoring a line gives, for every kind of language model."""

from __future__ import annotations

from dataclasses import dataclass

from nlptools.configs.scoring import Score
from nlptools.errors import UsageError
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


# log-probability (nats) and number of tokens of a line, or the numbers of BOTH_DIRECTIONS
Total = tuple[float, int] | tuple[float, int, float, float]
TOTAL = ("log_probability", "tokens")
BOTH_DIRECTIONS = (*TOTAL, "forward", "backward")


def refuse_streams(what: str, settings: Score | None) -> None:
    """Raise UsageError for options that see the text as one stream, of a model that sees nothing before a sentence."""
    given = settings or Score()
    for flag, value in {"--carry": given.carry, "--cache": given.cache, "--dynamic": given.dynamic}.items():
        if value:
            raise UsageError(f"{flag}: {what} sees nothing before the sentence of a token")


def token_name(vocab: Vocab, id: int) -> str:
    """The token of an id, or the id itself for one that only the model has."""
    return vocab.token(id) if id < len(vocab) else str(id)
