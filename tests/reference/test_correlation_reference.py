"""Correlations equal scipy's, on random numbers, with and without ties, and on resamples of them."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from conftest import examples
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from nlptools.metrics.correlation import METRICS, evaluate

stats = pytest.importorskip("scipy.stats")
pytestmark = pytest.mark.reference


def ours(x, y):
    return evaluate([repr(float(value)) for value in x], [repr(float(value)) for value in y], METRICS)


def theirs(x, y):
    """What scipy gives; 0 where it gives nan."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a side that is constant
        found = [of(x, y).statistic for of in (stats.pearsonr, stats.spearmanr, stats.kendalltau)]
    return dict(zip(METRICS, np.nan_to_num(found).tolist()))


def check(x, y, seed):
    made = ours(x, y)
    assert made.values() == pytest.approx(theirs(x, y), rel=0, abs=1e-12)
    drawn = np.random.default_rng(seed).integers(0, len(x), size=(3, len(x)))
    computed = made.compute(np.stack([np.bincount(row, minlength=len(x)) for row in drawn]))
    for row, values in zip(drawn, computed):
        assert dict(zip(METRICS, values.tolist())) == pytest.approx(theirs(x[row], y[row]), rel=0, abs=1e-12)


@settings(max_examples=examples(150), deadline=None)
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(-3, 3)), min_size=2, max_size=60), st.integers(0, 2**32 - 1))
def test_numbers_with_many_ties(pairs, seed):
    x, y = (np.array(side, np.float64) for side in zip(*pairs))
    assume(len(set(x)) > 1 and len(set(y)) > 1)
    check(x, y, seed)


@settings(max_examples=examples(100), deadline=None)
@given(st.integers(10, 80), st.floats(-3, 3), st.sampled_from([1e-9, 0.3, 1.0, 1e12]), st.integers(0, 2**32 - 1))
def test_numbers_without_ties(count, slope, scale, seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=count)
    check(x * scale, rng.normal(size=count) + slope * x + 2.0, seed)


@pytest.mark.parametrize("seed", range(3))
def test_many_numbers(seed):
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 26, size=5000) / 5  # as the gold scores of STS-B
    check(x, x + rng.normal(size=5000).round(seed), seed)


def test_heavy_tails():
    rng = np.random.default_rng(5)
    x, y = rng.standard_cauchy(size=(2, 1000)) ** 3
    check(x, y + x, 0)
