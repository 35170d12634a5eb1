"""NumPy's `.npy`: an array of vectors, with its words in a second file of text.

`NAME.npy` has its words in `NAME.vocab.tsv`: per line a word, or a word, a tab and a count. An array in a file is mapped,
which takes no time, however large it is. From pipes and compressed files, arrays one after the other, as `nlptools embed`
writes them, are read as one array in memory; nothing is allocated from what a header claims.
"""

from __future__ import annotations

import contextlib
import io
import os
import tokenize
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NoReturn

import numpy as np

from nlptools.arrays import Array
from nlptools.errors import BundleError, InputError, display, reason
from nlptools.files import compression, line_records, streams
from nlptools.files.line_records import escape
from nlptools.files.streams import LineWriter
from nlptools.vectors import checks
from nlptools.vectors.table import Vectors
from nlptools.vectors.words import WordList

MAGIC = b"\x93NUMPY"
DTYPES = {"float32": "<f4", "float16": "<f2"}
_PIECE = 1 << 22  # bytes read at a time
_MATRIX_HEADER = 128  # bytes, enough for any number of rows


# -- reading ----------------------------------------------------------------------------------------------------------

_DAMAGED = (ValueError, EOFError, SyntaxError, TypeError, tokenize.TokenError)  # what numpy raises for a damaged header


def read(path: str, errors: str = "strict") -> Vectors:
    """The vectors of `NAME.npy` and `NAME.vocab.tsv`. Raises InputError, BundleError."""
    array = load_array(path)
    if not os.path.exists(words_beside(path)):
        raise InputError(
            f"{display(path)}: an array without words: no {display(words_beside(path))}",
            hint="neighbors and project take the text that was embedded as --lines FILE",
        )
    words, counts = read_words(words_beside(path), errors)
    return Vectors(words, array, counts=counts, path=path)


def words_beside(path: str) -> str:
    """The name of the list of words, or lines, of `NAME.npy`."""
    return str(Path(path).with_suffix(".vocab.tsv"))


def load_array(path: str, types: str = "f") -> Array:
    """A matrix, memory-mapped if it is a single array in an uncompressed file.

    Args:
        types: accepted kinds of numbers, as in numpy's `dtype.kind`; with "1", the array is a vector.

    Raises:
        InputError: no such file.
        BundleError: not such an array.
    """
    if "1" not in types and (path == "-" or compression.is_compressed(path) or streams.is_pipe_or_device(path)):
        return read_arrays(path, types)
    try:
        with np.errstate(over="raise"), _quiet():  # a size beyond 64 bits
            array = np.load(path, mmap_mode="r")
    except FileNotFoundError:
        raise InputError(f"{display(path)}: no such file") from None
    except OSError as error:
        raise InputError(f"{display(path)}: {reason(error)}") from None
    except (*_DAMAGED, ArithmeticError) as error:
        _refuse(error, path)
    dimensions = 1 if "1" in types else 2
    if not isinstance(array, np.ndarray) or array.ndim != dimensions or array.dtype.kind not in types:
        checks.refuse(path, f"expected a {'vector' if dimensions == 1 else 'matrix'} of numbers")
    if dimensions == 2 and not 1 <= array.shape[1] <= checks.MOST_DIMENSIONS:
        checks.refuse(path, f"{array.shape[1]} dimensions")
    return read_arrays(path, types) if _is_followed(array, path) else array


def _is_followed(array: Array, path: str) -> bool:
    """Whether another array follows the first one in a file, such as saved output of a pipe."""
    if array.ndim != 2 or not isinstance(array, np.memmap):
        return False
    with open(path, "rb") as stream:
        stream.seek(array.offset + array.nbytes)
        return stream.read(len(MAGIC)) == MAGIC


def read_arrays(path: str, types: str = "f", opened: io.BufferedReader | None = None) -> Array:
    """The rows of all arrays in a file or stream (`-`), compressed or not: one array in memory (N, D).

    Args:
        types: accepted kinds of numbers, as in numpy's `dtype.kind`.
        opened: the stream, if it is open already.

    Raises:
        InputError: no such file.
        BundleError: not matrices of one width and type, or the input ends inside one.
    """
    data, dtype, width = bytearray(), None, 0
    with opened or streams.open_bytes(path) as stream:
        while stream.peek(1):
            shape, fortran, kind = _read_header(stream, path)
            if len(shape) != 2 or kind.kind not in types or fortran:
                checks.refuse(path, "expected matrices of numbers, row by row")
            if not 1 <= shape[1] <= checks.MOST_DIMENSIONS:
                checks.refuse(path, f"{shape[1]} dimensions")
            if (kind, shape[1]) != (dtype or kind, width or shape[1]):
                checks.refuse(path, f"an array of {shape[1]} {kind} after arrays of {width} {dtype}")
            dtype, width = kind, shape[1]
            _append(data, stream, shape[0] * shape[1] * kind.itemsize, path)
    if dtype is None:
        checks.refuse(path, "the file is empty")
    return np.frombuffer(data, dtype).reshape(-1, width)


