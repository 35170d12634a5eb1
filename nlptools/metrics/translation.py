"""What every metric of translations is: statistics of segments, whose sums give the score.

`chrf` and `ter` differ in what they count. A score is a function of summed statistics, so one set of statistics
serves the corpus, each of its segments, and every resample of a bootstrap.
Shapes: S segments, C statistics, B resamples.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from nlptools.errors import DataError, UsageError

Table = NDArray[Any]  # of int64, or of float64 where a statistic is a mean


@dataclass(frozen=True)
class Score:
    """One number, from 0 to 100 where the metric has bounds; `verbose` is what is printed after it, perhaps nothing."""

    name: str
    score: float
    verbose: str = ""


class TranslationMetric(Protocol):
    """A metric with its options.

    References are given as one list per reference, each as long as the hypotheses; None stands where a segment has no
    such reference.
    """

    @property
    def name(self) -> str:
        """What the score is called, for instance `chrF2`."""
        ...

    @property
    def columns(self) -> tuple[str, ...]:
        """What the C statistics are called."""
        ...

    def statistics(self, hypotheses: list[str], references: Sequence[Sequence[str | None]]) -> Table:
        """The statistics of each segment: (S, C).

        Raises:
            DataError: the numbers of segments differ, or a segment has no reference at all.
            UsageError: no references.
        """
        ...

    def score(self, total: Table) -> Score:
        """The score of one segment's statistics or of a sum of them: (C,)."""
        ...

    def scores(self, totals: Table) -> NDArray[np.float64]:
        """The scores of several sums: (B, C) -> (B,)."""
        ...

    def signature(self) -> tuple[tuple[str, str], ...]:
        """How the score was made, as (key, value) in order; numbers of references and the version are for the caller."""
        ...


def check_segments(hypotheses: Sequence[str], references: Sequence[Sequence[str | None]]) -> None:
    """Refuse what no metric can count.

    Raises:
        DataError: the numbers of segments differ, or a segment has no reference at all.
        UsageError: no references.
    """
    if not references:
        raise UsageError("expected at least one reference")
    counts = [len(hypotheses), *map(len, references)]
    if len(set(counts)) > 1:
        raise DataError(f"unequal numbers of segments: {counts[0]} hypotheses, references {counts[1:]}")
    for i, segment in enumerate(zip(*references)):
        if all(reference is None for reference in segment):
            raise DataError(f"segment {i + 1} has no reference, expected at least one")
