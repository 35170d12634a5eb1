"""Bootstrap resamples: which examples are drawn, and the interval of the resampled values.

Efron 1979; Koehn 2004, "Statistical significance tests for machine translation evaluation" (W04-3250).
A resample is a row of weights: how often each of N examples is drawn. The draws equal sacrebleu's (Post 2018,
W18-6319): numpy's default generator, seed 12345, rows of N indices, a few rows at a time so that memory does not grow
with their number.
Shapes: N examples, B resamples, b of them at a time.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from nlptools.arrays import Array

SEED = 12345
RESAMPLES = 1000
CHUNK_DRAWS = 1 << 16  # indices drawn at a time: the arrays computed from them stay in the cache


def weights(count: int, resamples: int, rng: np.random.Generator) -> Iterator[NDArray[np.int64]]:
    """How often each of N = `count` examples is drawn in each resample: (b, N) at a time, B rows in all."""
    size = max(1, CHUNK_DRAWS // max(1, count))
    for start in range(0, resamples, size):
        rows = min(size, resamples - start)
        draws = rng.integers(0, count, size=(rows, count))
        draws += np.arange(rows)[:, None] * count
        yield np.bincount(draws.ravel(), minlength=rows * count).reshape(rows, count)


def interval(values: Array) -> tuple[float, float]:
    """(mean, half the width of the 95% interval) of resampled `values` (B,), the interval between ranked values.

    Both have the precision of the type of the values.
    """
    import statistics  # slow to import, and few scores have an interval

    ranked = np.sort(values)
    skipped = len(ranked) // 40
    mean = values.dtype.type(statistics.mean(ranked.tolist()))
    return float(mean), float(0.5 * (ranked[len(ranked) - skipped - 1] - ranked[skipped]))
