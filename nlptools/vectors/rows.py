"""Rows of vectors that are read a part at a time: in memory, mapped from a file, or computed from other rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

import numpy as np

from nlptools.arrays import Array, Doubles, Floats, Longs
from nlptools.vectors import checks

Places = slice | Sequence[int]  # a slice has a start and an end
BLOCK_NUMBERS = 1 << 22  # numbers processed at a time: 16 MiB of float32


class VectorRows(Protocol):
    """V vectors of D numbers."""

    shape: tuple[int, int]

    def take(self, places: Places) -> Floats:
        """The rows at `places`, float32 (N, D), contiguous."""


def index(places: Places) -> slice | list[int]:
    """`places` as an index of arrays."""
    return places if isinstance(places, slice) else list(places)


class ArrayRows:
    """Rows of an array, in memory or memory-mapped: float32, another float type, or int8 with a scale per row."""

    def __init__(self, array: Array, scales: Floats | None = None) -> None:
        self.array = array
        self.scales = scales
        self.shape: tuple[int, int] = (array.shape[0], array.shape[1])

    def take(self, places: Places) -> Floats:
        which = index(places)
        rows = np.ascontiguousarray(self.array[which], np.float32)
        return rows if self.scales is None else rows * self.scales[which][:, None]


class ChosenRows:
    """Some of the rows of a table, in a given order."""

    def __init__(self, rows: VectorRows, places: Longs) -> None:
        self.shape: tuple[int, int] = (len(places), rows.shape[1])
        self._rows, self._places = rows, places

    def take(self, places: Places) -> Floats:
        return self._rows.take(self._places[index(places)].tolist())


class ChangedRows:
    """Rows that a function of whole rows, float32 (N, D) to (N, D), changes when they are read.

    Rows that are not finite are refused with a BundleError about `path`.
    """

    def __init__(self, rows: VectorRows, change: Callable[[Floats], Floats], path: str) -> None:
        self.shape = rows.shape
        self._rows, self._change, self._path = rows, change, path

    def take(self, places: Places) -> Floats:
        rows = self._rows.take(places)
        checks.check_finite(rows, places.start if isinstance(places, slice) else places, self._path)
        return self._change(rows)


def scaled(rows: Array) -> Doubles:
    """`rows` (N, D) at length 1, float64; rows of zeros stay zeros."""
    lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows, dtype=np.float64))
    lengths[lengths == 0] = 1
    return np.asarray(rows / lengths[:, None])


def unit(rows: Array) -> Floats:
    """`rows` (N, D) at length 1, float32; rows of zeros stay zeros."""
    out: Floats = np.empty(rows.shape, np.float32)
    for start, end in blocks_of(rows):
        out[start:end] = scaled(rows[start:end])
    return out


def blocks_of(rows: Array) -> Iterator[tuple[int, int]]:
    """(start, end) of blocks of rows (N, D) with up to `BLOCK_NUMBERS` numbers."""
    return spans(len(rows), max(1, BLOCK_NUMBERS // max(1, rows.shape[1])))


def spans(count: int, size: int) -> Iterator[tuple[int, int]]:
    """(start, end) of consecutive parts of `count` things, `size` at a time."""
    for start in range(0, count, size):
        yield start, min(start + size, count)
