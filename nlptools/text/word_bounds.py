"""Which tokens of a line belong to which of its words.

A word is a stretch of text between white space; where the tokenizer splits at white space, it is a token.
Shapes: W words of a line.
"""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from nlptools.text.builtin import AT_WHITE_SPACE
from nlptools.text.tokenizer import Tokenizer


def word_spans(tokenizer: Tokenizer, line: str) -> list[tuple[int, int]]:
    """The places of the words of a line."""
    if tokenizer.kind in AT_WHITE_SPACE:
        return tokenizer.offsets(line)
    return [match.span() for match in re.finditer(r"\S+", line)]


def word_bounds(tokenizer: Tokenizer, line: str, at_end: bool) -> NDArray[np.int64]:
    """The first token of each word, and the end of the last, (W + 1,); a token belongs to the word it begins in.

    `at_end`: whether white space belongs to the piece before it, see `word_marks`.
    """
    spans = word_spans(tokenizer, line)
    if tokenizer.kind in AT_WHITE_SPACE:
        return np.arange(len(spans) + 1)
    places = np.array(tokenizer.offsets(line), np.int64).reshape(-1, 2)
    words = np.array(spans, np.int64).reshape(-1, 2)
    word = np.searchsorted(words[:, 1], places[:, 0], side="right")  # white space belongs to the word after it
    if at_end:
        word = np.minimum(word, np.searchsorted(words[:, 0], places[:, 1], side="left") - 1).clip(min=0)
    return np.searchsorted(np.maximum.accumulate(word), np.arange(len(spans) + 1))
