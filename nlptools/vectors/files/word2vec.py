"""The binary file of word2vec: a line `V D`, then for each word its bytes, a space and D little-endian float32.

word2vec's own program writes a newline after each vector, gensim and Google's file have none; a newline before a word
is skipped. Where a vector begins depends on the lengths of all words before it: it is found when somebody wants that
vector, or looks for a word (`nlptools.vectors.files.word2vec_records`).
Opening a file takes no time, whatever its size; the vectors stay
in it, mapped, and are copied a block at a time when they are needed.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Sequence
from typing import Any

import numpy as np

from nlptools.errors import InputError, UsageError, display, reason
from nlptools.files import streams
from nlptools.files.streams import Output
from nlptools.vectors import checks
from nlptools.vectors.files.word2vec_records import Records, RecordWords
from nlptools.vectors.table import Floats, Vectors


class RecordRows:
    """Vectors between words. Rows of any alignment are gathered as blocks of bytes, which copies and converts nothing."""

    def __init__(self, records: Records) -> None:
        self.shape: tuple[int, int] = (records.count, records.dimensions)
        self._records = records
        # one element begins at each byte of the file: taking elements copies whole rows
        size, data = records.size, records.data
        self._windows = np.ndarray((max(0, len(data) - size + 1),), f"V{size}", data, strides=(1,))

    def read(self, start: int, end: int) -> Floats:
        self._records.reach(min(end, self.shape[0]))
        return self._gather(self._records.starts[start:end])

    def take(self, places: Sequence[int]) -> Floats:
        self._records.reach(max(places, default=-1) + 1)
        return self._gather(self._records.starts[list(places)])

    def _gather(self, starts: np.ndarray[Any, Any]) -> Floats:
        if not len(starts):
            return np.empty((0, self.shape[1]), np.float32)
        rows: Floats = self._windows[starts].view("<f4").reshape(-1, self.shape[1]).astype(np.float32, copy=False)
        return rows


def map_file(path: str) -> mmap.mmap:
    """The bytes of a file, mapped; compressed files and standard input (`-`) are unpacked into a temporary one.

    Raises:
        InputError: no such file.
        BundleError: an empty file.
    """
    special = path == "-" or path.endswith(streams.COMPRESSED) or not os.path.isfile(path)
    with streams.open_bytes(path) as source:
        if not special:
            return _map(source.fileno(), path)
        with tempfile.TemporaryFile() as spool:
            while data := source.read(1 << 20):
                spool.write(data)
            spool.flush()
            return _map(spool.fileno(), path)


def _map(descriptor: int, path: str) -> mmap.mmap:
    if not os.fstat(descriptor).st_size:
        checks.refuse(path, "the file is empty")
    try:
        return mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError) as error:
        told = reason(error) if isinstance(error, OSError) else str(error)
        raise InputError(f"{display(path)}: cannot be mapped: {told}") from None


def read(path: str, errors: str = "strict") -> Vectors:
    """The vectors of a binary file, mapped.

    Raises:
        InputError: no such file.
        BundleError: a bad header, or one that promises more than the file holds; and here in a small file, in a large
            one when a search or a lookup comes there: vectors that end early or late, words that are not UTF-8 while
            `errors` is "strict".
    """
    data = map_file(path)
    end = data.find(b"\n", 0, 128)
    header = checks.parse_header(data[: max(end, 0)], path)
    checks.check_room(header, 4 * header.dimensions + 1, len(data) - end - 1, path)
    records = Records(data, end + 1, header, path, errors)
    return Vectors(RecordWords(records), RecordRows(records), path=path)


def write(vectors: Vectors, out: Output, *, newline: bool = False) -> None:
    """Write all vectors, a block at a time; with a newline after each, as word2vec's own program has it, or without.

    Raises:
        UsageError: a word holds a space or newline, which the format has no room for.
        StreamError: a write failed.
    """
    out.write(f"{len(vectors)} {vectors.dimensions}\n")
    last = b"\n" if newline else b""
    for start, rows in vectors.blocks():
        data = rows.astype("<f4", copy=False).tobytes()
        size = 4 * vectors.dimensions
        parts = []
        for i, word in enumerate(vectors.words[start : start + len(rows)]):
            if " " in word or "\n" in word:
                raise UsageError(
                    f"word {start + i + 1:,} holds a space, which word2vec's binary format has no room for: {word!r}",
                    hint="--to word2vec, glove, fasttext or bundle keep it",
                )
            parts += [word.encode("utf-8", "surrogatepass"), b" ", data[i * size : (i + 1) * size], last]
        out.write(b"".join(parts))
