"""Pearson, Spearman and Kendall correlation of predicted numbers with gold ones.

Pearson 1895, "Notes on regression and inheritance in the case of two parents"; Spearman 1904, "The proof and measurement
of association between two things", with average ranks for ties; Kendall 1945, "The treatment of ties in ranking
problems", which is tau-b. Values equal scipy's.
Where all numbers of a side are the same, no correlation is defined: an error for the score, and 0 in a resample, where
it may happen by chance if examples are few.
Departure: ranks are no sums over examples, so the rows are the examples themselves (`metric.Examples`) and values are
functions of weighted examples. An example of weight w stands for w tied ones, so that ranks in a resample come from sums
of weights, without sorting again.
Shapes: N examples, B resamples, K distinct values of one side, M values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from nlptools.configs.evaluate import Evaluate
from nlptools.configs.metrics import MetricRequest
from nlptools.errors import DataError, UsageError
from nlptools.metrics.metric import Evaluation, Examples, Ints, MetricData, Paths, Values, Weights, group_sums, ratio
from nlptools.metrics.paired import check_paired, numbers

_WELL_SPREAD = 1e-3  # variance / mean square: above it the sums of squares lose at most three digits
_TINY = 1e-100  # variance of numbers up to 1: below it squares and their products lose digits


def evaluate(
    gold: Sequence[str],
    predicted: Sequence[str],
    metrics: Sequence[str] = ("pearson", "spearman"),
    *,
    paths: Paths = (None, None),
) -> Evaluation:
    """Correlations of N gold numbers with N predicted ones, given as text; the unit is a pair, values lie in -1 to 1.

    Args:
        metrics: some of METRICS, `pearson`, `spearman` and `kendall`.
        paths: names of the files of gold and of predicted, for messages.

    Raises:
        DataError: fewer than two pairs, unequal numbers, all numbers of a side the same, or a line without a finite
            number (names the line).
        UsageError: no such metric.
    """
    metrics = tuple(dict.fromkeys(metrics))
    unknown = [name for name in metrics if name not in _METRICS]
    if unknown or not metrics:
        raise UsageError(f"no such metric: {', '.join(unknown) or 'none'}, expected some of {', '.join(METRICS)}")
    count = check_paired(gold, predicted, "numbers", paths)
    if count == 1:
        raise DataError("expected at least two pairs of numbers, got one", path=paths[0])
    sides = []
    for side, lines, path in zip(("gold", "predicted"), (gold, predicted), paths, strict=True):
        sides.append(numbers(lines, path))
        if (sides[-1] == sides[-1][0]).all():
            raise DataError(f"all {count} {side} numbers are {sides[-1][0]:g}: no correlation is defined", path=path)
    computes = [_METRICS[name](*sides) for name in metrics]

    def compute(weights: Weights) -> Values:
        return np.stack([of(weights) for of in computes], axis=1)

    return Evaluation(metrics, Examples(count), compute, "pairs")


def coefficients(gold: Values, predicted: Values) -> dict[str, float]:
    """Pearson and Spearman correlation of two lists of numbers (N,); 0 where all numbers of a side are the same."""
    if not np.ptp(gold) > 0 or not np.ptp(predicted) > 0:
        return {"pearson": 0.0, "spearman": 0.0}
    sides = [np.asarray(side, np.float64) for side in (gold, predicted)]
    equal = np.ones((1, len(sides[0])), np.int64)
    return {name: float(_METRICS[name](*sides)(equal)[0]) for name in ("pearson", "spearman")}


def requested(requests: Sequence[MetricRequest], data: MetricData, options: Evaluate) -> Evaluation:
    """The correlations that `nlptools evaluate` is asked for."""
    return evaluate(data.references, data.predictions, [request.metric for request in requests], paths=data.paths)


# -- Pearson ----------------------------------------------------------------------------------------------------------


def _pearson(x: Values, y: Values) -> Callable[[Weights], Values]:
    """Pearson's r as a function of weights, (B, N) -> (B,).

    Sums of squares and products of centered numbers are one matrix product. Where a resample lies far from the center of
    all examples and digits cancel, its value is computed again about its own center.
    """
    u, v = _centered(x), _centered(y)
    table = np.stack([np.ones_like(u), u, v, u * u, v * v, u * v], axis=1)  # (N, 6)

    def compute(weights: Weights) -> Values:
        n, *means = (weights @ table).T
        mean_u, mean_v, square_u, square_v, product = (mean / n for mean in means)
        variance_u, variance_v = square_u - mean_u**2, square_v - mean_v**2
        good = (variance_u > _WELL_SPREAD * square_u) & (variance_v > _WELL_SPREAD * square_v)
        good &= np.minimum(variance_u, variance_v) > _TINY
        spread = np.sqrt(np.where(good, variance_u * variance_v, 1.0))
        values: Values = np.clip((product - mean_u * mean_v) / spread, -1, 1)
        for row in np.flatnonzero(~good):
            values[row] = _pearson_of(x, y, weights[row])
        return values

    return compute


def _pearson_of(x: Values, y: Values, weights: Weights) -> float:
    """Pearson's r of one row of weights (N,), about its own center; 0 where a side is constant."""
    drawn = weights > 0
    x, y, weights = x[drawn], y[drawn], weights[drawn]
    if (x == x[0]).all() or (y == y[0]).all():
        return 0.0
    u, v = _centered(x, weights), _centered(y, weights)
    spread = math.sqrt(weights @ (u * u)) * math.sqrt(weights @ (v * v))
    return min(1.0, max(-1.0, float(weights @ (u * v)) / spread))


