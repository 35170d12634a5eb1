"""k-means on unit vectors: Lloyd's algorithm from centers by k-means++.

Lloyd 1982; Arthur & Vassilvitskii 2007, with the best of several candidates for each center (as in
scikit-learn). The centers start from a sample; every row takes part in the iterations. A cluster that loses all rows gets the
row that is farthest from its center.
Shapes: N rows, D dimensions, K clusters.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nlptools.arrays import Array, Doubles, Floats, Longs
from nlptools.vectors.rows import blocks_of

_SAMPLE = 256  # rows for each cluster that the first centers are drawn from
_LEAST = 10_000  # and at least


@dataclass(frozen=True)
class Clusters:
    """Clusters in descending order of size.

    Attributes:
        labels: (N,) the cluster of each row.
        centers: (K, D) the means of the rows.
        cosines: (N,) of each row with its center.
        iterations: how many were computed.
    """

    labels: Longs
    centers: Floats
    cosines: Doubles
    iterations: int


def kmeans(rows: Array, clusters: int, seed: int = 1, iterations: int = 100) -> Clusters:
    """The clusters of rows (N, D) of length 1, or 0; the same for the same seed. There are at most N clusters."""
    random = np.random.default_rng(seed)
    clusters = min(clusters, len(rows))
    centers = _first_centers(rows, clusters, random)
    labels: Longs = np.full(len(rows), -1, np.int64)
    done = 0
    while done < iterations:
        done += 1
        found, distances = _nearest(rows, centers)
        _fill_empty(found, distances, clusters)
        if (found == labels).all():
            break
        labels, centers = found, _means(rows, found, clusters)
    order = np.argsort(-np.bincount(labels, minlength=clusters), kind="stable")
    place = np.argsort(order)
    centers = centers[order]
    labels = place[labels]
    return Clusters(labels, centers, _cosines(rows, centers, labels), done)


def _first_centers(rows: Array, clusters: int, random: np.random.Generator) -> Floats:
    """(K, D): by k-means++ on a sample."""
    size = min(len(rows), max(_LEAST, _SAMPLE * clusters))
    sample = np.asarray(rows[np.sort(random.choice(len(rows), size, replace=False))], np.float32)
    trials = 2 + int(np.log(clusters))
    centers = np.empty((clusters, rows.shape[1]), np.float32)
    centers[0] = sample[random.integers(size)]
    squares = (sample**2).sum(1)
    nearest = _squared(sample, squares, centers[:1])[:, 0]
    for number in range(1, clusters):
        total = nearest.sum(dtype=np.float64)
        if total > 0:
            drawn = np.searchsorted(np.cumsum(nearest, dtype=np.float64), random.random(trials) * total)
            candidates = np.minimum(drawn, size - 1)
        else:  # fewer different rows than clusters
            candidates = random.integers(size, size=trials)
        distances = np.minimum(nearest[:, None], _squared(sample, squares, sample[candidates]))
        best = int(distances.sum(0, dtype=np.float64).argmin())
        centers[number], nearest = sample[candidates[best]], distances[:, best]
    return centers


def _squared(rows: Floats, squares: Floats, centers: Floats) -> Floats:
    """(N, K) squared Euclidean distances."""
    found: Floats = squares[:, None] - 2 * rows @ centers.T + (centers**2).sum(1)
    return np.maximum(found, 0)


def _nearest(rows: Array, centers: Floats) -> tuple[Longs, Floats]:
    """(N,) the number of the nearest center of each row, and the squared distance."""
    labels, distances = np.empty(len(rows), np.int64), np.empty(len(rows), np.float32)
    for start, end in blocks_of(rows):
        part = np.asarray(rows[start:end], np.float32)
        found = _squared(part, (part**2).sum(1), centers)
        labels[start:end] = found.argmin(1)
        distances[start:end] = found.min(1)
    return labels, distances


def _fill_empty(labels: Longs, distances: Floats, clusters: int) -> None:
    """Give each empty cluster the row that is farthest from its center."""
    sizes = np.bincount(labels, minlength=clusters)
    for empty in np.flatnonzero(sizes == 0):
        farthest = int(np.where(sizes[labels] > 1, distances, -1).argmax())
        sizes[labels[farthest]] -= 1
        labels[farthest], distances[farthest], sizes[empty] = empty, -1, 1


def _means(rows: Array, labels: Longs, clusters: int) -> Floats:
    """(K, D)."""
    sums = np.zeros((clusters, rows.shape[1]))
    for start, end in blocks_of(rows):
        own = labels[start:end]
        order = np.argsort(own, kind="stable")
        present, firsts = np.unique(own[order], return_index=True)
        sums[present] += np.add.reduceat(np.asarray(rows[start:end], np.float64)[order], firsts, axis=0)
    return (sums / np.bincount(labels, minlength=clusters)[:, None]).astype(np.float32)


def _cosines(rows: Array, centers: Floats, labels: Longs) -> Doubles:
    lengths = np.linalg.norm(centers.astype(np.float64), axis=1)
    units = centers / np.maximum(lengths, 1e-30)[:, None]
    out = np.empty(len(rows))
    for start, end in blocks_of(rows):
        out[start:end] = np.einsum("ij,ij->i", np.asarray(rows[start:end], np.float64), units[labels[start:end]])
    return out