def _read_header(stream: io.BufferedReader, path: str) -> tuple[tuple[int, ...], bool, np.dtype[np.generic]]:
    try:
        version = np.lib.format.read_magic(stream)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        with _quiet():
            shape, fortran, dtype = read(stream)
    except (*_DAMAGED, OverflowError, RecursionError) as error:
        _refuse(error, path)
    return shape, fortran, dtype


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Context without numpy's advice to save files of Python 2 anew."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _refuse(error: Exception, path: str) -> NoReturn:
    raise BundleError(f"{display(path)}: not a readable array: {' '.join(str(error).split())[:120]}") from None


def _append(data: bytearray, stream: io.BufferedReader, size: int, path: str) -> None:
    """Append the next `size` bytes of a stream to `data`."""
    while size:
        piece = stream.read(min(size, _PIECE))
        if not piece:
            checks.refuse(path, f"the input ends inside an array, {size:,} bytes before its end")
        data += piece
        size -= len(piece)


def read_words(path: str, errors: str) -> tuple[WordList, list[int] | None]:
    """The words of a file and, if all lines have them, their counts. Raises BundleError."""
    with streams.open_bytes(path) as stream:
        data = stream.read()
    text = checks.decode_words(data, path, errors)
    if not any(mark in text for mark in "\\\t\r"):  # no escapes, no counts
        plain = text.removesuffix("\n")
        return WordList(plain, plain.count("\n") + 1 if text else 0), None
    lines = text.replace("\r\n", "\n").removesuffix("\n").split("\n")
    fields = [line_records.fields(line) for line in lines]
    for number, row in enumerate(fields, 1):
        if len(row) > 2 or (len(row) == 2 and not (row[1].isascii() and row[1].isdigit())) or "\n" in row[0]:
            checks.refuse(path, "expected a word, or a word, a tab and a count", line=number)
    counts = [int(row[1]) for row in fields if len(row) == 2]
    return WordList.of(row[0] for row in fields), counts if len(counts) == len(fields) else None


# -- writing ----------------------------------------------------------------------------------------------------------


def save(vectors: Vectors, path: str, *, force: bool = False) -> None:
    """Write `NAME.npy` and `NAME.vocab.tsv`. Raises OutputError if one of them exists, StreamError."""
    with LineWriter(words_beside(path), force=force) as words, LineWriter(path, force=force, layout="npy") as out:
        write_words(vectors, words)
        write_array(out, (len(vectors), vectors.dimensions), (rows for _, rows in vectors.blocks()))


def write_words(vectors: Vectors, out: LineWriter) -> None:
    """Write the words and, if they are known, their counts. Raises StreamError."""
    words, counts = vectors.words.list(), vectors.counts
    for start in range(0, len(words), 1 << 16):
        part = words[start : start + (1 << 16)]
        ends = ["\n"] * len(part) if counts is None else [f"\t{n}\n" for n in counts[start : start + len(part)]]
        out.write("".join(escape(word) + end for word, end in zip(part, ends, strict=True)))


def write_array(out: LineWriter, shape: tuple[int, ...], parts: Iterable[Array], dtype: str = "<f4") -> None:
    """Write an array, given as parts of its rows. Raises StreamError."""
    text = repr({"descr": dtype, "fortran_order": False, "shape": shape})
    out.write(_header(text, -(-(len(text) + 11) // 64) * 64))
    for part in parts:
        out.write(np.ascontiguousarray(part, dtype).tobytes())


def matrix_header(rows: int, dimensions: int, dtype: str) -> bytes:
    """The header of a matrix of "float32" or "float16", of the same length for any number of rows."""
    return _header(
        f"{{'descr': '{DTYPES[dtype]}', 'fortran_order': False, 'shape': ({rows}, {dimensions}), }}", _MATRIX_HEADER
    )


def _header(text: str, size: int) -> bytes:
    """A header of `size` bytes, a multiple of 64 so that the data is aligned."""
    return MAGIC + b"\x01\x00" + (size - 10).to_bytes(2, "little") + text.ljust(size - 11).encode("ascii") + b"\n"
