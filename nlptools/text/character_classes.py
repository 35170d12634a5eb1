"""Classes of characters by Unicode general category, as bodies of regular-expression classes.

Source: The Unicode Standard, section 4.5, in the version of the running Python (`unicodedata`). The standard library's `re`
has no \\p{...}. Each table is built on first use, which takes some milliseconds.
"""

from __future__ import annotations

import sys
import unicodedata
from functools import cache

# Ideographs, Hangul syllables, surrogates and private use: large blocks without punctuation, symbols, numbers or marks, but for
# variation selectors.
_WITHOUT = (
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xAC00, 0xD7A3),
    (0xD800, 0xF8FF),
    (0x17000, 0x18CFF),
    (0x20000, sys.maxunicode),
)


@cache
def character_class(category: str) -> str:
    """The body of a character class for all code points of `category`: "P" punctuation, "S" symbols, "N" numbers, "M" marks.

    `f"[{character_class('P')}]"` matches one of them, `f"[^{character_class('P')}]"` anything else.
    """
    if category not in ("P", "S", "N", "M"):
        raise ValueError(f"no table of category {category!r}, expected P, S, N or M")
    ranges: list[list[int]] = []
    for code in _code_points():
        if unicodedata.category(chr(code))[0] != category:
            continue
        if ranges and ranges[-1][1] == code - 1:
            ranges[-1][1] = code
        else:
            ranges.append([code, code])
    return "".join(f"\\U{first:08x}" + (f"-\\U{last:08x}" if last > first else "") for first, last in ranges)


def _code_points() -> list[int]:
    """Every code point outside the blocks without any of the categories."""
    codes: list[int] = []
    start = 0
    for first, last in _WITHOUT:
        codes.extend(range(start, first))
        start = last + 1
    return codes
