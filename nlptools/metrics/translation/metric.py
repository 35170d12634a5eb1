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
Floats = NDArray[Any]  # of float64 or float32


@dataclass(frozen=True)
class Score:
    """One number, from 0 to 100 where the metric has bounds; `verbose` is what is printed after it, perhaps nothing."""

    name: str
    score: float
    verbose: str = ""
    signature: str = ""  # how the score was made, where that is known

    def line(self, width: int = 1, number: str | None = None) -> str:
        """Name, signature, the score with `width` decimals (or what stands for it), and its parts, on one line."""
        made = f"{self.name}|{self.signature}" if self.signature else self.name
        verbose = f" {self.verbose}" if self.verbose else ""
        return f"{made} = {self.score:.{width}f}{verbose}" if number is None else f"{made} = {number}{verbose}"


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

    def scores(self, totals: Table) -> Floats:
        """The scores of several sums: (B, C) -> (B,).

        Sums in float32 are divided in float32, which is what sacrebleu does with its resamples: the interval it prints
        is the same to the last decimal then. All others are divided in float64.
        """
        ...

    def signature(self) -> tuple[tuple[str, str], ...]:
        """How the score was made, as (key, value) in order; numbers of references and the version are for the caller."""
        ...


def score_type(totals: Table) -> type[np.floating[Any]]:
    """The type in which sums are divided by one another, see `TranslationMetric.scores`."""
    return np.float32 if totals.dtype == np.float32 else np.float64


def check_lengths(hypotheses: int, references: Sequence[int]) -> None:
    """Raises DataError when a reference has more or fewer segments than there are hypotheses: names the first."""
    for number, length in enumerate(references, 1):
        if length != hypotheses:
            which = f"reference {number} of {len(references)}" if len(references) > 1 else "the reference"
            raise DataError(f"unequal numbers of segments: {hypotheses} hypotheses, {length} in {which}")


def check_segments(hypotheses: Sequence[str], references: Sequence[Sequence[str | None]]) -> None:
    """Refuse what no metric can count.

    Raises:
        DataError: the numbers of segments differ, or a segment has no reference at all.
        UsageError: no references.
    """
    if not references:
        raise UsageError("expected at least one reference")
    check_lengths(len(hypotheses), [len(reference) for reference in references])
    if all(None not in reference for reference in references):
        return
    for i, segment in enumerate(zip(*references)):
        if all(reference is None for reference in segment):
            raise DataError(f"segment {i + 1} has no reference, expected at least one")
