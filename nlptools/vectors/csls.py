"""Nearest words between two tables: by cosine, and by cross-domain similarity local scaling (CSLS).

Some words, hubs, are near to many others and would be the translation of all of them. CSLS (Conneau et al. 2018, arXiv
1710.04087) subtracts r, the mean cosine of a word to its k nearest words of the other language:
CSLS(x, y) = 2 cos(x, y) - r(x) - r(y). For one x, r(x) does not change the order and is left out if only the order matters.

All matrices hold vectors of length 1 (rows of zeros are similar to nothing). Similarities are computed in blocks of
ROWS x COLUMNS, and of each block only new best scores are kept: memory does not grow with either table.
Shapes: Q queries, N candidates, D dimensions.
"""

from __future__ import annotations

import numpy as np

from nlptools.arrays import Floats, Longs
from nlptools.vectors.nearest import Best
from nlptools.vectors.rows import spans

NEIGHBORS = 10  # k of Conneau et al.
ROWS, COLUMNS = 1024, 8192  # 32 MiB of similarities


def retrieve(queries: Floats, candidates: Floats, k: int, hubness: Floats | None = None) -> tuple[Floats, Longs]:
    """The `k` best candidates of each query, best first.

    Args:
        queries, candidates: float32 (Q, D) and (N, D), of length 1.
        hubness: r of the candidates (N,), for scores 2 cos - r; None: the scores are cosines.

    Returns:
        scores, float32 (Q, k), and rows of `candidates`, int64 (Q, k); fewer columns if there are fewer candidates.
    """
    k = min(k, len(candidates))
    scores, places = np.empty((len(queries), k), np.float32), np.empty((len(queries), k), np.int64)
    for start, end in spans(len(queries), ROWS):
        best = Best(end - start, k)
        for first, last in spans(len(candidates), COLUMNS):
            block = queries[start:end] @ candidates[first:last].T
            if hubness is not None:
                block *= 2
                block -= hubness[first:last]
            best.add(block, first)
        _, highest, columns = best.result()
        scores[start:end], places[start:end] = highest.reshape(end - start, k), columns.reshape(end - start, k)
    return scores, places


def hubness(words: Floats, others: Floats, k: int = NEIGHBORS) -> Floats:
    """r of each of `words`: its mean cosine to the `k` nearest of `others`, float32 (Q,); 0 if there are none."""
    if not len(others):
        return np.zeros(len(words), np.float32)
    return np.asarray(retrieve(words, others, k)[0].mean(axis=1, dtype=np.float64), np.float32)


def mutual_nearest(one: Floats, two: Floats, k: int = NEIGHBORS) -> Longs:
    """Rows of `one` and `two` that are each other's nearest by CSLS, int64 (P, 2), by the row of `one`."""
    if not len(one) or not len(two):
        return np.empty((0, 2), np.int64)
    r_one, r_two = hubness(one, two, k), hubness(two, one, k)
    forward: Longs = np.empty(len(one), np.int64)
    best: Floats = np.full(len(two), -np.inf, np.float32)
    backward: Longs = np.zeros(len(two), np.int64)
    for start, end in spans(len(one), ROWS):
        row_best: Floats = np.full(end - start, -np.inf, np.float32)
        for first, last in spans(len(two), COLUMNS):
            block = one[start:end] @ two[first:last].T
            block *= 2
            block -= r_two[first:last]
            block -= r_one[start:end, None]
            places = block.argmax(axis=1)
            _keep(row_best, forward[start:end], block[np.arange(len(block)), places], places + first)
            places = block.argmax(axis=0)
            _keep(best[first:last], backward[first:last], block[places, np.arange(last - first)], places + start)
    rows = np.arange(len(one))
    agree = backward[forward] == rows
    return np.stack([rows[agree], forward[agree]], axis=1)


def _keep(best: Floats, at: Longs, scores: Floats, places: Longs) -> None:
    """Replace, in place, scores that are lower, and their places."""
    better = scores > best
    best[better], at[better] = scores[better], places[better]
