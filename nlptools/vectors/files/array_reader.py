"""Vectors without a table behind them: `.npy` arrays one behind the other, JSON lines of texts with their vectors, and which
of them a stream without a name begins.

Both are what `nlptools embed` writes to a pipe. Nothing is allocated on the word of a header: memory follows what has been
read. All is in memory at the end, which what a pipe brings must be if it shall be searched; a file with one array is
mapped (`nlptools.vectors.files.directory`).
"""

from __future__ import annotations

import io
import json
from typing import Any, NoReturn

import numpy as np

from nlptools import messages
from nlptools.errors import BundleError, DataError, display
from nlptools.files import streams
from nlptools.files.line_records import parse_json_object
from nlptools.vectors import checks
from nlptools.vectors.table import Floats, Vectors, Words

MAGIC = b"\x93NUMPY"
_PIECE = 1 << 22
_NAMES = ("text", "word", "token", "id")  # of a record, in order of preference

Array = np.ndarray[Any, Any]


def recognized(stream: io.BufferedReader) -> str:
    """The format that the first byte of a stream means, without taking it: npy, jsonl, else word2vec, its text."""
    first = stream.peek(1)[:1]
    return "npy" if first == MAGIC[:1] else "jsonl" if first == b"{" else "word2vec"


# -- npy --------------------------------------------------------------------------------------------------------------


def read_arrays(path: str, types: str = "f", opened: io.BufferedReader | None = None) -> Array:
    """The rows of all arrays in a file or stream (`-`), compressed or not, one array in memory (N, D).

    Args:
        types: kinds of numbers that are taken, as numpy's `dtype.kind`.
        opened: the stream, where it is open already.

    Raises:
        InputError: no such file.
        BundleError: something else than matrices of one width and type, or the end of the input inside one.
    """
    data, dtype, width = bytearray(), None, 0
    with opened or streams.open_bytes(path) as stream:
        while stream.peek(1):
            shape, fortran, kind = _header(stream, path)
            if len(shape) != 2 or kind.kind not in types or fortran:
                checks.refuse(path, "expected matrices of numbers, their rows one behind the other")
            if not 1 <= shape[1] <= checks.MOST_DIMENSIONS:
                checks.refuse(path, f"{shape[1]} dimensions")
            if (kind, shape[1]) != (dtype or kind, width or shape[1]):
                checks.refuse(path, f"an array of {shape[1]} {kind} behind arrays of {width} {dtype}")
            dtype, width = kind, shape[1]
            _append(data, stream, shape[0] * shape[1] * kind.itemsize, path)
    if dtype is None:
        checks.refuse(path, "the file is empty")
    return np.frombuffer(data, dtype).reshape(-1, width)


def _header(stream: io.BufferedReader, path: str) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    try:
        version = np.lib.format.read_magic(stream)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, fortran, dtype = read(stream)
    except (ValueError, EOFError, SyntaxError, TypeError, OverflowError, RecursionError) as error:
        _refuse_array(path, error)
    return shape, fortran, dtype


def _refuse_array(path: str, error: Exception) -> NoReturn:
    raise BundleError(f"{display(path)}: not a readable array: {' '.join(str(error).split())[:120]}") from None


def _append(data: bytearray, stream: io.BufferedReader, size: int, path: str) -> None:
    """Read `size` bytes behind `data`."""
    while size:
        piece = stream.read(min(size, _PIECE))
        if not piece:
            checks.refuse(path, f"the input ends inside an array, {size:,} bytes before its end")
        data += piece
        size -= len(piece)


# -- JSON lines -------------------------------------------------------------------------------------------------------


def read_records(path: str, errors: str = "strict", opened: io.BufferedReader | None = None) -> Vectors:
    """Texts and vectors of JSON lines: {"text": ..., "embedding": [...]}; without a text, rows are named by numbers from 0.

    Raises:
        InputError: no such file.
        BundleError: a line is not such an object, or vectors differ in length; with the line.
    """
    names: list[str] = []
    rows: list[Floats] = []
    joined = number = 0
    try:
        for chunk in streams.line_chunks(path, _PIECE, opened=opened):
            for line in chunk.removesuffix(b"\n").split(b"\n"):
                number += 1
                name, row = parse_record(_decoded(line, path, number, errors), path, number)
                if rows and len(row) != len(rows[0]):
                    checks.refuse(path, f"expected {len(rows[0])} numbers, found {len(row)}", line=number)
                joined += "\n" in name
                names.append(" ".join(name.split("\n")) if "\n" in name else name)
                rows.append(row)
    except DataError as error:
        raise BundleError(str(error), hint=error.hint) from None
    if not rows:
        checks.refuse(path, "the file is empty")
    if joined:
        told = messages.counted(joined, "text of several lines is", "texts of several lines are")
        messages.warn(f"{display(path)}: {told} shown on one")
    return Vectors(Words.of(names), np.stack(rows), path=path)


def _decoded(line: bytes, path: str, number: int, errors: str) -> str:
    try:
        return line.decode("utf-8-sig" if number == 1 else "utf-8", errors)
    except UnicodeDecodeError:
        streams.refuse_invalid(path, number, [line])
        raise


def parse_record(line: str, path: str, number: int) -> tuple[str, Floats]:
    """The text and the vector (D,) in one line of JSON; without a text, its number from 0. Raises DataError."""
    record = parse_json_object(line, path, number)
    found = record.get("embedding")
    try:
        numbers = np.array(found)
    except ValueError:  # lists of several lengths
        numbers = np.empty(0)
    with np.errstate(over="ignore"):
        row = numbers.astype(np.float32) if numbers.dtype.kind in "fiu" else np.empty(0, np.float32)
    if row.ndim != 1 or not len(row) or not np.isfinite(row).all():
        raise DataError('expected finite numbers under "embedding"', path=path, line=number)
    name: Any = next((record[key] for key in _NAMES if key in record), number - 1)
    return name if isinstance(name, str) else json.dumps(name, ensure_ascii=False), row
