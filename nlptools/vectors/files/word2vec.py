"""The binary file of word2vec: a line `V D`, then for each word its bytes, a space and D little-endian float32.

word2vec writes a newline after each vector, gensim does not, nor has Google's file; a newline before a word is skipped. The
place of a vector depends on the lengths of all words before it; it is computed when a vector or word is looked up
(`nlptools.vectors.files.word2vec_records`). Opening a file takes no time whatever its size: the vectors stay in it, mapped,
and are copied a block at a time.
"""

from __future__ import annotations

import mmap
import os
import tempfile

import numpy as np

from nlptools.arrays import Floats
from nlptools.errors import InputError, UsageError, display, reason
from nlptools.files import compression, streams
from nlptools.files.streams import LineWriter
from nlptools.vectors import checks
from nlptools.vectors.files.word2vec_records import RecordWords, Word2vecRecords
from nlptools.vectors.rows import Places, index
from nlptools.vectors.table import Vectors


class RecordRows:
    """Vectors between words. Rows at any alignment are gathered as blocks of bytes, without conversion."""

    def __init__(self, records: Word2vecRecords) -> None:
        self.shape: tuple[int, int] = (records.count, records.dimensions)
        self._records = records
        # one element begins at each byte of the file: taking elements copies whole rows
        size, data = records.size, records.data
        self._windows = np.ndarray((max(0, len(data) - size + 1),), f"V{size}", data, strides=(1,))

    def take(self, places: Places) -> Floats:
        last = places.stop if isinstance(places, slice) else max(places, default=-1) + 1
        self._records.reach(min(last, self.shape[0]))
        starts = self._records.starts[index(places)]
        if not len(starts):
            return np.empty((0, self.shape[1]), np.float32)
        rows: Floats = self._windows[starts].view("<f4").reshape(-1, self.shape[1]).astype(np.float32, copy=False)
        return rows


def map_file(path: str) -> mmap.mmap:
    """The bytes of a file, mapped. Compressed files, pipes and standard input (`-`) go through a temporary file.

    Raises:
        InputError: no such file.
        BundleError: an empty file.
    """
    special = path == "-" or compression.is_compressed(path) or not os.path.isfile(path)
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
        cause = reason(error) if isinstance(error, OSError) else str(error)
        raise InputError(f"{display(path)}: cannot be mapped: {cause}") from None


def read(path: str, errors: str = "strict") -> Vectors:
    """The vectors of a binary file, mapped.

    Raises:
        InputError: no such file.
        BundleError: an invalid header, or one with more words than the file has room for. Truncated vectors, bytes after
            the last one, and words that are not UTF-8 while `errors` is "strict" are found here in a small file, in a
            large one when a search or lookup reaches them.
    """
    data = map_file(path)
    end = data.find(b"\n", 0, 128)
    header = checks.parse_header(data[: max(end, 0)], path)
    checks.check_room(header, 4 * header.dimensions + 1, len(data) - end - 1, path)
    records = Word2vecRecords(data, end + 1, header, path, errors)
    return Vectors(RecordWords(records), RecordRows(records), path=path)


def save(vectors: Vectors, path: str, *, force: bool = False) -> None:
    """Write all vectors, a block at a time, as gensim does: without a newline after each.

    Raises:
        OutputError: the file exists.
        UsageError: a word contains a space or newline, which the format cannot represent.
        StreamError: a write failed.
    """
    size = 4 * vectors.dimensions
    with LineWriter(path, force=force, layout=None) as out:
        out.write(f"{len(vectors)} {vectors.dimensions}\n")
        for start, rows in vectors.blocks():
            data = rows.astype("<f4", copy=False).tobytes()
            parts = []
            for i, word in enumerate(vectors.words[start : start + len(rows)]):
                if " " in word or "\n" in word:
                    raise UsageError(
                        f"word {start + i + 1:,} contains a space, which word2vec's binary format cannot represent: {word!r}",
                        hint="--to word2vec, glove, fasttext or bundle keep it",
                    )
                parts += [word.encode("utf-8", "surrogatepass"), b" ", data[i * size : (i + 1) * size]]
            out.write(b"".join(parts))
