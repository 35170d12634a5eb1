"""Sets of characters, as ranges of code points: sorted, apart from each other, both ends included."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from functools import cache

Ranges = tuple[tuple[int, int], ...]

EVERY: Ranges = ((0, 0xD7FF), (0xE000, 0x10FFFF))  # the code points that UTF-8 has: without surrogates


def of(characters: str) -> Ranges:
    """The set of some characters."""
    return union([((ord(c), ord(c)),) for c in characters])


def union(sets: Iterable[Ranges]) -> Ranges:
    """The characters of any of some sets."""
    out: list[tuple[int, int]] = []
    for low, high in sorted(each for ranges in sets for each in ranges):
        if out and low <= out[-1][1] + 1:
            out[-1] = out[-1][0], max(high, out[-1][1])
        else:
            out.append((low, high))
    return tuple(out)


def both(first: Ranges, second: Ranges) -> Ranges:
    """The characters of both sets."""
    out, i, j = [], 0, 0
    while i < len(first) and j < len(second):
        low, high = max(first[i][0], second[j][0]), min(first[i][1], second[j][1])
        if low <= high:
            out.append((low, high))
        if first[i][1] < second[j][1]:
            i += 1
        else:
            j += 1
    return tuple(out)


def others(ranges: Ranges) -> Ranges:
    """All other characters."""
    out, begin = [], 0
    for low, high in ranges:
        out.append((begin, low - 1))
        begin = high + 1
    out.append((begin, EVERY[-1][1]))
    return both(tuple((low, high) for low, high in out if low <= high), EVERY)


def any_case(ranges: Ranges) -> Ranges:
    """The characters and their counterparts in upper and lower case."""
    pairs = _cased()
    same = []
    for low, high in ranges:
        same += [((code, code),) for _, code in pairs[bisect_left(pairs, (low, 0)) : bisect_left(pairs, (high + 1, 0))]]
    return union([ranges, *same])


def number_of_cased(ranges: Ranges) -> int:
    """How many of the characters have a counterpart in the other case."""
    pairs = _cased()
    return sum(bisect_left(pairs, (high + 1, 0)) - bisect_left(pairs, (low, 0)) for low, high in ranges)


@cache
def _cased() -> list[tuple[int, int]]:
    """Pairs of a character and its counterpart in the other case, sorted."""
    characters = map(chr, range(EVERY[-1][1] + 1))
    pairs = ((c, other) for c in characters for other in (c.lower(), c.upper()) if other != c and len(other) == 1)
    return sorted((ord(c), ord(other)) for c, other in pairs)


def utf8_length(ranges: Ranges) -> int:
    """The bytes of the shortest character in UTF-8."""
    return len(chr(ranges[0][0]).encode())


def beginning_with(part: bytes) -> Ranges:
    """The characters that begin with the bytes `part` in UTF-8 and have more bytes; `part` begins some character."""
    first = part[0]
    length = 2 if first < 0xE0 else 3 if first < 0xF0 else 4
    code = first & (0xFF >> (length + 1))
    for value in part[1:]:
        code = code << 6 | value & 0x3F
    shift = 6 * (length - len(part))
    least = (0, 0, 0x80, 0x800, 0x10000)[length]
    return both(((max(code << shift, least), ((code + 1) << shift) - 1),), EVERY)
