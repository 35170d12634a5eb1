"""Options of recurrent language models that need more than a line."""

from __future__ import annotations

import re
from typing import Any

from nlptools.errors import UsageError

ARCHITECTURES = ("rnn", "lstm", "gru")
OPTIONS: dict[str, Any] = {"architectures": ARCHITECTURES, "section": "Options of recurrent models"}


def adaptive_cutoffs(text: str | None, vocab_size: int) -> tuple[int, ...]:
    """The numbers of --adaptive, () without it. Raises UsageError unless they are below the size of the vocabulary."""
    limits = () if text is None else cutoffs(text)
    if limits and limits[-1] >= vocab_size:
        raise UsageError(f"--adaptive {text}: the vocabulary has {vocab_size} tokens, expected less")
    return limits


def cutoffs(text: str) -> tuple[int, ...]:
    """The numbers in a text such as `2000,10000`, ascending from 1 on. Raises UsageError."""
    numbers = tuple(map(int, text.split(","))) if re.fullmatch(r"\d{1,9}(,\d{1,9})*", text) else ()
    if not numbers or list(numbers) != sorted({0, *numbers})[1:]:
        raise UsageError(f"not ascending numbers of tokens: {text!r}, expected something like 2000,10000")
    return numbers
