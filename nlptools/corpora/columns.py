"""Long arrays in files: written piece by piece, read by slices, so that they need not fit in memory.

Finished ones lie side by side in a safetensors file: the length of the header (8 bytes), the header (JSON: type, shape, and
first and last byte of each array), the arrays.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, overload

import numpy as np
from numpy.typing import DTypeLike

from nlptools.arrays import Array
from nlptools.errors import BundleError, InputError, StreamError, display, reason
from nlptools.files import atomic

_TYPES: dict[str, np.dtype[np.generic]] = {
    "I64": np.dtype(np.int64),
    "F64": np.dtype(np.float64),
    "I32": np.dtype(np.int32),
    "F32": np.dtype(np.float32),
}
_NAMES = {dtype: name for name, dtype in _TYPES.items()}
_HEADER = 1 << 20  # bytes, at most
_PIECE = 1 << 20  # numbers copied at a time


class Column:
    """An array of numbers in a file. Slices are read from the file at each use."""

    def __init__(self, path: Path, dtype: np.dtype[np.generic], length: int, offset: int = 0) -> None:
        """`offset` is the first byte."""
        self.path, self.dtype, self.offset = path, dtype, offset
        self._length = length

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, places: slice) -> Array: ...
    @overload
    def __getitem__(self, places: int) -> np.generic: ...
    def __getitem__(self, places: slice | int) -> Array | np.generic:
        """The numbers of a slice without step, or a single one. Raises InputError if the file cannot be read."""
        if not isinstance(places, slice):
            first: np.generic = self[places : places + 1][0]
            return first
        start, end, _ = places.indices(self._length)
        out = np.empty(max(0, end - start), self.dtype)
        try:
            with open(self.path, "rb", buffering=0) as file:
                file.seek(self.offset + start * self.dtype.itemsize)
                rest = memoryview(out.view(np.uint8).data)
                while len(rest) and (read := file.readinto(rest)):
                    rest = rest[read:]
        except OSError as error:
            raise InputError(f"{display(str(self.path))}: {reason(error)}") from None
        if len(rest):
            raise InputError(f"{display(str(self.path))}: the file ends too early")
        return out

    def mapped(self) -> Array:
        """The whole array, mapped into memory for reading."""
        if not self._length:
            return np.empty(0, self.dtype)
        return np.asarray(np.memmap(self.path, self.dtype, "r", self.offset, (self._length,)))


class ColumnWriter:
    """Writes a `Column` to a new file, which is open only while numbers are written."""

    def __init__(self, path: Path, dtype: DTypeLike) -> None:
        """Raises StreamError, as `append` does: disk full or another write error."""
        self._path, self._dtype, self._length = path, np.dtype(dtype), 0
        self._write("wb", b"")

    def append(self, numbers: Array) -> None:
        """Append numbers."""
        self._write("ab", np.ascontiguousarray(numbers, self._dtype).data)
        self._length += len(numbers)

    def close(self) -> Column:
        """The array."""
        return Column(self._path, self._dtype, self._length)

    def _write(self, mode: str, data: bytes | memoryview) -> None:
        try:
            with open(self._path, mode) as file:
                file.write(data)
        except OSError as error:
            raise StreamError(f"{display(str(self._path))}: write failed: {reason(error)}") from None


def pieces(column: Column | Array, size: int = _PIECE) -> Iterator[Array]:
    """The numbers of an array, some at a time."""
    for start in range(0, len(column), size):
        yield column[start : start + size]


def in_memory(column: Column | Array) -> Array:
    """The array itself, or the one in a file, mapped."""
    return column.mapped() if isinstance(column, Column) else column


# -- safetensors --------------------------------------------------------------------------------------------------------


def save(path: Path, columns: Mapping[str, Column | Array]) -> None:
    """Write arrays to a safetensors file atomically, a piece at a time. Raises StreamError."""
    names = sorted(columns, key=lambda name: (-columns[name].dtype.itemsize, name))  # aligned
    header, end = {}, 0
    for name in names:
        start, end = end, end + len(columns[name]) * columns[name].dtype.itemsize
        shape = [len(columns[name])]
        header[name] = {"dtype": _NAMES[columns[name].dtype], "shape": shape, "data_offsets": [start, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)

    def fill(stream: IO[bytes]) -> None:
        stream.write(len(text).to_bytes(8, "little") + text)
        for name in names:
            for piece in pieces(columns[name]):
                stream.write(np.ascontiguousarray(piece).data)

    atomic.fill(path, fill)


def open_columns(path: Path) -> dict[str, Column]:
    """The arrays of a safetensors file, by name.

    Raises:
        InputError: no such file.
        BundleError: not a safetensors file of flat arrays.
    """
    try:
        with open(path, "rb") as file:
            size = int.from_bytes(file.read(8), "little")
            header = json.loads(file.read(min(size, _HEADER)))
            whole = os.fstat(file.fileno()).st_size - 8 - size
        if whole < 0:
            raise ValueError
        columns = {}
        for name, entry in header.items():
            dtype, (start, end), (length,) = _TYPES[entry["dtype"]], entry["data_offsets"], entry["shape"]
            if not 0 <= start <= end <= whole or end - start != length * dtype.itemsize:
                raise ValueError
            columns[name] = Column(path, dtype, length, 8 + size + start)
    except OSError as error:
        raise InputError(f"{display(str(path))}: {reason(error)}") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise BundleError(f"{display(str(path))}: damaged: not a file of arrays") from None
    return columns
