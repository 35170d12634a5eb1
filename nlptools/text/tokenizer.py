"""The tokenizer contract, and how a name or a path becomes a tokenizer."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from nlptools.text.vocab import Vocab


class Tokenizer(Protocol):
    """Text to tokens to ids and back. Whoever implements these methods can be trained, scored and decoded with."""

    kind: str  # "sentencepiece", "tokenizers", "wordpiece", "words", ...
    vocab: Vocab | None  # None: tokens only, no ids

    def tokens(self, text: str) -> list[str]:
        """The tokens of one line."""

    def encode(self, text: str) -> list[int]:
        """The ids of one line, without beginning and end marks."""

    def encode_lines(self, lines: Sequence[str], threads: int = 1) -> list[list[int]]:
        """The ids of each of many lines: the fast path."""

    def decode(self, ids: Sequence[int]) -> str:
        """The text that `ids` stand for."""

    def decode_tokens(self, tokens: Sequence[str]) -> str:
        """The text that `tokens` stand for."""

    def offsets(self, text: str) -> list[tuple[int, int]]:
        """The span of characters of `text` that each token covers."""

    def save(self, directory: Path) -> list[str]:
        """Write the tokenizer's files into `directory` and return their names; `load(directory)` reads them back."""
