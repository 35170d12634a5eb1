"""Correlations: cases by hand, laws, resamples, and what is refused."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from conftest import examples
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from nlptools.errors import DataError, UsageError
from nlptools.metrics.correlation import METRICS, evaluate


def texts(values):
    return [repr(float(value)) for value in values]


def values(x, y):
    return evaluate(texts(x), texts(y), METRICS).values()


def test_by_hand():
    found = values([1, 2, 3, 4], [1, 3, 2, 6])
    # centered: -1.5 -.5 .5 1.5 and -2 0 -1 3: products 7, squares 5 and 14
    assert found["pearson"] == pytest.approx(7 / math.sqrt(5 * 14), abs=1e-15)
    assert found["spearman"] == pytest.approx(1 - 6 * 2 / (4 * 15), abs=1e-15)
    assert found["kendall"] == pytest.approx((5 - 1) / 6, abs=1e-15)


def test_ties_by_hand():
    found = values([1, 1, 2, 3], [5, 6, 6, 6])
    # ranks 1.5 1.5 3 4 and 1 3 3 3; centered -1 -1 .5 1.5 and -1.5 .5 .5 .5
    assert found["spearman"] == pytest.approx((1.5 - 0.5 + 0.25 + 0.75) / math.sqrt(4.5 * 3), abs=1e-15)
    # of 6 pairs, 1 is tied in x and 3 in y; 2 are concordant
    assert found["kendall"] == pytest.approx(2 / math.sqrt(5 * 3), abs=1e-15)


def slow_tau(x, y):
    """Kendall's tau-b by all pairs."""
    signs = [(np.sign(a - c), np.sign(b - d)) for (a, b), (c, d) in itertools.combinations(zip(x, y), 2)]
    of_x, of_y = (sum(side != 0 for side in sides) for sides in zip(*signs))
    return sum(a * b for a, b in signs) / math.sqrt(of_x * of_y)


numbers_lists = st.lists(st.tuples(st.integers(-4, 4), st.integers(0, 9)), min_size=2, max_size=25)


@settings(max_examples=examples(150), deadline=None)
@given(numbers_lists, st.integers(0, 2**32 - 1))
def test_a_weight_is_a_number_of_copies(pairs, seed):
    x, y = (list(side) for side in zip(*pairs))
    assume(len(set(x)) > 1 and len(set(y)) > 1)
    made = evaluate(texts(x), texts(y), METRICS)
    weights = np.random.default_rng(seed).multinomial(len(x), np.ones(len(x)) / len(x), size=4)
    for row, computed in zip(weights, made.compute(weights)):
        copies = [np.repeat(side, row) for side in (x, y)]
        if len(set(copies[0])) == 1 or len(set(copies[1])) == 1:
            assert computed.tolist() == [0.0, 0.0, 0.0]
            continue
        expected = values(*copies)
        assert computed.tolist() == pytest.approx(list(expected.values()), abs=1e-12)
        assert expected["kendall"] == pytest.approx(slow_tau(*copies), abs=1e-12)


@settings(max_examples=examples(100), deadline=None)
@given(numbers_lists)
def test_laws(pairs):
    x, y = (np.array(side, np.float64) for side in zip(*pairs))
    assume(len(set(x)) > 1 and len(set(y)) > 1)
    found = values(x, y)
    assert all(-1 <= value <= 1 for value in found.values())
    assert values(y, x) == pytest.approx(found, abs=1e-14)
    assert values(-x, y) == pytest.approx({name: -value for name, value in found.items()}, abs=1e-14)
    assert values(3 * x + 7, y / 4) == pytest.approx(found, abs=1e-14)
    bent = values(np.exp(x), y)
    assert (bent["spearman"], bent["kendall"]) == (found["spearman"], found["kendall"])
    assert values(x, x) == pytest.approx(dict.fromkeys(METRICS, 1.0), abs=1e-14)


@pytest.mark.parametrize("scale", [2.0**-1000, 2.0**-530, 1.0, 2.0**530, 2.0**980])
@pytest.mark.parametrize("shift", [0.0, 1.0, 2.0**40])
def test_sizes_do_not_matter(scale, shift):
    x, y = np.array([1.0, 2, 3, 4]), np.array([1.0, 3, 2, 6])
    assert values((x + shift) * scale, y)["pearson"] == pytest.approx(7 / math.sqrt(70), abs=1e-14)


