"""Resampling: which examples are drawn, in which pieces, and the interval; and what a measure makes of it."""

from __future__ import annotations

import statistics

import numpy as np
import pytest

from nlptools import __version__
from nlptools.metrics import resampling
from nlptools.metrics.measures import Measures
from nlptools.metrics.resampling import bootstrap, interval, weights

VALUES = np.random.default_rng(3).normal(size=(40, 2))


def mean(rows):
    """The weighted mean of each column of VALUES: (B, 40) -> (B, 2)."""
    return rows @ VALUES / rows.sum(axis=1, keepdims=True)


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
    monkeypatch.setattr(resampling, "_CHUNK_DRAWS", chunk)
    pieces = [len(piece) for piece in weights(40, 30, np.random.default_rng(12345))]
    assert sum(pieces) == 30 and max(pieces) == max(1, chunk // 40)
    assert np.array_equal(drawn(40, 30), expected)
    assert bootstrap(mean, 40, 30) == pytest.approx(mean(expected), abs=1e-15)


def test_each_resample_has_as_many_examples():
    assert set(drawn(40, 200).sum(axis=1).tolist()) == {40}
    assert drawn(40, 2000).mean() == 1.0
    assert drawn(40, 2000).var(axis=0) == pytest.approx(np.full(40, 1 - 1 / 40), abs=0.15)  # binomial


def test_the_bootstrap_of_a_mean_is_the_naive_one():
    rows = np.random.default_rng(12345).choice(40, size=(50, 40))
    naive = [[statistics.mean(VALUES[row, column].tolist()) for column in range(2)] for row in rows]
    assert bootstrap(mean, 40, 50) == pytest.approx(np.array(naive), abs=1e-14)


def test_seeds():
    assert np.array_equal(bootstrap(mean, 40, 5), bootstrap(mean, 40, 5, resampling.SEED))
    assert not np.array_equal(bootstrap(mean, 40, 5), bootstrap(mean, 40, 5, 7))
    assert not np.array_equal(bootstrap(mean, 40, 5, None), bootstrap(mean, 40, 5, None))


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
    half = interval(bootstrap(mean, 40, 2000)[:, 0])[1]
    assert half == pytest.approx(1.96 * VALUES[:, 0].std() / np.sqrt(40), rel=0.1)


def test_a_measure():
    made = Measures(("left", "right"), 40, "rows", mean, (("kind", "mean"), ("of", "2")))
    assert made.values() == pytest.approx(dict(zip(("left", "right"), VALUES.mean(axis=0))))
    resampled = bootstrap(mean, 40, 100, 7)
    assert made.intervals(100, 7) == {"left": interval(resampled[:, 0]), "right": interval(resampled[:, 1])}
    assert made.signed() == f"kind:mean|of:2|unit:rows|version:nlptools-{__version__}"
    assert made.signed(bs="100", seed="7") == f"kind:mean|of:2|unit:rows|bs:100|seed:7|version:nlptools-{__version__}"
    assert made.details == {}


def test_a_measure_gives_as_many_values_as_names():
    with pytest.raises(ValueError, match="zip"):
        Measures(("one",), 40, "rows", mean).values()
