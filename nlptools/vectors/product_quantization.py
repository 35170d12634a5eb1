"""Vectors as codes of a byte for every few dimensions: product quantization (Jegou et al. 2011, TPAMI 33(1)).

The dimensions are split into M parts. Each part of a vector is replaced by the number of the nearest of up to 256
centroids, which k-means finds on a sample. Lengths are stored separately, as with fastText's -qnorm: centroids are learned
from vectors of length 1, and a scale per row restores its length exactly. D need not be a multiple of M: the first D mod M parts
are one dimension longer.
Shapes: V words, D dimensions, M parts, C centroids, N rows of the sample.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nlptools.arrays import Array, Floats
from nlptools.vectors import checks
from nlptools.vectors.rows import Places, index, unit
from nlptools.vectors.table import Vectors

Bytes = NDArray[np.uint8]
CENTROIDS = 256  # numbers in a byte
_SAMPLE = 64 * CENTROIDS  # rows that the centroids are learned from
_ROUNDS = 25
_BLOCK = 2048  # rows per block: their distances to all centroids fit in the cache


class Product(NamedTuple):
    """Codes uint8 (V, M), centroids float32 (C, D), scales float32 (V,).

    Row i is approximately scales[i] times the centroids of its codes, one after the other. A part has the columns `bounds`
    of `centroids`.
    """

    codes: Array
    centroids: Floats
    scales: Array


class ProductRows:
    """Rows of a table that are decoded when they are read."""

    def __init__(self, product: Product, path: str = "vectors") -> None:
        self.product, self.path = product, path
        self.shape: tuple[int, int] = (len(product.codes), product.centroids.shape[1])
        self._bounds = bounds(self.shape[1], product.codes.shape[1])

    def take(self, places: Places) -> Floats:
        """See `Rows`. Raises BundleError for a code without a centroid."""
        which = index(places)
        codes, centroids = np.asarray(self.product.codes[which]), self.product.centroids
        if codes.size and int(codes.max()) >= len(centroids):
            checks.refuse(self.path, f"a code is {int(codes.max())}, and there are {len(centroids)} centroids")
        out = np.empty((len(codes), self.shape[1]), np.float32)
        for part, (first, last) in enumerate(self._bounds):
            out[:, first:last] = centroids[codes[:, part], first:last]
        out *= np.asarray(self.product.scales[which], np.float32)[:, None]
        return out


def bounds(dimensions: int, parts: int) -> list[tuple[int, int]]:
    """(first column, last + 1) of each part; the first parts are one longer if they cannot be equal."""
    size, longer = divmod(dimensions, parts)
    starts = [part * size + min(part, longer) for part in range(parts + 1)]
    return list(pairwise(starts))


def quantize(vectors: Vectors, parts: int, seed: int = 1) -> Product:
    """The codes of all vectors, `parts` bytes each; reproducible by seed. Raises BundleError."""
    dimensions = vectors.dimensions
    pieces = bounds(dimensions, parts)
    rng = np.random.default_rng(seed)
    count = min(_SAMPLE, len(vectors))
    drawn = np.sort(rng.choice(len(vectors), count, replace=False))
    sample = unit(vectors.take(drawn.tolist()))
    centroids: Floats = np.zeros((min(CENTROIDS, count), dimensions), np.float32)
    for first, last in pieces:
        centroids[:, first:last] = kmeans(sample[:, first:last], len(centroids), rng)
    codes: Bytes = np.empty((len(vectors), parts), np.uint8)
    scales: Floats = np.empty(len(vectors), np.float32)
    for start, rows in vectors.blocks():
        directions, lengths = unit(rows), np.linalg.norm(rows.astype(np.float64), axis=1)
        here = slice(start, start + len(rows))
        for part, (first, last) in enumerate(pieces):
            codes[here, part] = nearest(directions[:, first:last], centroids[:, first:last])
        decoded = ProductRows(Product(codes[here], centroids, np.ones(len(rows), np.float32))).take(slice(0, len(rows)))
        decoded_lengths = np.linalg.norm(decoded.astype(np.float64), axis=1)
        scales[here] = lengths / np.where(decoded_lengths > 0, decoded_lengths, 1)
    return Product(codes, centroids, scales)


def kmeans(rows: Floats, count: int, rng: np.random.Generator, rounds: int = _ROUNDS) -> Floats:
    """`count` centroids of `rows` (N, D), float32 (count, D); Lloyd's iterations from rows drawn by `rng`.

    A centroid without rows moves to the row that is farthest from its centroid.
    """
    rows = np.ascontiguousarray(rows, np.float32)
    centroids: Floats = rows[rng.choice(len(rows), count, replace=False)] if count else rows[:0]
    owner = np.full(len(rows), -1)
    for _ in range(rounds if count else 0):
        before, owner = owner, nearest(rows, centroids).astype(np.int64)
        if np.array_equal(before, owner):
            break
        sizes = np.bincount(owner, minlength=count)
        for column in range(rows.shape[1]):
            sums = np.bincount(owner, rows[:, column], minlength=count)
            centroids[:, column] = sums / np.maximum(sizes, 1)
        empty = np.flatnonzero(sizes == 0)
        if len(empty):
            distances = ((rows - centroids[owner]) ** 2).sum(axis=1)
            centroids[empty] = rows[np.argsort(-distances, kind="stable")[: len(empty)]]
    return centroids


def nearest(rows: Floats, centroids: Floats) -> Bytes:
    """The number of the nearest centroid of each row, the first among equals, uint8 (N,)."""
    out: Bytes = np.empty(len(rows), np.uint8)
    half = (centroids.astype(np.float64) ** 2).sum(axis=1) / 2
    # |x - c|^2 is smallest where x c - |c|^2 / 2 is largest: one matrix product with a column of ones
    wide = np.concatenate([centroids, -half[:, None]], axis=1).astype(np.float32).T
    for start in range(0, len(rows), _BLOCK):
        block = rows[start : start + _BLOCK]
        ones = np.ones((len(block), 1), np.float32)
        out[start : start + len(block)] = (np.concatenate([block, ones], axis=1) @ wide).argmax(axis=1)
    return out
