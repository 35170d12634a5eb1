"""What scoring a line gives, for every kind of language model."""

from __future__ import annotations

from dataclasses import dataclass

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


def token_name(vocab: Vocab, id: int) -> str:
    """The token of an id, or the id itself for one that only the model has."""
    return vocab.token(id) if id < len(vocab) else str(id)
