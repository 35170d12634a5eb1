"""Nearest words by cosine, and analogies, for many queries at once.

Rows are read a block at a time and multiplied with all queries in one matrix product; of each block only what beats the
best found so far is kept, so that memory does not grow with the vocabulary. Lengths of rows are computed in the first
pass and kept.

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
_SCORES = 1 << 24  # scores held at a time: 64 MiB


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
    vectors: Floats  # unit vectors of its words, float32 (N, D)


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
        BundleError: a vector is not finite.
    """
    if k < 1 or restrict < 0 or method not in METHODS:
        raise UsageError(f"k={k}, restrict={restrict}, method={method!r}: expected at least 1, at least 0, add or mul")
    answers = [Answer(None)] * len(queries)
    found: list[_Query] = []
    for place, line in enumerate(queries):
        resolved = _resolve(vectors, place, line)
        if isinstance(resolved, Answer):
            answers[place] = resolved
        else:
            found.append(resolved)
    for start in range(0, len(found), _BATCH):
        batch = found[start : start + _BATCH]
        for query, best in zip(batch, _search(vectors, batch, k, method, restrict, epsilon), strict=True):
            answers[query.place] = Answer(best)
    return answers


def _resolve(vectors: Vectors, place: int, line: str) -> _Query | Answer:
    """The unit vectors of the words of a query, or the answer that some have none."""
    expression = parse(line, lambda word: word in vectors)
    rows = [vectors.vector(word) for word in expression.words]
    unknown = [word for word, row in zip(expression.words, rows, strict=True) if row is None]
    if unknown:
        return Answer(None, tuple(dict.fromkeys(unknown)))
    return _Query(place, expression, np.stack([_unit(row) for row in rows if row is not None]))


def _unit(row: Floats) -> Floats:
    length = float(np.linalg.norm(row.astype(np.float64)))
    return (row.astype(np.float64) / length).astype(np.float32) if length > 0 else row