def _centered(x: Values, weights: Weights | None = None) -> Values:
    """`x` minus its weighted mean, divided by a power of two so that squares neither overflow nor vanish.

    The numbers are not all the same. Dividing by a power of two is exact.
    """
    for _ in range(2):  # once for numbers that are large or small, once for differences that are
        x = np.ldexp(x, -int(np.frexp(np.abs(x).max())[1]))
        x = x - np.average(x, weights=weights)
    return x


# -- ranks ------------------------------------------------------------------------------------------------------------


def _distinct(x: Values | Ints) -> tuple[Ints, int]:
    """The index of each number among the sorted distinct numbers, (N,), and how many distinct numbers there are."""
    values, places = np.unique(x, return_inverse=True)
    return places, len(values)


def _spearman(x: Values, y: Values) -> Callable[[Weights], Values]:
    """Spearman's rho as a function of weights, (B, N) -> (B,): Pearson's r of average ranks."""
    sides = [_distinct(x), _distinct(y)]

    def compute(weights: Weights) -> Values:
        n = weights.sum(axis=1, keepdims=True)
        squares, product = np.ones(len(weights)), weights.astype(np.float64)
        for places, count in sides:
            tied = group_sums(weights, places, count)  # (B, K)
            # The average rank is the weight of smaller numbers plus (tied + 1) / 2, and the mean of all ranks (n + 1) / 2.
            rank = np.cumsum(tied, axis=1) - (tied + n) / 2
            squares *= (tied * rank * rank).sum(axis=1)
            product *= np.take(rank, places, axis=1)
        return np.clip(ratio(product.sum(axis=1), np.sqrt(squares)), -1, 1)

    return compute


def _kendall(x: Values, y: Values) -> Callable[[Weights], Values]:
    """Kendall's tau-b as a function of weights, (B, N) -> (B,): in O(N log K) each, as Knight 1966 by merging."""
    (of_x, count_x), (of_y, count_y) = _distinct(x), _distinct(y)
    of_both, count_both = _distinct(of_x * count_y + of_y)
    order = np.lexsort((of_y, of_x))
    sorted_y = of_y[order]

    def compute(weights: Weights) -> Values:
        n = weights.sum(axis=1)
        tied_x, tied_y, tied_both = (
            _pairs(group_sums(weights, places, count)).sum(axis=1)
            for places, count in ((of_x, count_x), (of_y, count_y), (of_both, count_both))
        )
        pairs = _pairs(n)
        balance = pairs - tied_x - tied_y + tied_both - 2 * _discordant(np.take(weights, order, axis=1), sorted_y)
        return np.clip(ratio(balance, np.sqrt((pairs - tied_x) * (pairs - tied_y))), -1, 1)

    return compute


def _pairs(count: Values | Weights) -> Values:
    """The number of pairs among `count` examples."""
    pairs: Values = count * (count - 1) / 2
    return pairs


def _discordant(weights: Weights, places: Ints) -> Values:
    """The weight of all pairs in which the first example has the higher place: (B,). `places`: (N,).

    Two places first differ in one binary digit. For each digit, from the highest, examples that agree in all higher
    ones are adjacent, in their old order, and ones are counted in front of zeros.
    """
    found = np.zeros(len(weights))
    for digit in reversed(range(int(places.max()).bit_length())):
        one = (places >> digit) & 1
        starts = np.flatnonzero(np.diff(places >> (digit + 1), prepend=-1))  # of examples that agree so far
        ones, zeros = weights * one, weights * (1 - one)
        before = np.cumsum(ones, axis=1) - ones  # in front, of any group; earlier groups are subtracted below
        found += (zeros * before).sum(axis=1)
        found -= (np.add.reduceat(zeros, starts, axis=1) * before[:, starts]).sum(axis=1)
        order = np.argsort(places >> digit, kind="stable")
        weights, places = np.take(weights, order, axis=1), places[order]
    return found


_METRICS = {"pearson": _pearson, "spearman": _spearman, "kendall": _kendall}
METRICS = tuple(_METRICS)
