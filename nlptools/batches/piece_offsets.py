"""Which characters of a text each of its pieces covers, and the other way round.

Tokenizers leave out accents and control characters, so that `e` with a combining accent would be found without it: a
piece ends behind the combining marks and format characters (joiners, variation selectors) that follow it.
Shapes: N texts, P pieces of all texts.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

import numpy as np

from nlptools.text.tokenizer import Tokenizer

_WORD = re.compile(r"\S+")


def covered(tokenizer: Tokenizer, texts: Sequence[str], bounds: np.ndarray) -> tuple[np.ndarray, ...]:
    """First character, the one behind the last, and the word between white space of each piece: (P,) int32 each.

    `bounds` (N + 1,) tell where the pieces of each text begin, and the end. Starts and ends never fall within a text.
    """
    starts, ends, words = np.zeros((3, int(bounds[-1])), np.int32)
    for number, text in enumerate(texts):
        here = slice(int(bounds[number]), int(bounds[number + 1]))
        if here.start == here.stop:
            continue
        spans = np.array(tokenizer.offsets(text), np.int32).reshape(-1, 2)
        # a span may not go back behind the one before it: answers are looked up by their order
        starts[here] = np.maximum.accumulate(spans[:, 0])
        ends[here] = np.maximum.accumulate(spans[:, 1])
        if not text.isascii():
            _take_marks(text, starts[here], ends[here])
        found = np.array([match.end() for match in _WORD.finditer(text)], np.int32)
        words[here] = np.searchsorted(found, ends[here], side="left")
    return starts, ends, words


def _take_marks(text: str, starts: np.ndarray, ends: np.ndarray) -> None:
    """Move ends of pieces behind the combining marks and format characters that follow, up to the next piece."""
    following = np.append(starts[1:], len(text))
    for piece in np.flatnonzero(ends < following).tolist():
        end, limit = int(ends[piece]), int(following[piece])
        while end < limit and unicodedata.category(text[end]) in ("Mn", "Mc", "Me", "Cf"):
            end += 1
        same = int(np.searchsorted(ends, ends[piece]))  # pieces of one character have it whole, each of them
        ends[same : piece + 1] = end


def touched(starts: np.ndarray, ends: np.ndarray, a: int, b: int) -> tuple[int, int] | None:
    """The first and the last piece of one text that characters a to b touch, or None where there is none."""
    first = int(np.searchsorted(ends, a, side="right"))
    last = int(np.searchsorted(starts, b, side="left")) - 1
    return (first, last) if first <= last else None