def _search(
    vectors: Vectors, batch: Sequence[_Query], k: int, method: str, restrict: int, epsilon: float
) -> Iterator[list[Neighbor]]:
    """The neighbours of each query of a batch."""
    spare = max(len(query.expression.words) for query in batch)
    last = min(len(vectors), restrict) if restrict else len(vectors)
    scorer = (_Products if method == "mul" else _Sums)(batch, epsilon)
    best = _Best(len(batch), min(k + spare, last))
    size = max(1, min(16384, _SCORES // len(scorer.directions)))
    for start, rows, lengths in _normed(vectors, last):
        for i in range(0, len(rows), size):
            cosines = scorer.directions @ rows[i : i + size].T
            cosines /= lengths[i : i + size]
            best.add(scorer.scores(cosines), start + i)
    for query, (scores, places) in zip(batch, best.sorted(), strict=True):
        excluded = set(query.expression.words)
        named = ((vectors.words[int(p)], float(s)) for s, p in zip(scores, places, strict=True) if p >= 0)
        kept: dict[str, float] = {}
        for word, score in named:
            if word not in excluded and len(kept) < k:
                kept.setdefault(word, score)
        yield [Neighbor(word, score) for word, score in kept.items()]


class _Sums:
    """3CosAdd: one direction per query."""

    def __init__(self, batch: Sequence[_Query], epsilon: float) -> None:
        del epsilon
        signs = [np.array([1] * len(q.expression.positive) + [-1] * len(q.expression.negative)) for q in batch]
        sums = [sign.astype(np.float32) @ query.vectors for sign, query in zip(signs, batch, strict=True)]
        self.directions: Floats = np.stack([_unit(row) for row in sums])

    def scores(self, cosines: Floats) -> Floats:
        return cosines


class _Products:
    """3CosMul: a direction per word, and the products of their similarities."""

    def __init__(self, batch: Sequence[_Query], epsilon: float) -> None:
        self.directions: Floats = np.concatenate([query.vectors for query in batch])
        self.epsilon = np.float32(epsilon)
        self.parts: list[tuple[int, int, int]] = []
        at = 0
        for query in batch:
            middle = at + len(query.expression.positive)
            self.parts.append((at, middle, middle + len(query.expression.negative)))
            at = self.parts[-1][2]

    def scores(self, cosines: Floats) -> Floats:
        shifted = np.maximum((cosines + np.float32(1)) / np.float32(2), np.float32(0))
        out = np.empty((len(self.parts), cosines.shape[1]), np.float32)
        for row, (begin, middle, end) in enumerate(self.parts):
            np.prod(shifted[begin:middle], axis=0, out=out[row])
            if end > middle:
                out[row] /= np.prod(shifted[middle:end], axis=0) + self.epsilon
        return out


class _Best:
    """The highest scores of each query so far, and the rows that have them."""

    def __init__(self, queries: int, k: int) -> None:
        self.scores: Floats = np.full((queries, k), -np.inf, np.float32)
        self.places = np.full((queries, k), -1, np.int64)

    def add(self, scores: Floats, start: int) -> None:
        """Take in the scores (Q, B) of the rows that begin at `start`."""
        k = self.scores.shape[1]
        if not k:
            return
        hits = scores > self.scores.min(axis=1)[:, None]
        counts = hits.sum(axis=1)
        most = int(counts.max(initial=0))
        if not most:
            return
        if most > 4 * k + 16:  # the first block, or rows that grow nearer and nearer
            width = min(k, scores.shape[1])
            chosen = np.argpartition(scores, scores.shape[1] - width, axis=1)[:, scores.shape[1] - width :]
            self._merge(np.arange(len(scores)), np.take_along_axis(scores, chosen, 1), chosen + start)
            return
        active = np.flatnonzero(counts)
        rows, columns = np.nonzero(hits[active])
        offset = np.arange(len(rows)) - (np.cumsum(counts[active]) - counts[active])[rows]
        found = np.full((len(active), most), -np.inf, np.float32)
        places = np.full((len(active), most), -1, np.int64)
        found[rows, offset] = scores[active[rows], columns]
        places[rows, offset] = columns + start
        self._merge(active, found, places)

    def _merge(self, which: np.ndarray[Any, Any], scores: Floats, places: np.ndarray[Any, Any]) -> None:
        k = self.scores.shape[1]
        all_scores = np.concatenate([self.scores[which], scores], axis=1)
        all_places = np.concatenate([self.places[which], places], axis=1)
        order = np.argsort(-all_scores, axis=1, kind="stable")[:, :k]
        self.scores[which] = np.take_along_axis(all_scores, order, 1)
        self.places[which] = np.take_along_axis(all_places, order, 1)

    def sorted(self) -> Iterator[tuple[Floats, np.ndarray[Any, Any]]]:
        """(scores, places) of each query, highest first, among equals the one that stands first in the file."""
        for scores, places in zip(self.scores, self.places, strict=True):
            order = np.lexsort((places, -scores))
            yield scores[order], places[order]


def _normed(vectors: Vectors, last: int) -> Iterator[tuple[int, Floats, Floats]]:
    """(first row, rows, their lengths); lengths are computed once. Rows of zeros have length 1."""
    known = vectors.norms
    complete = known is not None and len(known) >= last
    computed: list[Floats] = []
    for start, rows in vectors.blocks(last, check=not complete):
        if complete and known is not None:
            yield start, rows, known[start : start + len(rows)]
            continue
        with np.errstate(over="ignore"):
            lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows))
        if not np.isfinite(lengths).all():
            checks.refuse(vectors.path, f"a vector among words {start + 1:,} to {start + len(rows):,} is too long")
        lengths[lengths == 0] = 1
        computed.append(lengths)
        yield start, rows, lengths
    if not complete and computed:
        vectors.norms = np.concatenate(computed)
