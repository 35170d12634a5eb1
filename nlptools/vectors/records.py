"""Where the vectors lie in word2vec's binary file.

The place of each vector follows from the one before it: past the next space, then past one vector. A regular expression
whose matches are whole records walks this way at the speed of C.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import re
from typing import Any, NamedTuple

import numpy as np

from nlptools.vectors import checks

Places = np.ndarray[Any, np.dtype[np.int64]]
_POPULATE_READ = 22  # MADV_POPULATE_READ of Linux 5.14: maps all pages at once, in a fraction of the time of faults


class Index(NamedTuple):
    """The places of vectors (their first bytes), int64 (V,), and the words joined by newlines."""

    starts: Places
    words: bytes


def find_records(data: mmap.mmap, begin: int, header: checks.Header, path: str) -> Index:
    """The records behind `begin`.

    Raises:
        BundleError: the file ends inside a record, goes on after the last one, or a word holds a newline.
    """
    size = 4 * header.dimensions
    _map_pages(data)
    # where no record follows, the other branch takes all that is left: nothing is tried twice, however broken the file
    found: list[bytes] = re.compile(rb"([^ ]*) (?s:.{%d})|(?s:.+)" % size).findall(data, begin)
    lengths = np.fromiter(map(len, found), np.int64, len(found))
    starts = begin + np.cumsum(lengths + (1 + size)) - size
    if len(starts) and data[int(starts[-1]) - 1 : int(starts[-1])] != b" ":
        starts = starts[:-1]  # what the other branch took
    complete = int(np.searchsorted(starts, len(data) - size, side="right"))
    if complete < header.words:
        checks.refuse(path, f"the header promises {header.words:,} words, the file ends in word {complete + 1:,}")
    starts = starts[: header.words]
    end = int(starts[-1]) + size if len(starts) else begin
    if data[end : end + 2] not in (b"", b"\n"):
        told = f"{header.words:,} words of {header.dimensions} dimensions"
        checks.refuse(path, f"the header promises {told}, and the file goes on after them")
    return Index(starts, _join(found[: header.words], path))


def _map_pages(data: mmap.mmap) -> None:
    """Map the pages of the file now, if they fit half of the memory; where the system cannot, they come as used."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        if len(data) < os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2:
            data.madvise(_POPULATE_READ)


def _join(words: list[bytes], path: str) -> bytes:
    """The words joined by newlines; one newline before a word, which ends the record before it, is none of its own."""
    joined = b"\n".join(words)
    if joined.count(b"\n") == max(0, len(words) - 1):
        return joined
    words = [word[1:] if word[:1] == b"\n" else word for word in words]
    for number, word in enumerate(words, 1):
        if b"\n" in word:
            hint = "the vectors have other dimensions than the header says, or the file is damaged"
            checks.refuse(path, f"word {number:,} holds a newline", hint=hint)
    return b"\n".join(words)
