"""Resampling: which examples are drawn, in which pieces, and the interval."""

from __future__ import annotations

import statistics

import numpy as np
import pytest

from nlptools.metrics import resampling
from nlptools.metrics.metric import Evaluation, Examples
from nlptools.metrics.metric import bootstrap as bootstrap_all
from nlptools.metrics.resampling import interval, weights

VALUES = np.random.default_rng(3).normal(size=(40, 2))


def mean(rows):
    """The weighted mean of each column of VALUES: (B, 40) -> (B, 2)."""
    return rows @ VALUES / rows.sum(axis=1, keepdims=True)


def bootstrap(resamples, seed=resampling.SEED):
    """The mean of each column of VALUES on resamples: (B, 2)."""
    return bootstrap_all([Evaluation(("left", "right"), Examples(40), mean, "rows")], resamples, seed)[0]


def drawn(count, resamples, seed=12345):
    return np.concatenate(list(weights(count, resamples, np.random.default_rng(seed))))


@pytest.mark.parametrize(("count", "resamples"), [(1, 5), (2, 1), (40, 30), (997, 12)])
def test_draws_are_rows_of_numpys_choice(count, resamples):
    rows = np.random.default_rng(12345).choice(count, size=(resamples, count))
    expected = [np.bincount(row, minlength=count) for row in rows]
    found = drawn(count, resamples)
    assert found.dtype == np.int64
    assert np.array_equal(found, expected)


@pytest.mark.parametrize("chunk", [1, 40, 79, 80, 400])
def test_the_size_of_the_pieces_does_not_matter(chunk, monkeypatch):
    expected = drawn(40, 30)
    monkeypatch.setattr(resampling, "CHUNK_DRAWS", chunk)
    pieces = [len(piece) for piece in weights(40, 30, np.random.default_rng(12345))]
    assert sum(pieces) == 30 and max(pieces) == max(1, chunk // 40)
    assert np.array_equal(drawn(40, 30), expected)
    assert bootstrap(30) == pytest.approx(mean(expected), abs=1e-15)


def test_each_resample_has_as_many_examples():
    assert set(drawn(40, 200).sum(axis=1).tolist()) == {40}
    assert drawn(40, 2000).mean() == 1.0
    assert drawn(40, 2000).var(axis=0) == pytest.approx(np.full(40, 1 - 1 / 40), abs=0.15)  # binomial


def test_the_bootstrap_of_a_mean_is_the_naive_one():
    rows = np.random.default_rng(12345).choice(40, size=(50, 40))
    naive = [[statistics.mean(VALUES[row, column].tolist()) for column in range(2)] for row in rows]
    assert bootstrap(50) == pytest.approx(np.array(naive), abs=1e-14)


def test_seeds():
    assert np.array_equal(bootstrap(5), bootstrap(5, resampling.SEED))
    assert not np.array_equal(bootstrap(5), bootstrap(5, 7))
    assert not np.array_equal(bootstrap(5, None), bootstrap(5, None))


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([3.0], (3.0, 0.0)),
        ([5.0, 1.0, 2.0], (8 / 3, 2.0)),
        (range(39, -1, -1), (19.5, 18.5)),  # of 40, the lowest is left out: from 1 to 38, as the highest is, 39
        (range(1000), (499.5, (974 - 25) / 2)),
    ],
)
def test_interval_by_hand(values, expected):
    assert interval(np.array(list(values), np.float64)) == pytest.approx(expected)


def test_an_interval_covers_what_theory_says():
    half = interval(bootstrap(2000)[:, 0])[1]
    assert half == pytest.approx(1.96 * VALUES[:, 0].std() / np.sqrt(40), rel=0.1)
