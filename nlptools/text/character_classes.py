"""Classes of characters by Unicode general category, as bodies of regular-expression classes.

Source: The Unicode Standard, section 4.5, in the version of the running Python (`unicodedata`). The standard library's `re`
has no \\p{...}. Each table is built on first use, which takes some milliseconds.
"""

from __future__ import annotations

import sys
import unicodedata
from functools import cache
from itertools import groupby

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
    found = _ranges().get(category)
    if found is None:
        raise ValueError(f"no table of category {category!r}, expected P, S, N or M")
    return "".join(f"\\U{first:08x}" + (f"-\\U{last:08x}" if last > first else "") for first, last in found)


@cache
def _ranges() -> dict[str, list[list[int]]]:
    """The first and last code points of the longest ranges of each category, outside the blocks without any of them."""
    ranges: dict[str, list[list[int]]] = {category: [] for category in "PSNM"}
    start = 0
    for first, last in _WITHOUT:
        for category, same in groupby(map(unicodedata.category, map(chr, range(start, first)))):
            end = start + len(list(same)) - 1
            found = ranges.get(category[0])
            if found and found[-1][1] == start - 1:
                found[-1][1] = end
            elif found is not None:
                found.append([start, end])
            start = end + 1
        start = last + 1
    return ranges
