"""k-means against scikit-learn, and its laws."""

from __future__ import annotations

import numpy as np
import pytest

from nlptools.vectors.kmeans import kmeans
from nlptools.vectors.rows import unit


def blobs(count: int, clusters: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    centers = random.normal(size=(clusters, 16))
    which = random.integers(clusters, size=count)
    return unit(centers[which] + 0.15 * random.normal(size=(count, 16))), which


def test_clusters_are_found() -> None:
    rows, which = blobs(600, 7)
    found = kmeans(rows, 7, seed=3)
    pairs = {(int(a), int(b)) for a, b in zip(found.labels, which, strict=True)}
    assert len(pairs) == 7
    sizes = np.bincount(found.labels)
    assert (np.diff(sizes) <= 0).all() and (found.cosines > 0.8).all()
    np.testing.assert_allclose(found.centers[0], rows[found.labels == 0].mean(0), atol=1e-6)


def test_the_sum_of_distances_is_that_of_scikit_learn() -> None:
    cluster = pytest.importorskip("sklearn.cluster")
    rows = unit(np.random.default_rng(1).normal(size=(400, 8)))
    own = kmeans(rows, 6, seed=2)
    ours = ((rows - own.centers[own.labels]) ** 2).sum()
    theirs = cluster.KMeans(6, n_init=1, random_state=0).fit(rows).inertia_
    assert ours < 1.05 * theirs


def test_a_seed_gives_the_same_clusters_and_few_rows_suffice() -> None:
    rows, _ = blobs(50, 3)
    assert (kmeans(rows, 4, seed=5).labels == kmeans(rows, 4, seed=5).labels).all()
    same = np.ones((5, 4), np.float32) / 2
    assert sorted(np.bincount(kmeans(same, 3).labels)) == [1, 1, 3]
    assert kmeans(rows[:2], 9).labels.tolist() in ([0, 1], [1, 0])
