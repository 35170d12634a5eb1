"""Bootstrap resampling: how far a score would move on another sample of the same size.

Koehn 2004, "Statistical significance tests for machine translation evaluation" (W04-3250); Efron 1979.
A resample is given by weights: how often each of N examples was drawn. A metric that can be computed from weighted
examples, which every sum of per-example statistics can, is resampled without copying an example.
The draws are those of sacrebleu (Post 2018, W18-6319): numpy's default generator, seed 12345, rows of N indices. They
are made a few rows at a time, which gives the same numbers in bounded memory.
Shapes: B resamples, N examples, C statistics, M values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

Weights = NDArray[np.int64]
Values = NDArray[np.float64]

SEED = 12345
RESAMPLES = 1000
_CHUNK_DRAWS = 1 << 16  # indices drawn at a time: all that is made of them stays in the cache


def weights(count: int, resamples: int, rng: np.random.Generator) -> Iterator[Weights]:
    """How often each of `count` examples (N) is drawn in each of `resamples` rows: (b, N) at a time, B rows in all."""
    size = max(1, _CHUNK_DRAWS // max(1, count))
    for start in range(0, resamples, size):
        rows = min(size, resamples - start)
        draws = rng.integers(0, count, size=(rows, count))
        draws += np.arange(rows)[:, None] * count
        yield np.bincount(draws.ravel(), minlength=rows * count).reshape(rows, count)


def bootstrap(compute: Callable[[Weights], Values], count: int, resamples: int, seed: int | None = SEED) -> Values:
    """The values of `compute`, (b, N) -> (b, M), on resamples of `count` examples: (B, M)."""
    rng = np.random.default_rng(seed)
    return np.concatenate([compute(rows) for rows in weights(count, resamples, rng)])


def interval(values: NDArray[np.floating[Any]]) -> tuple[float, float]:
    """(mean, half the width of the 95% interval) of resampled `values` (B,), the interval between ranked values.

    Both have the precision of the type of the values.
    """
    import statistics  # slow to import, and few scores have an interval

    ranked = np.sort(values)
    skipped = len(ranked) // 40
    mean = values.dtype.type(statistics.mean(ranked.tolist()))
    return float(mean), float(0.5 * (ranked[len(ranked) - skipped - 1] - ranked[skipped]))
