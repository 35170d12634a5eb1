"""The characters of a text that each of its pieces covers, and the pieces that touch a span of characters.

Tokenizers drop accents and control characters, so that the offsets of `e` with a combining accent would exclude it: here a
piece ends after the combining marks and format characters (joiners, variation selectors) that follow it.
Shapes: N texts, P pieces of all texts.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

import numpy as np

from nlptools.text.tokenizer import Tokenizer


def covered(tokenizer: Tokenizer, texts: Sequence[str], bounds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Start and end of each piece: (P,) int32 each.

    `bounds` (N + 1,): the first piece of each text, and the end. Starts and ends never decrease within a text.
    """
    starts, ends = np.zeros((2, int(bounds[-1])), np.int32)
    for number, text in enumerate(texts):
        here = slice(int(bounds[number]), int(bounds[number + 1]))
        if here.start == here.stop:
            continue
        spans = np.array(tokenizer.offsets(text), np.int32).reshape(-1, 2)
        # spans must not go backwards: answers are found by binary search
        starts[here] = np.maximum.accumulate(spans[:, 0])
        ends[here] = np.maximum.accumulate(spans[:, 1])
        if not text.isascii():
            _take_marks(text, starts[here], ends[here])
    return starts, ends


def _take_marks(text: str, starts: np.ndarray, ends: np.ndarray) -> None:
    """Extend pieces over the combining marks and format characters that follow, up to the next piece."""
    following = np.append(starts[1:], len(text))
    for piece in np.flatnonzero(ends < following).tolist():
        end, limit = int(ends[piece]), int(following[piece])
        while end < limit and unicodedata.category(text[end]) in ("Mn", "Mc", "Me", "Cf"):
            end += 1
        same = int(np.searchsorted(ends, ends[piece]))  # all pieces of one character cover all of it
        ends[same : piece + 1] = end


def touched(starts: np.ndarray, ends: np.ndarray, a: int, b: int) -> tuple[int, int] | None:
    """The first and the last piece of one text that touch characters a to b, or None."""
    first = int(np.searchsorted(ends, a, side="right"))
    last = int(np.searchsorted(starts, b, side="left")) - 1
    return (first, last) if first <= last else None
