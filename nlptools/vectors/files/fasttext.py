"""fastText's `.bin` (version 12, and 11): words with counts, rows of words and of character n-grams, output vectors.

All numbers are little-endian: magic number and version; twelve int32 and a float64 of settings; the dictionary; a byte, 1
if the matrix is quantized, and the input matrix (words, then buckets of n-grams); the same for the output matrix. The
matrices stay in the file, mapped. Supervised models of version 11 have no n-grams.

Departures: quantized models (`.ftz`) and pruned dictionaries are refused. The labels of a supervised model are not read.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from typing import Any, NoReturn

import numpy as np

from nlptools.arrays import Array, Floats
from nlptools.errors import UsageError
from nlptools.files.streams import LineWriter
from nlptools.json_types import Json
from nlptools.vectors import checks
from nlptools.vectors.files.word2vec import map_file
from nlptools.vectors.rows import Places
from nlptools.vectors.subwords import Subwords
from nlptools.vectors.table import Vectors
from nlptools.vectors.words import WordList

MAGIC, VERSION = 793712314, 12
_SETTINGS = (
    "dim", "ws", "epoch", "minCount", "neg", "wordNgrams", "loss", "model", "bucket", "minn", "maxn", "lrUpdateRate",
)  # fmt: skip
_DEFAULTS = {
    "ws": 5, "epoch": 5, "minCount": 1, "neg": 5, "wordNgrams": 1, "loss": 2, "model": 2, "lrUpdateRate": 100, "t": 1e-4,
}  # fmt: skip
_NEGATIVE_SAMPLING, _SKIP_GRAM, _SUPERVISED = 2, 2, 3
_MOST_WORD = 1 << 16


class SubwordRows:
    """Vectors of words, computed on demand from their own rows and the rows of their n-grams."""

    def __init__(self, words: WordList, subwords: Subwords) -> None:
        self.shape: tuple[int, int] = (len(words), int(subwords.own.shape[1]))
        self._words, self._subwords = words, subwords

    def take(self, places: Places) -> Floats:
        words = self._words[places] if isinstance(places, slice) else [self._words[place] for place in places]
        return self._subwords.vectors(words, places)


class _Reader:
    """A position in the file. Every read is checked against the size of the file."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.data: mmap.mmap = map_file(path)
        self.at = 0

    def refuse(self, message: str) -> NoReturn:
        checks.refuse(self.path, message)

    def unpack(self, form: str) -> tuple[Any, ...]:
        size = struct.calcsize("<" + form)
        if self.at + size > len(self.data):
            self.refuse(f"the file ends at byte {len(self.data):,}, inside the {form!r} at {self.at:,}")
        self.at += size
        return struct.unpack_from("<" + form, self.data, self.at - size)

    def matrix(self, name: str) -> Array:
        """A dense matrix, mapped."""
        if self.unpack("B")[0]:
            self.refuse(f"the {name} matrix is quantized (.ftz): only dense models are read")
        rows, columns = self.unpack("qq")
        if rows < 0 or not 0 < columns <= checks.MOST_DIMENSIONS or rows * columns * 4 > len(self.data) - self.at:
            self.refuse(
                f"the {name} matrix has {rows:,} x {columns:,} numbers, and {len(self.data) - self.at:,} bytes follow"
            )
        self.at += rows * columns * 4
        return np.frombuffer(self.data, "<f4", rows * columns, self.at - rows * columns * 4).reshape(rows, columns)


def read(path: str, errors: str = "strict") -> Vectors:
    """The vectors of a `.bin` file with its n-grams, which give vectors to words outside the vocabulary.

    Raises:
        InputError: no such file.
        BundleError: not a fastText model, a quantized or pruned one, inconsistent sizes, or words that are not UTF-8
            while `errors` is "strict".
    """
    reader = _Reader(path)
    magic, version = reader.unpack("ii")
    if magic != MAGIC:
        reader.refuse("not a fastText model: it does not begin with fastText's number")
    if version not in (11, VERSION):
        reader.refuse(f"version {version} of fastText's format, expected 11 or 12")
    settings = dict(zip(_SETTINGS, reader.unpack("12i"), strict=True))
    settings["t"] = reader.unpack("d")[0]
    if version == 11 and settings["model"] == _SUPERVISED:
        settings["maxn"] = 0
    words, counts = _dictionary(reader, settings, errors)
    matrix = reader.matrix("input")
    bucket = len(matrix) - len(words)
    if matrix.shape[1] != settings["dim"] or bucket < 0 or (settings["maxn"] > 0 and bucket != settings["bucket"]):
        reader.refuse(
            f"an input matrix of {matrix.shape[0]:,} x {matrix.shape[1]:,} for {len(words):,} words, "
            f"{settings['bucket']:,} buckets and {settings['dim']} dimensions"
        )
    output: Array | None = reader.matrix("output")
    if reader.at != len(reader.data):
        reader.refuse(f"{len(reader.data) - reader.at:,} bytes too many at the end")
    if settings["model"] == _SUPERVISED or (output is not None and output.shape != (len(words), settings["dim"])):
        output = None
    shortest, longest = (max(1, settings["minn"]), settings["maxn"]) if settings["maxn"] > 0 else (0, 0)
    if longest > _MOST_WORD:
        reader.refuse(f"n-grams of up to {longest} characters")
    buckets = matrix[len(words) :] if longest else matrix[:0]
    subwords = Subwords(shortest, longest, buckets, matrix[: len(words)], output, settings)
    return Vectors(words, SubwordRows(words, subwords), subwords=subwords, counts=counts, path=path)


