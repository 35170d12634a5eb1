"""Tokens and their ids, counts and special tokens."""

from __future__ import annotations

from typing import Protocol


class Vocab(Protocol):
    """What a tokenizer says about its ids. Special tokens are attributes: an id, or None when there is none."""

    pad: int | None
    unk: int | None
    bos: int | None
    eos: int | None
    cls: int | None
    sep: int | None
    mask: int | None

    def __len__(self) -> int:
        """Number of ids: they run from 0 to this."""

    def token(self, id: int) -> str:
        """The token of an id."""

    def id(self, token: str) -> int:
        """The id of a token, or `unk`. Raises KeyError when there is neither."""
