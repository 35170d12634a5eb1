"""How the tokens of a tokenizer show where words of white-space text begin and end.

Most subword tokenizers put the space before a word into the first piece of the word. A piece then does not show whether the word
ends after it; the next piece does. For probabilities of words see `inference.words`.
Shapes: V tokens of the vocabulary.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nlptools.text.builtin import SPACE
from nlptools.text.huggingface import HuggingFace
from nlptools.text.tokenizer import Tokenizer

_BYTE = re.compile("<0x([0-9A-F]{2})>")  # a byte in the vocabulary of SentencePiece


class WordMarks(NamedTuple):
    """The marks of words in a vocabulary."""

    begins: NDArray[np.bool_] | None  # (V,) tokens that end the word before them; None: tokens do not show that
    at_end: bool = False  # whether white space belongs to the piece before it


def word_marks(tokenizer: Tokenizer) -> WordMarks:
    """The marks of words of a tokenizer that has a vocabulary.

    `begins` is None for tokenizers of whole words, for those that put a mark at the end of a word, and for those that forget
    where spaces were. Pieces of WordPiece without ## end the word before them, punctuation marks included.
    """
    return _marks(tokenizer)


@lru_cache(maxsize=4)
def _marks(tokenizer: Tokenizer) -> WordMarks:
    """See `word_marks`; large vocabularies take some time."""
    assert tokenizer.vocab is not None
    tokens = tokenizer.vocab.tokens
    if tokenizer.kind in ("char", "bytes"):
        return WordMarks(_select(tokens, lambda token: token == SPACE or _is_space(token)))
    if tokenizer.kind == "sentencepiece":
        return _metaspace(tokens)
    if not isinstance(tokenizer, HuggingFace):
        return WordMarks(None)
    parts = tokenizer.components
    if parts.model == "WordPiece":
        prefix = parts.continuation
        return WordMarks(_select(tokens, lambda token: not token.startswith(prefix)))
    if parts.suffix:
        return WordMarks(None, at_end=True)
    if "ByteLevel" in parts.types:
        alphabet = byte_alphabet()
        return WordMarks(_select(tokens, lambda token: _is_space(_text(token, alphabet))))
    if any(token.startswith(SPACE) for token in tokens):
        return _metaspace(tokens)
    return WordMarks(None)


def _metaspace(tokens: list[str]) -> WordMarks:
    """Tokens with U+2581 instead of spaces."""
    last = sum(token.endswith(SPACE) and len(token) > 1 for token in tokens)
    if last > sum(token.startswith(SPACE) and len(token) > 1 for token in tokens):
        return WordMarks(None, at_end=True)
    return WordMarks(_select(tokens, lambda token: token.startswith(SPACE) or _is_space(token)))


def _select(tokens: list[str], test: Callable[[str], bool]) -> NDArray[np.bool_]:
    return np.fromiter(map(test, tokens), np.bool_, len(tokens))


def _is_space(token: str) -> bool:
    """Whether a token begins with white space, or is a byte that is white space."""
    byte = _BYTE.fullmatch(token)
    return (chr(int(byte[1], 16)) if byte and byte[1] < "80" else token)[:1].isspace()


def byte_alphabet() -> dict[str, int]:
    """The byte that each character of a byte-level BPE token stands for (Radford et al. 2019): printable ones for themselves,
    the others for the characters from U+0100 on.
    """
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [value for value in range(256) if value not in printable]
    return {chr(value): value for value in printable} | {chr(256 + n): value for n, value in enumerate(others)}


def _text(token: str, alphabet: dict[str, int]) -> str:
    """The text of a byte-level token, or the token itself if it is none, as special tokens are; half characters are left out."""
    try:
        return bytes([alphabet[character] for character in token]).decode("utf-8", "ignore")
    except KeyError:
        return token