def _dictionary(reader: _Reader, settings: dict[str, Json], errors: str) -> tuple[WordList, list[int]]:
    size, words, labels = reader.unpack("iii")
    settings["ntokens"], pruned = reader.unpack("qq")
    if min(size, words, labels) < 0 or size != words + labels or size * 10 > len(reader.data) - reader.at:
        reader.refuse(f"a dictionary of {size:,} entries, {words:,} words and {labels:,} labels")
    if pruned >= 0:
        reader.refuse("the dictionary is pruned: only whole models are read")
    data, find, unpack = reader.data, reader.data.find, struct.Struct("<qb").unpack_from
    names, counts, at = list[bytes](), list[int](), reader.at
    for i in range(size):
        end = find(b"\0", at, at + _MOST_WORD)
        if end < 0 or end + 10 > len(data):
            reader.refuse(f"entry {i + 1:,} of the dictionary does not end")
        count, kind = unpack(data, end + 1)
        if (kind == 0) != (i < words):
            reader.refuse(f"entry {i + 1:,} of the dictionary is of kind {kind}")
        names.append(data[at:end])
        counts.append(count)
        at = end + 10
    reader.at = at
    blob = b"\n".join(names[:words])
    if blob.count(b"\n") != max(0, words - 1):
        reader.refuse("a word of the dictionary contains a newline")
    return WordList(checks.decode_words(blob, reader.path, errors), words), counts[:words]


# -- writing ----------------------------------------------------------------------------------------------------------


def save(vectors: Vectors, path: str, *, force: bool = False) -> None:
    """Write a model of version 12, which fastText and gensim load, with the n-grams if `vectors` has them.

    Without n-grams the input rows are the vectors. Unknown output vectors are zeros, unknown counts fall from V to 1.

    Raises:
        OutputError: the file exists.
        UsageError: a word contains the byte 0, which ends words in this format.
        StreamError: a write failed.
    """
    with LineWriter(path, force=force, layout=None) as out:
        _write(vectors, out)


def _write(vectors: Vectors, out: LineWriter) -> None:
    count, dimensions, subwords = len(vectors), vectors.dimensions, vectors.subwords
    words = vectors.words.list()
    if any("\0" in word for word in words):
        raise UsageError("a word contains the byte 0, which fastText's format cannot represent")
    counts = list(vectors.counts) if vectors.counts is not None else list(range(count, 0, -1))
    bucket = len(subwords.buckets) if subwords is not None else 0
    settings = _settings(vectors, bucket)
    out.write(struct.pack("<ii12id", MAGIC, VERSION, *(int(settings[name]) for name in _SETTINGS), settings["t"]))
    out.write(struct.pack("<iiiqq", count, count, 0, int(settings.get("ntokens", sum(counts))), -1))
    for first in range(0, count, 1 << 16):
        part = zip(words[first : first + (1 << 16)], counts[first : first + (1 << 16)], strict=True)
        out.write(b"".join(word.encode("utf-8", "surrogatepass") + struct.pack("<xqb", n, 0) for word, n in part))
    out.write(struct.pack("<Bqq", 0, count + bucket, dimensions))
    for part_rows in _input_rows(vectors):
        out.write(part_rows.astype("<f4", copy=False).tobytes())
    out.write(struct.pack("<Bqq", 0, count, dimensions))
    for start, rows in vectors.blocks():
        known = None if subwords is None or subwords.output is None else subwords.output[start : start + len(rows)]
        out.write((np.zeros_like(rows) if known is None else np.asarray(known, "<f4")).tobytes())


def _settings(vectors: Vectors, bucket: int) -> dict[str, float]:
    """The known settings of fastText, by fastText's names."""
    subwords = vectors.subwords
    known = subwords.settings if subwords is not None else {}
    settings = {**_DEFAULTS, **known, "dim": vectors.dimensions, "bucket": bucket}
    if settings["model"] == _SUPERVISED:
        settings |= {"model": _SKIP_GRAM, "loss": _NEGATIVE_SAMPLING, "wordNgrams": 1}
    if subwords is not None and bucket:
        return {**settings, "minn": subwords.shortest, "maxn": subwords.longest}
    return {**settings, "minn": known.get("minn", 0), "maxn": 0}


def _input_rows(vectors: Vectors) -> Iterator[Floats]:
    """The rows of words, then the rows of n-grams, a block at a time."""
    if vectors.subwords is None:
        yield from (rows for _, rows in vectors.blocks())
        return
    for array in (vectors.subwords.own, vectors.subwords.buckets):
        for start in range(0, len(array), 16384):
            rows = np.asarray(array[start : start + 16384], np.float32)
            checks.check_finite(rows, start, vectors.path)
            yield rows
