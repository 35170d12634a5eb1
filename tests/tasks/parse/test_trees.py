"""The best tree against all trees."""

from __future__ import annotations

import itertools

import numpy as np

from nlptools.formats.universal import cycle
from nlptools.tasks.parse.trees import best_tree


def all_trees(count: int) -> np.ndarray:
    """The heads of all trees of `count` words with one root: (trees, count)."""
    return np.array(
        [
            heads
            for heads in itertools.product(range(count + 1), repeat=count)
            if heads.count(0) == 1 and not cycle(heads)
        ]
    )


def test_cycles() -> None:
    assert cycle([0, 1, 2]) == cycle([]) == cycle([2, 3, 0]) == []
    assert cycle([1]) == [0]
    assert cycle([0, 3, 4, 2, 3]) == [1, 2, 3]


def test_is_the_best_of_all_trees() -> None:
    rng = np.random.default_rng(0)
    for count in range(1, 7):
        trees = all_trees(count)
        assert len(trees) == count ** (count - 1)  # Cayley 1889
        for scale in (0.01, 1.0, 100.0) * 8:
            scores = rng.normal(size=(count, count + 1)) * scale
            if scale == 1.0:
                scores = scores.round()  # ties
            totals = scores[np.arange(count), trees].sum(axis=1)
            found = best_tree(scores)
            assert (found == trees).all(axis=1).any()
            assert np.isclose(scores[np.arange(count), found].sum(), totals.max())


def test_long_sentences_are_trees_with_one_root() -> None:
    rng = np.random.default_rng(1)
    for count in (40, 150):
        scores = rng.normal(size=(count, count + 1))
        scores[:, 0] += 5  # every word would be a root
        found = best_tree(scores).tolist()
        assert found.count(0) == 1 and not cycle(found)
    assert best_tree(np.zeros((0, 1))).tolist() == []
