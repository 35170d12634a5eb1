"""Nearest words by cosine, and analogies, for many queries at once.

Rows are read a block at a time, scaled to length 1 and multiplied with all queries in one matrix product. A block is as
large as leaves its scores in the cache, where one comparison finds those that beat the k-th best so far; they are put in
order now and then. Memory does not grow with the vocabulary. Lengths of rows are computed in the first pass and kept. The
scores of the words that are left are computed again in float64, so that answers do not depend on what else was asked.

Expressions: `add` is 3CosAdd (Mikolov et al. 2013: the words' unit vectors are added and taken away, the nearest by
cosine), `mul` is 3CosMul (Levy and Goldberg 2014: the product of the similarities to the words that are added, over the
product of those to the words that are taken away; cosines are shifted to 0..1 first). The words of a query are never
among its answers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from nlptools.errors import UsageError
from nlptools.vectors import checks
from nlptools.vectors.expression import Expression, parse
from nlptools.vectors.table import Floats, Vectors

EPSILON = 0.001  # of Levy and Goldberg, added to the denominator of 3CosMul
METHODS = ("add", "mul")
_BATCH = 1024  # queries in one matrix product
_KEPT = 1 << 22  # scores and places of the best that are kept at a time
_SCORES = 1 << 19  # scores in a block: 2 MiB, the cache of a core
_ROWS = (256, 4096)  # rows in a block: enough for a matrix product to be fast, few enough for the cache
_SPARE = 2  # more than are asked for, since float32 may put the last ones in another order than float64
_WAITING = 512  # hits that may wait until they are put in order
_AGAIN = 1 << 20  # numbers whose scores are computed again at a time

Longs = np.ndarray[Any, np.dtype[np.int64]]
Doubles = np.ndarray[Any, np.dtype[np.float64]]


class Neighbor(NamedTuple):
    """A word and how near it is: a cosine, or the quotient of 3CosMul."""

    word: str
    score: float


class Answer(NamedTuple):
    """The neighbours of a query, nearest first; None if words of it have no vector, which `unknown` lists."""

    neighbors: list[Neighbor] | None
    unknown: tuple[str, ...] = ()


class _Query(NamedTuple):
    place: int  # in the list of answers
    expression: Expression


def neighbors(
    vectors: Vectors,
    queries: Sequence[str],
    k: int = 10,
    *,
    method: str = "add",
    restrict: int = 0,
    epsilon: float = EPSILON,
) -> list[Answer]:
    """The `k` words nearest to each query.

    Args:
        queries: words, or expressions such as `king - man + woman`; see `nlptools.vectors.expression`.
        method: what an expression means, "add" or "mul".
        restrict: only the first so many words may be answers; 0: all.
        epsilon: what is added to the denominator of 3CosMul.

    Returns:
        an answer for each query, in order, with fewer than `k` neighbours only where there are fewer words.

    Raises:
        UsageError: `k` below 1, or no such method.
        BundleError: a vector is not finite, or the file is damaged where nobody has looked yet.
    """
    if k < 1 or restrict < 0 or method not in METHODS:
        raise UsageError(f"k={k}, restrict={restrict}, method={method!r}: expected at least 1, at least 0, add or mul")
    answers = [Answer(None)] * len(queries)
    last = min(len(vectors), restrict) if restrict else len(vectors)
    size = max(1, min(_BATCH, _KEPT // max(1, min(k, last))))
    for start in range(0, len(queries), size):
        known = _Known(vectors, queries[start : start + size])
        found: list[_Query] = []
        for place, expression in enumerate(known.expressions, start):
            unknown = tuple(dict.fromkeys(word for word in expression.words if word not in known.rows))
            if unknown:
                answers[place] = Answer(None, unknown)
            else:
                found.append(_Query(place, expression))
        if found:
            terms = _Products(found, known, epsilon) if method == "mul" else _Sums(_sums(found, known))
            for query, best in zip(found, _search(vectors, found, terms, k, last), strict=True):
                answers[query.place] = Answer(best)
    return answers


def nearest_to(vectors: Vectors, rows: Floats, k: int = 10, *, restrict: int = 0) -> list[list[Neighbor]]:
    """The `k` words nearest to each of some vectors by cosine.

    Args:
        rows: float32 (Q, D); one of zeros has the cosine 0 to all words.
        restrict: only the first so many words may be answers; 0: all.

    Returns:
        neighbours, nearest first; no word stands twice among those of one vector.

    Raises:
        UsageError: `k` below 1, or vectors of another length.
        BundleError: see `neighbors`.
    """
    if k < 1 or restrict < 0:
        raise UsageError(f"k={k}, restrict={restrict}: expected at least 1, at least 0")
    if rows.shape[1] != vectors.dimensions:
        raise UsageError(f"queries have {rows.shape[1]} dimensions, the vectors {vectors.dimensions}")
    last = min(len(vectors), restrict) if restrict else len(vectors)
    size = max(1, min(_BATCH, _KEPT // max(1, min(k, last))))
    found: list[list[Neighbor]] = []
    for start in range(0, len(rows), size):
        directions = _unit(rows[start : start + size])
        batch = [_Query(place, Expression(())) for place in range(len(directions))]
        found += _search(vectors, batch, _Sums(directions), k, last)
    return found


class _Known:
    """What a batch of queries says, and the unit vectors of its words, looked up all at once.

    Attributes:
        expressions: one for each query.
        rows: the row of `units` of each word that has a vector.
        units: vectors of length 1, float32 (W, D).
    """

    def __init__(self, vectors: Vectors, queries: Sequence[str]) -> None:
        plain = [parse(line) for line in queries]
        names = {word for expression in plain for word in expression.words}
        places = vectors.words.find(names.union(queries))
        self.expressions = [
            Expression((line,)) if line in places else expression
            for line, expression in zip(queries, plain, strict=True)
        ]
        used = {word for expression in self.expressions for word in expression.words}
        words = [word for word in places if word in used]
        found = vectors.rows.take([places[word] for word in words])
        for bad in np.flatnonzero(~np.isfinite(found).all(axis=1)).tolist():
            checks.check_finite(found[bad : bad + 1], places[words[bad]], vectors.path)
        more: dict[str, Floats] = {}
        for word in sorted(used.difference(words)) if vectors.subwords is not None else ():
            made = vectors.vector(word)
            if made is not None:
                more[word] = made
        self.rows = {word: row for row, word in enumerate([*words, *more])}
        self.units = _unit(np.stack([*found, *more.values()]) if self.rows else np.empty((0, vectors.dimensions)))


def _unit(rows: np.ndarray[Any, Any]) -> Floats:
    """Rows at length 1; those of zeros stay."""
    exact = rows.astype(np.float64)
    lengths = np.sqrt(np.einsum("ij,ij->i", exact, exact))
    lengths[lengths == 0] = 1
    return np.asarray(exact / lengths[:, None], np.float32)


def _search(
    vectors: Vectors, batch: Sequence[_Query], terms: _Sums | _Products, k: int, last: int
) -> Iterator[list[Neighbor]]:
    """The neighbours of each query of a batch."""
    spare = max(len(query.expression.words) for query in batch) + _SPARE
    best = _Best(len(batch), min(k + spare, last))
    most = min(_ROWS[1], max(_ROWS[0], _SCORES // len(terms.directions)))
    for start, cosines in _cosines(vectors, terms.directions, last, most):
        best.add(terms.scores(cosines), start)
    queries, places = best.found()
    scores = _again(vectors, terms, queries, places)
    order = np.lexsort((places, -scores, queries))
    scores, places = scores[order], places[order]
    ends = np.cumsum(np.bincount(queries, minlength=len(batch)))
    for query, begin, end in zip(batch, [0, *ends.tolist()], ends.tolist(), strict=False):
        excluded = set(query.expression.words)
        kept: dict[str, float] = {}
        for place, score in zip(places[begin:end].tolist(), scores[begin:end].tolist(), strict=True):
            if len(kept) == k:
                break
            word = vectors.words[place]
            if word not in excluded:
                kept.setdefault(word, score)
        yield [Neighbor(word, score) for word, score in kept.items()]


def _again(vectors: Vectors, terms: _Sums | _Products, queries: Longs, places: Longs) -> Doubles:
    """The scores of rows for queries, float64."""
    scores = np.empty(len(places), np.float64)
    size = max(1, _AGAIN // vectors.dimensions)
    for start in range(0, len(places), size):
        part = slice(start, start + size)
        rows = vectors.rows.take(places[part].tolist()).astype(np.float64)
        lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows))
        lengths[lengths == 0] = 1
        scores[part] = terms.exact(rows / lengths[:, None], queries[part])
    return scores


class _Sums:
    """3CosAdd: one direction per query."""

    def __init__(self, directions: Floats) -> None:
        self.directions = directions  # of length 1, (Q, D)

    def scores(self, cosines: Floats) -> Floats:
        """Scores (Q, B) of cosines with the directions (Q, B)."""
        return cosines

    def exact(self, rows: Doubles, queries: Longs) -> Doubles:
        """Scores of unit rows (N, D), each for the query of its number."""
        return np.asarray(np.einsum("ij,ij->i", rows, self.directions[queries], dtype=np.float64))


def _sums(batch: Sequence[_Query], known: _Known) -> Floats:
    """What each query adds up to, at length 1, (Q, D)."""
    sums = np.zeros((len(batch), known.units.shape[1]), np.float64)
    for queries, rows, positive in _slots(batch, known):
        sums[queries] += known.units[rows] if positive else -known.units[rows]
    return _unit(sums)


class _Products:
    """3CosMul: a direction per word, and the products of their similarities."""

    def __init__(self, batch: Sequence[_Query], known: _Known, epsilon: float) -> None:
        self.directions = known.units
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
        """Scores of unit rows (N, D), each for the query of its number."""
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


def _slots(batch: Sequence[_Query], known: _Known) -> Iterator[tuple[Longs, Longs, bool]]:
    """(queries, rows of their first word, True), (queries, rows of their second word, True) ..., and False for negative."""
    for positive in (True, False):
        sides = [query.expression.positive if positive else query.expression.negative for query in batch]
        for slot in range(max(map(len, sides))):
            queries = [number for number, side in enumerate(sides) if len(side) > slot]
            rows = [known.rows[sides[number][slot]] for number in queries]
            yield np.array(queries, np.int64), np.array(rows, np.int64), positive


class _Best:
    """The highest scores of each query so far, and the rows that have them."""

    def __init__(self, queries: int, k: int) -> None:
        self.k = k
        self.floors: Floats = np.full(
            (queries, 1), -np.inf, np.float32
        )  # what a score must exceed to be among the best
        self._found: list[tuple[Longs, Floats, Longs]] = []  # queries, scores, places, in order of places
        self._waiting = 0
        self._hits: np.ndarray[Any, np.dtype[np.bool_]] = np.empty((0, 0), bool)

    def add(self, scores: Floats, start: int) -> None:
        """Take in the scores (Q, B) of the rows that begin at `start`, which come after all before."""
        if self._hits.shape != scores.shape:
            self._hits = np.empty(scores.shape, bool)
        hits, width = self._hits, scores.shape[1]
        np.greater(scores, self.floors, out=hits)
        at = np.flatnonzero(hits)
        if (
            len(at) > 2 * len(scores) * self.k and width > self.k
        ):  # the first block, or rows that grow nearer and nearer
            least = np.partition(scores, width - self.k, axis=1)[:, width - self.k]
            hits &= scores >= least[:, None]  # all of the equal ones, since the first of them shall win
            np.maximum(self.floors, least[:, None], out=self.floors)
            at = np.flatnonzero(hits)
        if not len(at):
            return
        queries, columns = np.divmod(at, width)
        self._found.append((queries, scores.ravel()[at], columns + start))
        self._waiting += len(at)
        if self._waiting > max(len(scores) * self.k, _WAITING):
            self._merge()

    def _merge(self) -> None:
        queries, scores, places = (np.concatenate(parts) for parts in zip(*self._found, strict=True))
        order = np.lexsort((places, -scores, queries))
        counts = np.bincount(queries, minlength=len(self.floors))
        begins = np.cumsum(counts) - counts
        order = order[np.arange(len(order)) - begins[queries[order]] < self.k]
        self._found = [(queries[order], scores[order], places[order])]
        self._waiting = 0
        full = np.flatnonzero(counts >= self.k)
        ends = np.cumsum(np.minimum(counts, self.k))
        self.floors[full, 0] = scores[order][ends[full] - 1]

    def found(self) -> tuple[Longs, Longs]:
        """Queries in order, and for each the places of its best."""
        if not self._found:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        self._merge()
        queries, _, places = self._found[0]
        return queries, places


def _cosines(vectors: Vectors, directions: Floats, last: int, most: int) -> Iterator[tuple[int, Floats]]:
    """(first row, cosines of directions with rows (N, B)) in blocks of up to `most`; good until the next one is asked for."""
    products = np.empty((len(directions), min(most, last)), np.float32)
    scaled = np.empty((min(most, last), vectors.dimensions), np.float32)
    for start, rows, factors in _factors(vectors, last, most):
        if len(rows) != products.shape[1]:  # the last block
            products = np.empty((len(directions), len(rows)), np.float32)
        if len(directions) < vectors.dimensions:
            np.matmul(directions, rows.T, out=products)
            products *= factors
        else:
            np.matmul(directions, np.multiply(rows, factors[:, None], out=scaled[: len(rows)]).T, out=products)
        yield start, products


def _factors(vectors: Vectors, last: int, most: int) -> Iterator[tuple[int, Floats, Floats]]:
    """(first row, rows, what scales them to length 1) in blocks; computed once. Rows of zeros stay zero."""
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
