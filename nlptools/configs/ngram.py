"""Values of the options of n-gram models."""

from __future__ import annotations

import re

from nlptools.errors import UsageError

SMOOTHINGS = ("kneser-ney", "absolute", "witten-bell", "jelinek-mercer", "add-k")


def limits(text: str) -> tuple[int, ...]:
    """Counts in a text such as `0,0,1`, which never fall. Raises UsageError."""
    numbers = [int(part) for part in text.split(",")] if re.fullmatch(r"\d{1,9}(,\d{1,9}){0,9}", text) else []
    if not numbers or numbers != sorted(numbers) or numbers[0] != 0:
        raise UsageError(
            f"{text!r}: expected numbers such as 0,0,1: 0 for single words, never smaller than the one before"
        )
    return tuple(numbers)


def weights(text: str) -> tuple[float, ...]:
    """Weights in a text such as `.5,.3,.2`, which sum to 1 or less. Raises UsageError."""
    try:
        numbers = tuple(float(part) for part in text.split(","))
    except ValueError:
        numbers = ()
    if not numbers or not all(0 < number <= 1 for number in numbers) or sum(numbers) > 1 + 1e-9:
        raise UsageError(f"{text!r}: expected numbers such as .2,.3,.5, for 1, 2 and 3 words, that sum to 1 or less")
    return numbers
