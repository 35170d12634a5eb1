"""Words as the numbers of their UTF-8 bytes, as ELMo reads them (the numbers of bilm-tf and AllenNLP).

The number of a byte is its value plus 1. Marks surround each word; begin and end of a text are words of one mark.
Shapes: N words, C columns.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

BEGIN_TEXT, END_TEXT, BEGIN_WORD, END_WORD, FILL = range(257, 262)
NUMBERS = 262  # of bytes and marks
COLUMNS = 50  # of a word with its two marks
_MOST_BYTES = COLUMNS - 2


def spell(words: Sequence[str]) -> np.ndarray:
    """(N, C) int16, C = 50: the bytes of each word between its marks, filled up; longer words are cut, see `count_cut`."""
    encoded = [word.encode("utf-8", "surrogatepass")[:_MOST_BYTES] for word in words]
    lengths = np.fromiter(map(len, encoded), np.int64, len(encoded))
    out = np.full((len(encoded), COLUMNS), FILL, np.int16)
    out[:, 0] = BEGIN_WORD
    held = np.arange(_MOST_BYTES) < lengths[:, None]
    out[:, 1:-1][held] = np.frombuffer(b"".join(encoded), np.uint8).astype(np.int16) + 1
    out[np.arange(len(encoded)), lengths + 1] = END_WORD
    return out


def boundaries() -> np.ndarray:
    """(2, C) int16: the spellings of the begin and of the end of a text."""
    out = np.full((2, COLUMNS), FILL, np.int16)
    out[:, 0], out[:, 1], out[:, 2] = BEGIN_WORD, (BEGIN_TEXT, END_TEXT), END_WORD
    return out


def count_cut(words: Sequence[str]) -> int:
    """The number of words that are longer than a spelling."""
    return sum(
        len(word) > _MOST_BYTES // 4 and len(word.encode("utf-8", "surrogatepass")) > _MOST_BYTES for word in words
    )
