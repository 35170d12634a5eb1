"""Comparison of rows with queries: cosine, Euclidean distance and dot product, a block of rows at a time.

Shapes: Q queries, V words of the table, D dimensions, B rows of a block, N candidates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from nlptools.arrays import Doubles, Floats
from nlptools.vectors import checks
from nlptools.vectors.rows import VectorRows
from nlptools.vectors.subwords import Subwords
from nlptools.vectors.words import WordList


class SearchTable(Protocol):
    """The part of `nlptools.vectors.table.Vectors` that a search uses."""

    words: WordList
    rows: VectorRows
    subwords: Subwords | None
    path: str
    factors: Floats | None

    def __len__(self) -> int: ...
    @property
    def dimensions(self) -> int: ...
    def vector(self, word: str) -> Floats | None: ...
    def take(self, places: Sequence[int]) -> Floats: ...
    def blocks(
        self, end: int | None = None, *, check: bool = True, most: int = 16384
    ) -> Iterator[tuple[int, Floats]]: ...


Blocks = Iterator[tuple[int, Floats]]  # the first row, and scores (Q, B), which may be overwritten by the next block


class Metric(NamedTuple):
    """A way to compare vectors. Higher scores are nearer, so the score of a distance is negative.

    Attributes:
        unit: whether vectors and sums of vectors are scaled to length 1 first.
        sign: of the number that users see, relative to the score.
        blocks: scores for the selection of candidates: of a table, queries (Q, D), the rows to search and rows per block.
        exact: scores (N,), float64, of rows (N, D) and as many queries. They have the same order as `blocks`.
    """

    unit: bool
    sign: int
    blocks: Callable[[SearchTable, Floats, int, int], Blocks]
    exact: Callable[[Doubles, Floats], Doubles]


def _cosines(vectors: SearchTable, directions: Floats, last: int, most: int) -> Blocks:
    products = np.empty((len(directions), min(most, last)), np.float32)
    units = np.empty((min(most, last), vectors.dimensions), np.float32)
    for start, rows, factors in _factors(vectors, last, most):
        if len(rows) != products.shape[1]:  # the last block
            products = np.empty((len(directions), len(rows)), np.float32)
        if len(directions) < vectors.dimensions:
            np.matmul(directions, rows.T, out=products)
            products *= factors
        else:
            np.matmul(directions, np.multiply(rows, factors[:, None], out=units[: len(rows)]).T, out=products)
        yield start, products


def _dots(vectors: SearchTable, directions: Floats, last: int, most: int) -> Blocks:
    for start, rows, _ in _factors(vectors, last, most):
        yield start, directions @ rows.T


def _distances(vectors: SearchTable, directions: Floats, last: int, most: int) -> Blocks:
    """Negative squares of distances. They are differences of large numbers, so float64 computes them."""
    queries = directions.astype(np.float64)
    squares_Q1 = np.einsum("ij,ij->i", queries, queries)[:, None]
    for start, block, _ in _factors(vectors, last, most):
        rows = block.astype(np.float64)
        squares_B = np.einsum("ij,ij->i", rows, rows)
        yield start, (2 * (queries @ rows.T) - squares_Q1 - squares_B).astype(np.float32)


def _exact_dots(rows: Doubles, queries: Floats) -> Doubles:
    return np.asarray(np.einsum("ij,ij->i", rows, queries, dtype=np.float64))


def _exact_distances(rows: Doubles, queries: Floats) -> Doubles:
    return np.asarray(-np.linalg.norm(rows - queries, axis=1))


COSINE = Metric(True, 1, _cosines, _exact_dots)
METRICS = {
    "cosine": COSINE,
    "euclidean": Metric(False, -1, _distances, _exact_distances),
    "dot": Metric(False, 1, _dots, _exact_dots),
}


def _factors(vectors: SearchTable, last: int, most: int) -> Iterator[tuple[int, Floats, Floats]]:
    """(first row, rows, factors that scale them to length 1), in blocks. Factors are computed once; 0 for rows of zeros."""
    known = vectors.factors is not None and len(vectors.factors) >= last
    factors = vectors.factors if known and vectors.factors is not None else np.empty(last, np.float32)
    for start, rows in vectors.blocks(last, check=False, most=most):
        here = factors[start : start + len(rows)]
        if not known:
            with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
                squares = np.einsum("ij,ij->i", rows, rows)
                np.divide(np.float32(1), np.sqrt(squares), out=here)
            if not np.isfinite(squares).all():
                checks.check_finite(rows, start, vectors.path)
                checks.refuse(vectors.path, f"a vector among words {start + 1:,} to {start + len(rows):,} is too long")
            here[squares == 0] = 0
        yield start, rows, here
    if not known:
        vectors.factors = factors
