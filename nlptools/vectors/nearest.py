"""Nearest words and analogies, for many queries at once: by cosine, Euclidean distance or dot product.

Rows are read a block at a time and compared with all queries in one matrix product; for cosines they are scaled to length 1.
The scores of a block fit in the cache, where one comparison finds those above the k-th best so far; these candidates are
sorted now and then. Memory does not grow with the vocabulary. Lengths of rows are computed in the first pass and kept. The
scores of the final candidates are computed again in float64, so that an answer does not depend on the other queries.

Expressions: `add` is 3CosAdd (Mikolov et al. 2013: add and subtract the unit vectors of the words, rank by cosine), `mul`
is 3CosMul (Levy and Goldberg 2014: the product of the similarities to the added words, divided by the product of those to
the subtracted words; cosines are shifted to 0..1 first). Other metrics than the cosine add and subtract the vectors with
their lengths. The words of a query are never among its answers.

Shapes: Q queries, W words of queries, V words of the table, D dimensions, B rows of a block, N candidates.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from nlptools.arrays import Doubles, Floats, Longs
from nlptools.errors import UsageError
from nlptools.vectors.comparisons import COSINE, METRICS, Metric, SearchTable
from nlptools.vectors.expression import Expression, parse
from nlptools.vectors.rows import scaled, unit

EPSILON = 0.001  # of Levy and Goldberg, added to the denominator of 3CosMul
METHODS = ("add", "mul")
BATCH = 1024  # queries in one matrix product
KEPT = 1 << 22  # candidates kept at a time, of all queries of a batch
_SCORES = 1 << 19  # scores in a block: 2 MiB, the cache of a core
ROWS = (256, 4096)  # rows in a block: enough for a fast matrix product, few enough for the cache
_SPARE = 2  # candidates beyond k, since float32 may order the last ones differently from float64
WAITING = 512  # candidates that may wait to be sorted
AGAIN = 1 << 20  # numbers of rows that are scored again at a time


class Neighbor(NamedTuple):
    """A word and its score: a cosine, distance or dot product, or the quotient of 3CosMul."""

    word: str
    score: float


class NearestWords(NamedTuple):
    """The neighbors of a query, nearest first; None if a word of the query has no vector. `unknown` lists such words."""

    neighbors: list[Neighbor] | None
    unknown: tuple[str, ...] = ()


def neighbors(
    vectors: SearchTable,
    queries: Sequence[str],
    k: int = 10,
    *,
    method: str = "add",
    metric: str = "cosine",
    restrict: int = 0,
    epsilon: float = EPSILON,
) -> list[NearestWords]:
    """The `k` words nearest to each query.

    Args:
        queries: words, or expressions such as `king - man + woman`; see `nlptools.vectors.expression`.
        method: how an expression is scored, "add" or "mul".
        metric: "cosine", "euclidean" or "dot"; "mul" takes the first only.
        restrict: only the first `restrict` words may be answers; 0: all.
        epsilon: added to the denominator of 3CosMul.

    Returns:
        one answer per query, in order, with fewer than `k` neighbors only if there are fewer words.

    Raises:
        UsageError: `k` below 1, or no such method or metric.
        BundleError: a vector is not finite, or the file is damaged in a part that was not read before.
    """
    if method not in METHODS:
        raise UsageError(f"method={method!r}: expected add or mul")
    compared = _metric(metric)
    if method == "mul" and compared != COSINE:
        raise UsageError(f"metric={metric!r}: 3CosMul is of cosines")
    answers = [NearestWords(None)] * len(queries)
    last, size = _limits(vectors, k, restrict)
    for start in range(0, len(queries), size):
        known = _Known(vectors, queries[start : start + size], compared.unit)
        answerable: dict[int, Expression] = {}  # by the place of the answer
        for place, expression in enumerate(known.expressions, start):
            unknown = tuple(dict.fromkeys(word for word in expression.words if word not in known.rows))
            if unknown:
                answers[place] = NearestWords(None, unknown)
            else:
                answerable[place] = expression
        if answerable:
            batch = list(answerable.values())
            terms = (
                _Products(batch, known, epsilon) if method == "mul" else _Sums(_sums(batch, known, compared), compared)
            )
            for place, best in zip(answerable, _search(vectors, batch, terms, k, last), strict=True):
                answers[place] = NearestWords(best)
    return answers


def nearest_to(
    vectors: SearchTable, rows: Floats, k: int = 10, *, metric: str = "cosine", restrict: int = 0
) -> list[list[Neighbor]]:
    """The `k` words nearest to each row.

    Args:
        rows: float32 (Q, D); a row of zeros has the cosine 0 to all words.
        metric: "cosine", "euclidean" or "dot".
        restrict: only the first `restrict` words may be answers; 0: all.

    Returns:
        the neighbors of each row, nearest first, without repeated words.

    Raises:
        UsageError: `k` below 1, no such metric, or vectors of another length.
        BundleError: see `neighbors`.
    """
    if rows.shape[1] != vectors.dimensions:
        raise UsageError(f"queries have {rows.shape[1]} dimensions, the vectors {vectors.dimensions}")
    compared = _metric(metric)
    last, size = _limits(vectors, k, restrict)
    result: list[list[Neighbor]] = []
    for start in range(0, len(rows), size):
        directions = unit(rows[start : start + size]) if compared.unit else rows[start : start + size]
        result += _search(vectors, [Expression(())] * len(directions), _Sums(directions, compared), k, last)
    return result


class SearchesVectors(Protocol):
    """A search for the words nearest to vectors."""

    def nearest_to(self, rows: Floats, k: int) -> list[list[Neighbor]]:
        """The neighbors of each row (Q, D), nearest first."""

    def finish(self) -> None:
        """Called after the last query, for reports."""


class ExactSearch:
    """`nearest_to` as `SearchesVectors`."""

    def __init__(self, table: SearchTable, metric: str, restrict: int = 0) -> None:
        self.table, self.metric, self.restrict = table, metric, restrict

    def nearest_to(self, rows: Floats, k: int) -> list[list[Neighbor]]:
        """See `SearchesVectors`."""
        return nearest_to(self.table, rows, k, metric=self.metric, restrict=self.restrict)

    def finish(self) -> None:
        """See `SearchesVectors`."""


def _metric(name: str) -> Metric:
    if name not in METRICS:
        raise UsageError(f"metric={name!r}: expected one of {', '.join(METRICS)}")
    return METRICS[name]


def _limits(vectors: SearchTable, k: int, restrict: int) -> tuple[int, int]:
    """The number of rows to search, and of queries to answer at a time. Raises UsageError."""
    if k < 1 or restrict < 0:
        raise UsageError(f"k={k}, restrict={restrict}: expected at least 1, at least 0")
    last = min(len(vectors), restrict or len(vectors))
    return last, max(1, min(BATCH, KEPT // max(1, min(k, last))))


class _Known:
    """The parsed queries of a batch and the vectors of their words, looked up together.

    Attributes:
        expressions: one for each query.
        rows: for each word with a vector, its row of `vectors`.
        vectors: float32 (W, D), scaled to length 1 if the metric compares such.
    """

    def __init__(self, vectors: SearchTable, queries: Sequence[str], scale: bool) -> None:
        plain = [parse(line) for line in queries]
        names = {word for expression in plain for word in expression.words}
        places = vectors.words.find(names.union(queries))
        self.expressions = [
            Expression((line,)) if line in places else expression
            for line, expression in zip(queries, plain, strict=True)
        ]
        used = {word for expression in self.expressions for word in expression.words}
        words = [word for word in places if word in used]
        rows = vectors.take([places[word] for word in words])
        composed: dict[str, Floats] = {}
        for word in sorted(used.difference(words)) if vectors.subwords is not None else ():
            vector = vectors.vector(word)
            if vector is not None:
                composed[word] = vector
        self.rows = {word: row for row, word in enumerate([*words, *composed])}
        plain_rows = (
            np.stack([*rows, *composed.values()]) if self.rows else np.empty((0, vectors.dimensions), np.float32)
        )
        self.vectors = unit(plain_rows) if scale else plain_rows


def _search(
    vectors: SearchTable, batch: Sequence[Expression], terms: _Sums | _Products, k: int, last: int
) -> Iterator[list[Neighbor]]:
    """The neighbors of each query of a batch."""
    spare = max(len(query.words) for query in batch) + _SPARE
    best = Best(len(batch), min(k + spare, last))
    most = min(ROWS[1], max(ROWS[0], _SCORES // len(terms.directions)))
    for start, scores_QB in terms.metric.blocks(vectors, terms.directions, last, most):
        best.add(terms.scores(scores_QB), start)
    queries, _, places = best.result()
    scores = _again(vectors, terms, queries, places)
    order = np.lexsort((places, -scores, queries))
    scores, places = scores[order], places[order]
    ends = np.cumsum(np.bincount(queries, minlength=len(batch)))
    for query, begin, end in zip(batch, [0, *ends.tolist()], ends.tolist(), strict=False):
        excluded = set(query.words)
        kept: dict[str, float] = {}
        for place, score in zip(places[begin:end].tolist(), scores[begin:end].tolist(), strict=True):
            if len(kept) == k:
                break
            word = vectors.words[place]
            if word not in excluded:
                kept.setdefault(word, score)
        yield [Neighbor(word, terms.metric.sign * score) for word, score in kept.items()]


def _again(vectors: SearchTable, terms: _Sums | _Products, queries: Longs, places: Longs) -> Doubles:
    """Scores (N,), float64: of row places[i] for the query queries[i]."""
    scores = np.empty(len(places), np.float64)
    size = max(1, AGAIN // vectors.dimensions)
    for start in range(0, len(places), size):
        part = slice(start, start + size)
        rows = vectors.rows.take(places[part].tolist()).astype(np.float64)
        if terms.metric.unit:
            rows = scaled(rows)
        scores[part] = terms.exact(rows, queries[part])
    return scores


class _Sums:
    """Scores of sums, for cosines 3CosAdd: one direction per query."""

    def __init__(self, directions: Floats, metric: Metric) -> None:
        self.directions = directions  # (Q, D), of length 1 if the metric compares such
        self.metric = metric

    def scores(self, scores: Floats) -> Floats:
        """Scores (Q, B) of the scores of the directions (Q, B)."""
        return scores

    def exact(self, rows: Doubles, queries: Longs) -> Doubles:
        """Scores (N,), float64, of rows (N, D), row i for the query queries[i]."""
        return self.metric.exact(rows, self.directions[queries])


def _sums(batch: Sequence[Expression], known: _Known, metric: Metric) -> Floats:
    """The sum of each query, at length 1 if the metric compares such, (Q, D)."""
    sums = np.zeros((len(batch), known.vectors.shape[1]), np.float64)
    for queries, rows, positive in _slots(batch, known):
        sums[queries] += known.vectors[rows] if positive else -known.vectors[rows]
    return unit(sums) if metric.unit else sums.astype(np.float32)


class _Products:
    """Scores of 3CosMul: one direction per word of the queries, and products of the similarities to them."""

    metric = COSINE

    def __init__(self, batch: Sequence[Expression], known: _Known, epsilon: float) -> None:
        self.directions = known.vectors
        self.epsilon = epsilon
        self.queries = len(batch)
        self.slots = list(_slots(batch, known))

    def scores(self, cosines: Floats) -> Floats:
        """Scores (Q, B) of cosines with the words (W, B)."""
        shifted = np.maximum((cosines + np.float32(1)) / np.float32(2), np.float32(0))
        over = np.ones((self.queries, cosines.shape[1]), np.float32)
        under = np.ones_like(over)
        divided = np.zeros(self.queries, bool)
        for queries, rows, positive in self.slots:
            (over if positive else under)[queries] *= shifted[rows]
            divided[queries] |= not positive
        under[divided] += np.float32(self.epsilon)
        over /= under
        return over

    def exact(self, rows: Doubles, queries: Longs) -> Doubles:
        """Scores (N,), float64, of unit rows (N, D), row i for the query queries[i]."""
        over, under = np.ones(len(rows)), np.ones(len(rows))
        divided = np.zeros(len(rows), bool)
        for members, directions, positive in self.slots:
            direction = np.full(self.queries, -1)
            direction[members] = directions
            which = np.flatnonzero(direction[queries] >= 0)
            chosen = self.directions[direction[queries[which]]]
            shifted = (np.einsum("ij,ij->i", rows[which], chosen, dtype=np.float64) + 1) / 2
            (over if positive else under)[which] *= np.maximum(shifted, 0)
            divided[which] |= not positive
        under[divided] += self.epsilon
        return np.asarray(over / under)


def _slots(batch: Sequence[Expression], known: _Known) -> Iterator[tuple[Longs, Longs, bool]]:
    """The words of expressions, position by position: (queries with such a word, its row in `known`, whether it is added)."""
    for positive in (True, False):
        sides = [query.positive if positive else query.negative for query in batch]
        for slot in range(max(map(len, sides))):
            queries = [number for number, side in enumerate(sides) if len(side) > slot]
            rows = [known.rows[sides[number][slot]] for number in queries]
            yield np.array(queries, np.int64), np.array(rows, np.int64), positive


class Best:
    """The rows with the highest scores of each query so far."""

    def __init__(self, queries: int, k: int) -> None:
        self.k = k
        self.floors: Floats = np.full((queries, 1), -np.inf, np.float32)  # scores must be higher to be candidates
        self._candidates: list[tuple[Longs, Floats, Longs]] = []  # queries, scores, places, in order of places
        self._waiting = 0
        self._hits: NDArray[np.bool_] = np.empty((0, 0), bool)

    def add(self, scores: Floats, start: int) -> None:
        """Add the scores (Q, B) of the rows from `start` on; blocks come in order."""
        if self._hits.shape != scores.shape:
            self._hits = np.empty(scores.shape, bool)
        hits, width = self._hits, scores.shape[1]
        np.greater(scores, self.floors, out=hits)
        at = np.flatnonzero(hits)
        # the first block, or rows that come nearer and nearer
        if len(at) > 2 * len(scores) * self.k and width > self.k:
            least = np.partition(scores, width - self.k, axis=1)[:, width - self.k]
            hits &= scores >= least[:, None]  # all equal scores, since the first of them wins
            np.maximum(self.floors, least[:, None], out=self.floors)
            at = np.flatnonzero(hits)
        if not len(at):
            return
        queries, columns = np.divmod(at, width)
        self._candidates.append((queries, scores.ravel()[at], columns + start))
        self._waiting += len(at)
        if self._waiting > max(len(scores) * self.k, WAITING):
            self._merge()

    def _merge(self) -> None:
        queries, scores, places = (np.concatenate(parts) for parts in zip(*self._candidates, strict=True))
        order = np.lexsort((places, -scores, queries))
        counts = np.bincount(queries, minlength=len(self.floors))
        begins = np.cumsum(counts) - counts
        order = order[np.arange(len(order)) - begins[queries[order]] < self.k]
        self._candidates = [(queries[order], scores[order], places[order])]
        self._waiting = 0
        full = np.flatnonzero(counts >= self.k)
        ends = np.cumsum(np.minimum(counts, self.k))
        self.floors[full, 0] = scores[order][ends[full] - 1]

    def result(self) -> tuple[Longs, Floats, Longs]:
        """Query, score and row of each of the best, by query, then best first."""
        if not self._candidates:
            return np.empty(0, np.int64), np.empty(0, np.float32), np.empty(0, np.int64)
        self._merge()
        return self._candidates[0]
