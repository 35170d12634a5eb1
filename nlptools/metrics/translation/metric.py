"""A metric of translations: statistics of segments that add up, and scores of their sums.

Shapes: S segments, C statistics, B sums (resamples).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import Field, dataclass
from typing import ClassVar

import numpy as np

from nlptools.metrics.metric import Evaluation, Floats, FloatType, Items, Sums, Table
from nlptools.metrics.paired import check_references

References = Sequence[Sequence["str | None"]]  # one list per reference; None where a segment has no such reference


@dataclass(frozen=True)
class CorpusScore:
    """The score of a corpus or a segment, from 0 to 100 where the metric has bounds.

    Attributes:
        verbose: the parts of the score, printed after it; may be empty.
        signature: how the score was computed, if known.
    """

    name: str
    score: float
    verbose: str = ""
    signature: str = ""

    def steps(self) -> list[str]:
        """How the score comes about, a line for each step; none if the metric does not say."""
        return []

    def line(self, width: int = 1, number: str | None = None) -> str:
        """Name, signature, the score with `width` decimals (or `number` in its place), and its parts, on one line."""
        name = f"{self.name}|{self.signature}" if self.signature else self.name
        verbose = f" {self.verbose}" if self.verbose else ""
        return f"{name} = {self.score:.{width}f}{verbose}" if number is None else f"{name} = {number}{verbose}"


class CorpusMetric(ABC):
    """A metric of texts with columns that do not depend on the data, so that a corpus can be counted block by block.

    References are given as one list per reference, each as long as the hypotheses; None where a segment has no such
    reference.
    """

    __dataclass_fields__: ClassVar[dict[str, Field[object]]]  # subclasses are dataclasses

    segments_at_once: ClassVar[int] = 1024  # their n-grams fit into the cache

    @property
    @abstractmethod
    def name(self) -> str:
        """The name of the score, for instance `chrF2`."""

    @property
    @abstractmethod
    def columns(self) -> tuple[str, ...]:
        """The names of the C statistics."""

    def statistics(self, hypotheses: list[str], references: References) -> Table:
        """The statistics of each segment: (S, C). Raises the errors of `paired.check_references`."""
        check_references(hypotheses, references)
        blocks: list[Table] = [np.zeros((0, len(self.columns)), np.int64)]
        for start in range(0, len(hypotheses), self.segments_at_once):
            part = slice(start, start + self.segments_at_once)
            blocks.append(self._count(hypotheses[part], [reference[part] for reference in references]))
        return np.concatenate(blocks)

    @abstractmethod
    def _count(self, hypotheses: Sequence[str], references: References) -> Table:
        """The statistics of some segments, each with a reference: (S, C)."""

    def score(self, total: Table) -> CorpusScore:
        """The score of one row or of a sum of rows (C,), with its parts."""
        return CorpusScore(self.name, float(self.scores(np.asarray(total)[None])[0]))

    @abstractmethod
    def scores(self, totals: Table) -> Floats:
        """The scores of several sums: (B, C) -> (B,).

        Sums in float32 are divided in float32, as sacrebleu divides the sums of its resamples, so that the printed
        interval is the same to the last decimal. All other sums are divided in float64.
        """

    @abstractmethod
    def signature(self) -> Items:
        """The options of the metric as (key, value) in order; the caller adds references, resampling and version."""


def corpus_evaluation(
    metric: CorpusMetric, table: Table, items: Items = (), precision: FloatType | None = None
) -> Evaluation:
    """`metric` with the statistics (N, C) of some segments. `items` come first in the signature."""
    return Evaluation(
        names=(metric.name,),
        rows=Sums(table),
        scores=lambda totals: metric.scores(totals)[:, None],
        unit="segments",
        items=(*items, *metric.signature()),
        precision=precision,
    )


def score_type(totals: Table) -> FloatType:
    """The type in which sums are divided by one another, see `CorpusMetric.scores`."""
    return np.float32 if totals.dtype == np.float32 else np.float64
