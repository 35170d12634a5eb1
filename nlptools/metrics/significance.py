"""Paired tests of systems under any metric.

Koehn 2004 (W04-3250): the paired bootstrap test, in the reading of Moses; Riezler & Maxwell 2005 (W05-0908): approximate
randomization, in the reading of MultEval (Clark et al. 2011, P11-2031); Holm 1979, "A simple sequentially rejective
multiple test procedure". Draws, intervals and p-values equal sacrebleu's (Post 2018, W18-6319).
Departure: a system with the baseline's statistics has a p-value of 1; sacrebleu, which counts only trials beyond
the observed difference, gives it the smallest possible one.
Shapes: N examples, C statistics, B resamples or trials, b of them at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from nlptools.errors import UsageError
from nlptools.metrics.metric import Evaluation, Floats, Sums, bootstrap, check_counts
from nlptools.metrics.resampling import SEED, interval

CHUNK_FLIPS = 1 << 17  # random bits drawn at a time


@dataclass(frozen=True)
class SystemScore:
    """One value of a metric for one system.

    Attributes:
        mean, ci: mean of the resampled values and half the width of their 95% interval; None without resampling.
        p_value: probability of a difference from the baseline at least as large if both systems are equally good; None
            for the baseline and without a test.
        corrected: `p_value` is corrected for the number of systems.
    """

    name: str
    value: float
    mean: float | None = None
    ci: float | None = None
    p_value: float | None = None
    corrected: bool = False


def results(evaluation: Evaluation, resamples: int = 0, seed: int | None = SEED) -> list[SystemScore]:
    """All values of a metric, with their bootstrap intervals if `resamples` is not 0."""
    intervals = evaluation.intervals(resamples, seed) if resamples else {}
    return [SystemScore(name, value, *intervals.get(name, ())) for name, value in evaluation.values().items()]


def paired_bootstrap(systems: Sequence[Evaluation], resamples: int, seed: int = SEED) -> list[SystemScore]:
    """The first value of each system, tested against the first system, which is the baseline.

    Raises:
        DataError: the numbers of examples differ.
    """
    drawn = [scores[:, 0] for scores in bootstrap(systems, resamples, seed)]
    tested: list[SystemScore] = []
    for system, scores in zip(systems, drawn, strict=True):
        # numpy's mean here, the exact one in `results`: as in sacrebleu, they differ in the last bits
        result = replace(results(system)[0], mean=float(np.sort(scores).mean()), ci=interval(scores)[1])
        if tested:
            difference = np.abs(scores - drawn[0])
            alike = _alike(system, systems[0], np.array_equal(scores, drawn[0]))
            result = _with_p_value(result, tested[0], difference - difference.mean(), alike)
        tested.append(result)
    return tested


def paired_randomization(systems: Sequence[Evaluation], trials: int, seed: int = SEED) -> list[SystemScore]:
    """The first value of each system, tested against the first system, which is the baseline.

    Raises:
        DataError: the numbers of examples differ.
        UsageError: the metric is not computed from dense sums, or the systems have different columns.
    """
    count = check_counts(systems)
    tables = [system.rows.table.astype(np.float64) for system in systems if isinstance(system.rows, Sums)]
    if len(tables) < len(systems) or len({table.shape[1] for table in tables}) > 1:
        raise UsageError("approximate randomization expects one metric of sums", hint="the paired bootstrap is for all")
    tested = results(systems[0])[:1]
    first = tables[0]
    for system, second in zip(systems[1:], tables[1:], strict=True):
        together = first.sum(axis=0) + second.sum(axis=0)
        differences = []
        for picks in _coin_flips(count, trials, np.random.default_rng(seed)):
            one = picks @ (first - second) + second.sum(axis=0)
            differences.append(np.abs(system.scores(one) - system.scores(together - one))[:, 0])
        alike = _alike(system, systems[0])
        tested.append(_with_p_value(results(system)[0], tested[0], np.concatenate(differences), alike))
    return tested


def holm(tested: Sequence[SystemScore]) -> list[SystemScore]:
    """`tested` with p-values corrected for their number: the probability of any false positive stays below the level."""
    places = [i for i, result in enumerate(tested) if result.p_value is not None]
    corrected = list(tested)
    highest = 0.0
    for rank, i in enumerate(sorted(places, key=lambda i: tested[i].p_value or 0.0)):
        highest = max(highest, min(1.0, (len(places) - rank) * (tested[i].p_value or 0.0)))
        corrected[i] = replace(tested[i], p_value=highest, corrected=True)
    return corrected


def _coin_flips(count: int, trials: int, rng: np.random.Generator) -> Iterator[NDArray[np.float64]]:
    """0 or 1 for each of `count` examples in each of `trials` rows, (b, count) at a time.

    The generator makes 32 flips of one draw, so only blocks of 32 rows at a time continue one stream.
    """
    size = max(32, CHUNK_FLIPS // max(1, count) // 32 * 32)
    for start in range(0, trials, size):
        yield rng.integers(2, size=(min(size, trials - start), count), dtype=bool).astype(np.float64)


def _with_p_value(result: SystemScore, baseline: SystemScore, statistics: Floats, alike: bool) -> SystemScore:
    """The p-value is the share of `statistics` (B,) beyond the observed difference.

    One is added to both counts, so that it is never 0.
    """
    beyond = int(np.count_nonzero(statistics > abs(baseline.value - result.value)))
    return replace(result, p_value=1.0 if alike else (beyond + 1) / (len(statistics) + 1))


def _alike(one: Evaluation, other: Evaluation, otherwise: bool = False) -> bool:
    """Whether two systems have the same dense rows; `otherwise` if their rows are of another kind."""
    if isinstance(one.rows, Sums) and isinstance(other.rows, Sums):
        return np.array_equal(one.rows.table, other.rows.table)
    return otherwise
