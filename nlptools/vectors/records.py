"""Where the vectors lie in word2vec's binary file.

The place of each vector follows from the one before it, so finding them looks like a loop over all words, which takes
seconds for three million. But the way from one place to the next (past the next space, then past one vector) brings
any two walks together: once both stand before the same space, they are one. So walks are begun at many places of the
file and taken side by side, as arrays; each is then joined to the walk before it, of which the first is right because
it began behind the header. A walk that meets no other is walked again from where the walk before it ended.
"""

from __future__ import annotations

import contextlib
import mmap
import os
from typing import Any, NamedTuple

import numpy as np

from nlptools.vectors import checks

Places = np.ndarray[Any, np.dtype[np.int64]]
_WINDOW = 32  # bytes looked at for the space that ends a word; longer words are looked for one by one
_PART = 1 << 16
_LANES = 1024
_POPULATE_READ = (
    22  # MADV_POPULATE_READ of Linux 5.14: maps all pages at once, which takes a tenth of the time of faults
)
_SETTLE = 24  # steps after which a walk from anywhere is almost sure to be right


class Index(NamedTuple):
    """The places of vectors (their first bytes), int64 (V,), and the words joined by newlines."""

    starts: Places
    words: bytes


def find_records(data: mmap.mmap, begin: int, header: checks.Header, path: str) -> Index:
    """The records behind `begin`.

    Raises:
        BundleError: the file ends inside a record, or goes on after the last one.
    """
    size = 4 * header.dimensions
    _map_pages(data)
    found = _walk_lanes(data, begin, size) if header.words > 64 * _LANES else None
    starts = found if found is not None else _walk(data, begin, len(data), size)
    complete = int(np.searchsorted(starts, len(data) - size, side="right"))
    if complete < header.words:
        checks.refuse(path, f"the header promises {header.words:,} words, the file ends in word {complete + 1:,}")
    starts = starts[: header.words]
    end = int(starts[-1]) + size if len(starts) else begin
    if data[end : end + 2] not in (b"", b"\n"):
        told = f"{header.words:,} words of {header.dimensions} dimensions"
        checks.refuse(path, f"the header promises {told}, and the file goes on after them")
    return Index(starts, _words(data, begin, starts, size))


def _map_pages(data: mmap.mmap) -> None:
    """Map the pages of the file now, if they fit half of the memory; where the system cannot, they come as used."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        if len(data) < os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2:
            data.madvise(_POPULATE_READ)


def _walk(data: mmap.mmap, at: int, end: int, size: int) -> Places:
    """The first bytes of the vectors of all records that begin in `at` to `end`, one after the other."""
    found, find, stride = list[int](), data.find, size + 1
    while at < end and (space := find(b" ", at)) >= 0:
        found.append(space + 1)
        at = space + stride
    return np.array(found, np.int64)


def _walk_lanes(data: mmap.mmap, begin: int, size: int) -> Places | None:
    """As `_walk` from `begin` to the end, many walks side by side; None if walks do not meet."""
    bounds = np.linspace(begin, len(data), _LANES + 1).astype(np.int64)
    windows = _windows(data)
    steps: list[Places] = []  # after each step, where each walk stands: on the first byte of a vector
    at = bounds[:-1].copy()
    ended = len(data)
    while True:
        active = at < np.minimum(bounds[1:] + (_SETTLE + 2) * (size + _WINDOW), ended)
        if not active.any():
            break
        space = _next_space(data, windows, np.where(active, at, -1))
        steps.append(np.where(active & (space >= 0), space + 1, -1))
        at = np.where(space >= 0, space + 1 + size, ended)
    return _join(np.stack(steps, axis=1), bounds)


def _windows(data: mmap.mmap) -> np.ndarray[Any, Any]:
    """The bytes from each place of the file on, as elements that are copied whole."""
    return np.ndarray((max(0, len(data) - _WINDOW + 1),), f"V{_WINDOW}", data, strides=(1,))


def _next_space(data: mmap.mmap, windows: np.ndarray[Any, Any], at: Places) -> Places:
    """The place of the first space at or after each of `at`, -1 where there is none or `at` is negative."""
    found = np.full(len(at), -1, np.int64)
    inside = np.flatnonzero((at >= 0) & (at < len(windows)))
    near = windows[at[inside]].view(np.uint8).reshape(-1, _WINDOW) == 32
    offset = near.argmax(axis=1)
    hit = near[np.arange(len(inside)), offset]
    found[inside[hit]] = at[inside[hit]] + offset[hit]
    rest = [*inside[~hit].tolist(), *np.flatnonzero(at >= len(windows)).tolist()]
    for lane in rest:
        found[lane] = data.find(b" ", int(at[lane]))
    return found


def _join(table: Places, bounds: Places) -> Places | None:
    """One walk out of those of all lanes (rows of `table`): each goes on where the one before it meets it."""
    parts: list[Places] = []
    enter = -1  # the place at which the joined walk enters this lane; -1: from its beginning
    for lane in range(len(table)):
        mine = table[lane][table[lane] >= 0]
        if enter >= 0:
            where = int(np.searchsorted(mine, enter))
            if where >= len(mine) or mine[where] != enter:
                return None
            mine = mine[where:]
        if lane + 1 == len(table):
            parts.append(mine)
            break
        # behind the bound, look for the first place that the next walk also passes
        over = mine[mine >= bounds[lane + 1]]
        common = over[np.isin(over, table[lane + 1])]
        if not len(common):
            return None
        enter = int(common[0])
        parts.append(mine[mine < enter])
    return np.concatenate(parts)


def _words(data: mmap.mmap, begin: int, starts: Places, size: int) -> bytes:
    """The words before the vectors, joined by newlines; one newline before a word is none of its own."""
    if not len(starts):
        return b""
    first = np.concatenate([[begin], starts[:-1] + size])
    bytes_ = np.frombuffer(data, np.uint8)
    first += bytes_[first] == 10
    lengths = starts - first  # the space behind the word counts: it becomes the newline between words
    ends = np.cumsum(lengths)
    out = np.empty(int(ends[-1]), np.uint8)
    windows = _windows(data)
    for i in range(0, len(starts), _PART):
        part = slice(i, i + _PART)
        low, high = int(ends[i] - lengths[i]), int(ends[min(i + _PART, len(starts)) - 1])
        if int(lengths[part].max()) <= _WINDOW and int(first[part][-1]) < len(windows):
            near = windows[first[part]].view(np.uint8).reshape(-1, _WINDOW)
            out[low:high] = near[np.arange(_WINDOW) < lengths[part, None]]
        else:
            source = np.repeat(first[part] - (ends[part] - lengths[part]), lengths[part]) + np.arange(low, high)
            out[low:high] = bytes_[source]
    if (out == 10).any():
        return out[:-1].tobytes().replace(b"\n", b"\n\n")  # the caller finds one newline too many
    out[ends - 1] = 10
    return out[:-1].tobytes()
