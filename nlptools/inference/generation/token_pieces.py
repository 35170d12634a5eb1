"""Tokens at their places in a text, with their log-probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Spelled:
    """A token of a vocabulary.

    Attributes:
        name: its text; of a part of a character its bytes, such as `bytes:\\xc3`; of one that is no text, such as the end of a
            text, its name in the vocabulary.
        data: the bytes of its text, or of its name.
    """

    id: int
    name: str
    data: bytes

    @property
    def escaped(self) -> str:
        """The bytes, written so that no text of another token looks like them."""
        return "bytes:" + "".join(f"\\x{value:02x}" for value in self.data)


@dataclass(frozen=True)
class Piece:
    """A token at its place in a text.

    Attributes:
        text: its part of the text; "" for a part of a character that is not the last one, and at the end of a text.
        logprob: its log-probability in nats; None for the first token of a text if it has no context.
        top: the most likely tokens at its place and their log-probabilities, if they are asked for.
        ends: whether it is the end of the text.
    """

    text: str
    token: Spelled
    logprob: float | None
    top: Sequence[tuple[Spelled, float]] = ()
    ends: bool = False
