"""Confidence intervals and paired tests for the metrics of translations.

Koehn 2004 (W04-3250): bootstrap intervals and the paired bootstrap test, in the reading of Moses; Riezler & Maxwell 2005
(W05-0908): approximate randomization, in the reading of MultEval (Clark et al. 2011, P11-2031); Holm 1979, "A simple
sequentially rejective multiple test procedure". Draws, intervals and p-values are those of sacrebleu.
Departures: statistics are summed as products of a matrix of weights with the matrix of statistics, a few resamples at a
time, so that memory does not grow with their number. A system whose statistics are those of the baseline has a p-value
of 1; sacrebleu, which counts only trials beyond the observed difference, gives it the smallest that there is.
Shapes: S segments, C statistics, B resamples, b of them at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from nlptools.errors import DataError
from nlptools.metrics import resampling
from nlptools.metrics.resampling import SEED
from nlptools.metrics.translation.metric import Floats, Score, Table, TranslationMetric

_CHUNK_DRAWS = 1 << 17  # random bits drawn at a time: the weights made of them stay in the cache


@dataclass(frozen=True)
class Result:
    """What is known of one system under one metric.

    Attributes:
        mean, ci: mean of the resampled scores, and half the width of their 95% interval; None without resampling.
        p_value: how probable a difference to the baseline at least as large is, if both are alike; None for the baseline.
        corrected: whether `p_value` has been corrected for the number of systems.
    """

    score: Score
    mean: float | None = None
    ci: float | None = None
    p_value: float | None = None
    corrected: bool = False


def confidence(metric: TranslationMetric, table: Table, resamples: int, seed: int = SEED) -> Result:
    """The score of all segments (S, C), with its interval."""
    drawn = resampled_scores(metric, [table], resamples, seed)[0]
    mean, ci = resampling.interval(drawn)
    return Result(metric.score(table.sum(axis=0)), mean, ci)


def resampled_scores(metric: TranslationMetric, tables: Sequence[Table], resamples: int, seed: int = SEED) -> Floats:
    """The scores of each of K tables (S, C) on the same bootstrap resamples of their segments: (K, B).

    The sums are exact, then float32, as the statistics of resamples are in sacrebleu.
    """
    stacked = np.concatenate(tables, axis=1).astype(np.float64)  # exact: counts are far below 2**53
    rng = np.random.default_rng(seed)
    sums = np.concatenate([rows @ stacked for rows in resampling.weights(len(stacked), resamples, rng)])
    return np.stack([metric.scores(part.astype(np.float32)) for part in np.split(sums, len(tables), axis=1)])


def paired_bootstrap(
    metric: TranslationMetric, tables: Sequence[Table], resamples: int, seed: int = SEED
) -> list[Result]:
    """Each system (S, C) beside the first, which is the baseline. Raises DataError for unequal numbers of segments."""
    _check_equal(tables)
    drawn = resampled_scores(metric, tables, resamples, seed)
    results: list[Result] = []
    for i, table in enumerate(tables):
        # the mean of numpy here, the exact one in `confidence`: as in sacrebleu, they differ in the last bits
        mean, ci = float(np.sort(drawn[i]).mean()), resampling.interval(drawn[i])[1]
        result = Result(metric.score(table.sum(axis=0)), mean, ci)
        if i:
            difference = np.abs(drawn[i] - drawn[0])
            observed = abs(results[0].score.score - result.score.score)
            alike = np.array_equal(table, tables[0])
            result = replace(result, p_value=1.0 if alike else _p_value(difference - difference.mean(), observed))
        results.append(result)
    return results


def paired_randomization(
    metric: TranslationMetric, tables: Sequence[Table], trials: int, seed: int = SEED
) -> list[Result]:
    """Each system (S, C) beside the first, which is the baseline. Raises DataError for unequal numbers of segments."""
    _check_equal(tables)
    results = [Result(metric.score(tables[0].sum(axis=0)))]
    first = tables[0].astype(np.float64)
    for table in tables[1:]:
        second = table.astype(np.float64)
        together = first.sum(axis=0) + second.sum(axis=0)
        differences = []
        for picks in _coin_flips(len(first), trials, np.random.default_rng(seed)):
            one = picks @ (first - second) + second.sum(axis=0)
            differences.append(np.abs(metric.scores(one) - metric.scores(together - one)))
        score = metric.score(table.sum(axis=0))
        observed = abs(results[0].score.score - score.score)
        alike = np.array_equal(table, tables[0])
        results.append(Result(score, p_value=1.0 if alike else _p_value(np.concatenate(differences), observed)))
    return results


def holm(results: Sequence[Result]) -> list[Result]:
    """The p-values of all systems but the baseline, corrected so that the chance of any false finding stays what it says."""
    tested = [i for i, result in enumerate(results) if result.p_value is not None]
    corrected = list(results)
    highest = 0.0
    for rank, i in enumerate(sorted(tested, key=lambda i: results[i].p_value or 0.0)):
        highest = max(highest, min(1.0, (len(tested) - rank) * (results[i].p_value or 0.0)))
        corrected[i] = replace(results[i], p_value=highest, corrected=True)
    return corrected


def _coin_flips(count: int, trials: int, rng: np.random.Generator) -> Iterator[NDArray[np.float64]]:
    """0 or 1 for each of `count` segments in each of `trials` rows, (b, count) at a time.

    The generator makes 32 flips of one draw, so only blocks of 32 rows at a time continue one stream.
    """
    size = max(32, _CHUNK_DRAWS // max(1, count) // 32 * 32)
    for start in range(0, trials, size):
        yield rng.integers(2, size=(min(size, trials - start), count), dtype=bool).astype(np.float64)


def _p_value(statistics: Floats, observed: float) -> float:
    """The share of `statistics` (B,) beyond the observed difference; one more on both sides, so that it is never 0."""
    return (int(np.count_nonzero(statistics > observed)) + 1) / (len(statistics) + 1)


def _check_equal(tables: Sequence[Table]) -> None:
    counts = [len(table) for table in tables]
    if len(set(counts)) > 1:
        raise DataError(f"unequal numbers of segments: {counts}")
