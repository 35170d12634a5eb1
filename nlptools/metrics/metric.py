"""The protocol of all metrics: rows of statistics that add up, and scores of their sums.

A metric turns each example (a segment, a sentence, a question) into a row of C numbers. Rows add up, and every value of
the metric is a function of a sum. One set of rows therefore gives the score of the corpus, the score of each segment, and
the score of each bootstrap resample; a paired test swaps the rows of two systems.
Rows come in three kinds:
    Sums        dense rows, such as matches and n-grams for BLEU
    Categories  each row is a 1 in one of C columns, such as a cell of the confusion matrix
    Examples    metrics that are no function of a sum (rank correlations): row n is a 1 in column n, so that the sum of a
                resample tells how often each example is in it, and the metric scores weighted examples
Shapes: N examples, C statistics, B sums (resamples), M values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nlptools.arrays import Array
from nlptools.configs.metrics import MetricRequest
from nlptools.errors import DataError, UsageError
from nlptools.metrics import resampling
from nlptools.version import __version__

Weights = NDArray[np.int64]  # how often each example counts
Values = NDArray[np.float64]
Ints = NDArray[np.int64]
Table = Array  # statistics: int64, or float64 where a statistic is not a count
Floats = Array  # float64 or float32
FloatType = type[np.floating[Any]]
Details = dict[str, Any]  # JSON
Paths = tuple[str | None, str | None]  # files of gold and predictions, for messages
Items = tuple[tuple[str, str], ...]  # of a signature, in order


# -- rows -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Sums:
    """Dense rows.

    Attributes:
        table: (N, C). Sums of int64 are exact.
    """

    table: Table

    def __len__(self) -> int:
        return len(self.table)

    def total(self) -> Table:
        """The sum of all rows, one after another, so that it does not depend on how a corpus is split: (C,)."""
        total: Table = self.table.sum(axis=0)
        return total

    def totals(self, weights: Weights) -> Table:
        """Weighted sums of the rows: (B, N) -> (B, C), float64."""
        return weights.astype(np.float64) @ self._floats

    @cached_property
    def _floats(self) -> Values:  # products of floats are much faster than products of integers
        return self.table.astype(np.float64)


@dataclass(frozen=True, eq=False)
class Categories:
    """Rows that are a 1 in one of `size` columns; `column` (N,) says in which."""

    column: Ints
    size: int

    def __len__(self) -> int:
        return len(self.column)

    def total(self) -> Table:
        """The number of rows in each category: (C,)."""
        return np.bincount(self.column, minlength=self.size).astype(np.float64)

    def totals(self, weights: Weights) -> Table:
        """The weight of the rows in each category: (B, N) -> (B, C), float64."""
        return group_sums(weights, self.column, self.size)


@dataclass(frozen=True)
class Examples:
    """Rows of the identity matrix: a weighted sum of them is the weights themselves."""

    count: int

    def __len__(self) -> int:
        return self.count

    def total(self) -> Table:
        """Ones: (N,)."""
        return np.ones(self.count, np.int64)

    def totals(self, weights: Weights) -> Table:
        """`weights`, (B, N)."""
        return weights


@dataclass(frozen=True, eq=False)
class Subset:
    """Some of the rows of a metric: those at `places`, (n,)."""

    rows: Rows
    places: Ints

    def __len__(self) -> int:
        return len(self.places)

    def total(self) -> Table:
        """The sum of these rows: (C,), float64."""
        total: Table = self.totals(np.ones((1, len(self)), np.int64))[0]
        return total

    def totals(self, weights: Weights) -> Table:
        """Weighted sums of these rows: (B, n) -> (B, C)."""
        spread = np.zeros((len(weights), len(self.rows)), weights.dtype)
        spread[:, self.places] = weights
        return self.rows.totals(spread)


Rows = Sums | Categories | Examples | Subset


# -- metrics ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Evaluation:
    """A metric with the rows of one set of predictions.

    Attributes:
        names: of the M values, for instance `f1` or `f1:B-PER`.
        rows: the statistics of N examples.
        scores: sums (B, C) -> values (B, M).
        unit: of the examples: `labels`, `sentences`, `questions`.
        items: signature: how the values are computed, as (key, value) in order; the unit and the version are added.
        details: further results that are not values, such as the confusion matrix; plain JSON.
        precision: type that the sums of resamples are converted to; sacrebleu computes its intervals in float32.
        group: which examples these are, such as `11-20`, where a metric is computed for several groups; else "".
        columns: names of the C statistics, for files of them (`statistics_files`); none where there are no such files.
    """

    names: tuple[str, ...]
    rows: Rows
    scores: Callable[[Table], Floats]
    unit: str
    items: Items = ()
    details: Details = field(default_factory=dict)
    precision: FloatType | None = None
    group: str = ""
    columns: tuple[str, ...] = ()

    @property
    def count(self) -> int:
        """N, the number of examples."""
        return len(self.rows)

    def values(self) -> dict[str, float]:
        """The values by name."""
        return dict(zip(self.names, self.scores(self.rows.total()[None])[0].tolist(), strict=True))

    def compute(self, weights: Weights) -> Floats:
        """The values of weighted examples: (B, N) -> (B, M)."""
        totals = self.rows.totals(weights)
        return self.scores(totals if self.precision is None else totals.astype(self.precision))

    def intervals(
        self, resamples: int = resampling.RESAMPLES, seed: int | None = resampling.SEED
    ) -> dict[str, tuple[float, float]]:
        """(mean, half width of the 95% interval) of each value, by name."""
        (drawn,) = bootstrap([self], resamples, seed)
        return {name: resampling.interval(drawn[:, i]) for i, name in enumerate(self.names)}

    def signature(self, **extra: str) -> str:
        """How the values were computed: `key:value|...|unit:...|version:...`; `extra` precedes the version."""
        return signature_text(
            [*self.items, ("unit", self.unit), *extra.items(), ("version", f"nlptools-{__version__}")]
        )


def means(
    names: Sequence[str],
    table: Table,
    unit: str,
    items: Items = (),
    details: Details | None = None,
    scale: float = 1.0,
) -> Evaluation:
    """An evaluation with the means of the columns of a table (N, M), times `scale`."""
    rows = Sums(np.concatenate([table, np.ones((len(table), 1))], axis=1))

    def scores(sums: Table) -> Floats:
        values: Floats = scale * sums[:, :-1] / np.maximum(sums[:, -1:], 1)
        return values

    return Evaluation(tuple(names), rows, scores, unit, items, details or {}, columns=(*names, "count"))


def bootstrap(evaluations: Sequence[Evaluation], resamples: int, seed: int | None = resampling.SEED) -> list[Floats]:
    """The values of each evaluation on the same resamples of their examples: (B, M) each.

    Raises:
        DataError: the numbers of examples differ.
    """
    drawn: list[list[Floats]] = [[] for _ in evaluations]
    for weights in resampling.weights(check_counts(evaluations), resamples, np.random.default_rng(seed)):
        for values, evaluation in zip(drawn, evaluations, strict=True):
            values.append(evaluation.compute(weights))
    return [np.concatenate(values) for values in drawn]


def check_counts(evaluations: Sequence[Evaluation]) -> int:
    """N, the number of examples of all evaluations. Raises DataError when they differ."""
    counts = [evaluation.count for evaluation in evaluations]
    if len(set(counts)) > 1:
        raise DataError(f"unequal numbers of {evaluations[0].unit}: {counts}")
    return counts[0]


class SavedRows(NamedTuple):
    """Rows that files of statistics hold: their columns, (N, C) numbers, and the signature of the metric."""

    columns: tuple[str, ...]
    table: Table
    items: Items


class MetricData(NamedTuple):
    """Predictions and what they are compared with; for texts, `references` has one list per reference."""

    predictions: Any
    references: Any
    paths: Paths = (None, None)


def select(evaluation: Evaluation, chosen: Sequence[str], titles: Sequence[str]) -> Evaluation:
    """Some of the values, each once, under new names. Raises UsageError when there is no such value."""
    names = dict(zip(chosen, titles))
    missing = [name for name in names if name not in evaluation.names]
    if missing:
        few = ", ".join(evaluation.names[:12]) + " ..." * (len(evaluation.names) > 12)
        raise UsageError(f"no such value: {', '.join(missing)}, expected some of {few}")
    places = [evaluation.names.index(name) for name in names]
    return replace(evaluation, names=tuple(names.values()), scores=lambda sums: evaluation.scores(sums)[:, places])


def titles(requests: Sequence[MetricRequest], names: Sequence[str]) -> tuple[list[str], list[str]]:
    """The requested values and their names: METRIC:VALUE, or METRIC if `names` has only one or says the same."""
    metric = requests[0].metric
    chosen = [name for request in requests for name in ([request.value] if request.value else names)]
    return chosen, [metric if name == metric or len(names) == 1 else f"{metric}:{name}" for name in chosen]


# -- arithmetic -------------------------------------------------------------------------------------------------------


def signature_text(items: Iterable[tuple[str, str]]) -> str:
    """`key:value` pairs joined by `|`."""
    return "|".join(f"{key}:{value}" for key, value in items)


def group_sums(weights: Weights | Values, groups: Ints, count: int) -> Values:
    """Sums of weights (B, N) over the examples of each of K = `count` groups: (B, K). `groups` (N,) are numbers from 0.

    Whole numbers, as floats: exact up to 2**53.
    """
    return np.stack([np.bincount(groups, row, count) for row in weights])


def ratio(part: Values | Ints, whole: Values | Ints) -> Values:
    """`part` / `whole`, and 0 where there is nothing to divide by."""
    quotient: Values = np.divide(part, whole, out=np.zeros(np.broadcast(part, whole).shape), where=whole != 0)
    return quotient