def test_a_resample_without_the_outlier_loses_no_digits():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 50))
    y += x
    expected = values(x, y)
    far_x, far_y = np.append(x, 1e12), np.append(y, 0.0)
    made = evaluate(texts(far_x), texts(far_y), METRICS)
    weights = np.append(np.ones(50, np.int64), 0)[None]
    assert made.compute(weights)[0].tolist() == pytest.approx(list(expected.values()), abs=1e-12)


def of_the_first(x, y, count):
    """Pearson's r of a resample that leaves out all but the first `count` examples."""
    weights = np.zeros((1, len(x)), np.int64)
    weights[0, :count] = 1
    return evaluate(texts(x), texts(y), ["pearson"]).compute(weights)[0, 0]


@pytest.mark.parametrize("scale", [1e-80, 1e-157, 1e-159, 1e-170, 1e-290])
def test_a_resample_of_tiny_numbers_loses_no_digits(scale):
    x, y = np.random.default_rng(0).normal(size=(2, 50))
    expected = values(x, y)["pearson"]
    found = of_the_first(np.append(x * scale, [1.0, -1.0]), np.append(y, [0.0, 0.0]), 50)
    assert found == pytest.approx(expected, abs=1e-13)


def test_a_resample_far_from_0_loses_no_digits():
    x, y = np.array([1.0, 2, 3, 5, 8, 13, 21]), np.array([3.0, 1, 4, 1, 5, 9, 2])
    expected = values(x, y)["pearson"]
    found = of_the_first(np.append(x + 2.0**50, 1e30), np.append(y + 2.0**51, 0.0), 7)  # no float is their mean
    assert found == pytest.approx(expected, abs=1e-13)


def test_intervals():
    rng = np.random.default_rng(1)
    x, noise = rng.normal(size=(2, 300))
    made = evaluate(texts(x), texts(x + noise), METRICS)
    found = made.values()
    for name, (mean, half) in made.intervals(resamples=300).items():
        assert mean == pytest.approx(found[name], abs=0.02) and 0.01 < half < 0.15


def test_names_and_signature():
    made = evaluate(["1", "2"], ["3", "4"], ["spearman", "pearson", "spearman"])
    assert (made.names, made.count, made.unit) == (("spearman", "pearson"), 2, "pairs")
    assert made.signature().startswith("unit:pairs|version:nlptools-")
    assert evaluate(["1", "2"], [" 3e0", "-4.5 "]).names == ("pearson", "spearman")


@pytest.mark.parametrize("line", ["nan", "inf", "-Infinity", "1e999", "x", "", "1 2", "1_000", "١٢", "0x1"])
def test_a_line_that_is_no_number(line):
    with pytest.raises(DataError, match=r"^p.txt:3: expected a finite number, got "):
        evaluate(["1", "2", "3"], ["1", "2", line], paths=("g.txt", "p.txt"))
    with pytest.raises(DataError, match=r"^line 2: expected a finite number, got "):
        evaluate(["1", line, "3"], ["1", "2", "3"])


@pytest.mark.parametrize(
    ("gold", "predicted", "message"),
    [
        (["1", "2"], ["1"], r"^p.txt: unequal counts: 2 gold numbers, 1 predicted$"),
        ([], [], "no numbers"),
        (["1"], ["1"], "at least two pairs"),
        (["1", "2"], ["3", "3.0"], "^p.txt: all 2 predicted numbers are 3: no correlation is defined"),
        (["0.1"] * 7, list("1234567"), "^g.txt: all 7 gold numbers are 0.1"),
    ],
)
def test_bad_data(gold, predicted, message):
    with pytest.raises(DataError, match=message):
        evaluate(gold, predicted, paths=("g.txt", "p.txt"))


def test_wrong_usage():
    with pytest.raises(UsageError, match=r"no such metric: r2, expected some of pearson, spearman, kendall"):
        evaluate(["1", "2"], ["1", "2"], ["r2"])
    with pytest.raises(UsageError, match="no such metric"):
        evaluate(["1", "2"], ["1", "2"], [])
    with pytest.raises(UsageError, match="list"):
        evaluate("12", "12")
