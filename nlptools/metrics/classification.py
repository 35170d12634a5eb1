"""Accuracy, precision, recall, F1 and Matthews correlation of predicted labels, and the confusion matrix.

Precision, recall, F1 and their averages: van Rijsbergen 1979, "Information Retrieval", chapter 7; Sokolova & Lapalme
2009, "A systematic analysis of performance measures for classification tasks". Matthews correlation: Matthews 1975,
"Comparison of the predicted and observed secondary structure of T4 phage lysozyme"; of several classes, Gorodkin 2004,
"Comparing two K-category assignments by a K-category correlation coefficient". Values equal scikit-learn's, with
`zero_division=0`: a ratio with nothing to divide by is 0.
The label set belongs to the metric: in a resample, a label that is not drawn counts as 0 in an average over labels, as
in scikit-learn with `labels=`. Only balanced accuracy averages over the labels that occur in the resample's gold labels.
Shapes: N examples, B sums (resamples), L labels, K cells of the confusion matrix that occur, M values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

import numpy as np

from nlptools import messages
from nlptools.configs.evaluate import AVERAGES, Evaluate
from nlptools.configs.metrics import AVERAGED, GROUPS, MetricRequest
from nlptools.errors import UsageError, shown
from nlptools.files import line_records
from nlptools.formats import values
from nlptools.metrics.metric import (
    Categories,
    Details,
    Evaluation,
    Ints,
    MetricData,
    Paths,
    Table,
    Values,
    group_sums,
    ratio,
    select,
)
from nlptools.metrics.paired import check_paired, refuse

BINARY = (*AVERAGED, "support")  # of the positive label
PER_LABEL = "per_label"  # precision, recall, F1 and support of each label: `f1:LABEL`
METRICS = (*GROUPS["labels"].metrics, PER_LABEL)

MOST_LABELS_SHOWN = 1000  # the details hold no confusion matrix of more labels


def evaluate(
    gold: Sequence[str],
    predicted: Sequence[str],
    metrics: Sequence[str] = ("accuracy",),
    *,
    labels: Sequence[str] | None = None,
    positive: str | None = None,
    paths: Paths = (None, None),
) -> Evaluation:
    """Metrics of N predicted labels; the unit is a label, values lie in 0 to 1 (Matthews: -1 to 1).

    The details hold the label set and the confusion matrix, rows gold, if there are no more than MOST_LABELS_SHOWN.

    Args:
        metrics: some of METRICS. `precision`, `recall`, `f1` and `support` refer to the positive label, `f1_macro`
            over labels, and `per_label` gives `precision:LABEL` and so on for all of them.
        labels: all labels that may occur, in order; if not given, those seen, sorted.
        positive: the positive label; if not given, the second of two, or "1" if only "0" and "1" occur.
        paths: names of the files of gold and of predicted, for messages.

    Raises:
        DataError: no labels, unequal numbers of them, one that is empty or not declared (names the line).
        UsageError: no such metric, a label is declared twice, or it is not clear which label is the positive one.
    """
    metrics = tuple(dict.fromkeys(metrics))
    unknown = [name for name in metrics if name not in METRICS]
    if unknown or not metrics:
        raise UsageError(f"no such metric: {', '.join(unknown) or 'none'}, expected some of {', '.join(METRICS)}")
    check_paired(gold, predicted, "labels", paths)
    names = label_set(gold, predicted, labels)
    needs_positive = any(name in BINARY for name in metrics)
    chosen = None
    if positive is not None or needs_positive:
        chosen, names = _positive(names, positive, declared=labels is not None)
    cells = _codes(gold, names, paths[0]) * len(names) + _codes(predicted, names, paths[1])
    signature = [("labels", str(len(names)))]
    if chosen is not None and needs_positive:
        signature.append(("positive", names[chosen]))
    occurring, column = np.unique(cells, return_inverse=True)
    return Evaluation(
        names=tuple(chain.from_iterable(_value_names(name, names) for name in metrics)),
        rows=Categories(column, len(occurring)),
        scores=_scores_of_cells(occurring, len(names), metrics, chosen),
        unit="labels",
        items=tuple(signature),
        details=confusion(cells, names),
        columns=tuple(
            "\t".join(line_records.escape(names[code]) for code in divmod(cell, len(names)))
            for cell in occurring.tolist()
        ),
    )


def requested(requests: Sequence[MetricRequest], data: MetricData, options: Evaluate) -> Evaluation:
    """The metrics that `nlptools evaluate` is asked for."""
    average = options.average or "binary"
    if average not in AVERAGES:
        raise UsageError(f"no such average: {average!r}, expected one of {', '.join(AVERAGES)}")
    wanted: list[tuple[str, str]] = []  # a name in METRICS, and the name of the value or its beginning
    for request in requests:
        if request.value or (average == "none" and request.metric in BINARY):
            wanted.append((PER_LABEL, f"{request.metric}:{request.value}"))
        else:
            averaged = request.metric in AVERAGED and average != "binary"
            name = f"{request.metric}_{average}" if averaged else request.metric
            wanted.append((name, name))
    spelling, gold, predicted = compared(data.references, data.predictions, data.paths)
    positive = options.positive
    evaluation = evaluate(
        gold,
        predicted,
        [name for name, _ in wanted],
        labels=[spelling.get(values.key(label), label) for label in options.labels] or None,
        positive=positive if positive is None else spelling.get(values.key(positive), positive),
        paths=data.paths,
    )
    chosen: list[str] = []
    for _, value in wanted:
        chosen += [name for name in evaluation.names if name.startswith(value)] if value.endswith(":") else [value]
    return select(evaluation, chosen, chosen)


def compared(
    gold: Sequence[str], predicted: Sequence[str], paths: Paths
) -> tuple[Mapping[str, str], list[str], list[str]]:
    """See `values.compared`; warns if the two sides share no label.

    Raises:
        DataError: a label is NaN or infinity, while the others are numbers; names the line.
    """
    for side, path in zip((gold, predicted), paths, strict=True):
        if missing := values.without_value(side):
            index = next(i for i, label in enumerate(side) if label in missing)
            raise refuse(f"expected a label, got {shown(side[index])}", path, index)
    spelling, gold, predicted = values.compared(gold, predicted)
    warn_apart(gold, predicted)
    return spelling, gold, predicted


def warn_apart(gold: Sequence[str], predicted: Sequence[str]) -> None:
    """Warn if gold labels and predicted ones have no label in common."""
    names = [sorted(set(side)) for side in (gold, predicted)]
    if all(names) and not set(names[0]) & set(names[1]):
        tabs = (
            "; --text-column 1 reads the first of several columns" if all("\t" in label for label in predicted) else ""
        )
        messages.warn(f"gold has {_some(names[0])}, predictions have {_some(names[1])}: no label in common{tabs}")


# -- reading labels ---------------------------------------------------------------------------------------------------


def label_set(gold: Sequence[str], predicted: Sequence[str], declared: Sequence[str] | None) -> list[str]:
    """The labels in their order: as declared, or sorted as strings."""
    if declared is None:
        return sorted({*gold, *predicted} - {""})
    if isinstance(declared, str) or not declared:
        raise UsageError("expected the labels as a list of strings, at least one")
    seen: set[str] = set()
    for label in declared:
        if not label or label in seen:
            raise UsageError("a label is empty" if not label else f"the label {shown(label)} is declared twice")
        seen.add(label)
    return list(declared)


def _positive(names: list[str], positive: str | None, declared: bool) -> tuple[int, list[str]]:
    """The index of the positive label in `names`, and the names. It is added if all examples have one other label."""
    if positive is None:
        if set(names) <= {"0", "1"}:
            positive = "1"
        elif len(names) == 2:
            positive = names[1]
        else:
            raise UsageError(
                f"which of {len(names)} labels is the positive one? expected two labels, or the positive one named",
                hint="of several labels, averages can be taken: f1_macro, f1_micro, f1_weighted",
            )
    if positive not in names:
        if declared or len(names) > 1 or not positive:
            raise UsageError(f"the positive label {shown(positive)} is none of the labels: {_some(names)}")
        names = sorted([*names, positive])
    return names.index(positive), names


def _some(names: Sequence[str], most: int = 12) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def _codes(labels: Sequence[str], names: Sequence[str], path: str | None) -> Ints:
    """The index of each label in `names`: (N,)."""
    number = {name: i for i, name in enumerate(names)}
    codes = np.fromiter((number.get(label, -1) for label in labels), np.int64, len(labels))
    wrong = np.flatnonzero(codes < 0)
    if not len(wrong):
        return codes
    index = int(wrong[0])
    message = f"label {shown(labels[index])} is none of those declared: {_some(names)}"
    raise refuse(message if labels[index] else "the label is empty", path, index)


# -- values of sums ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Counts:
    """Numbers of examples of each label that are right, predicted and gold: (B, L) each; and of all examples: (B,)."""

    hits: Values
    predicted: Values
    gold: Values
    total: Values

    @cached_property
    def scores(self) -> Values:
        """Precision, recall and F1 of each label: (3, B, L)."""
        return precision_recall_f1(self.hits, self.predicted, self.gold)


def precision_recall_f1(correct: Values, predicted: Values, gold: Values) -> Values:
    """The three scores, stacked along a new first axis, from numbers of correct, of predicted and of gold ones."""
    return np.stack([ratio(correct, predicted), ratio(correct, gold), ratio(2 * correct, predicted + gold)])


def _scores_of_cells(
    occurring: Ints, num_labels: int, metrics: Sequence[str], positive: int | None
) -> Callable[[Table], Values]:
    """The function from sums (B, K) to values (B, M).

    The columns are the cells of the confusion matrix that occur, gold * L + predicted. They may be far fewer than L squared.
    """
    gold_of_cell, predicted_of_cell = occurring // num_labels, occurring % num_labels
    right = gold_of_cell == predicted_of_cell

    def scores(sums: Table) -> Values:
        counts = _Counts(
            hits=group_sums(sums[:, right], gold_of_cell[right], num_labels),
            predicted=group_sums(sums, predicted_of_cell, num_labels),
            gold=group_sums(sums, gold_of_cell, num_labels),
            total=sums.sum(axis=1),
        )
        return np.concatenate([_values(name, counts, positive) for name in metrics], axis=1)

    return scores


def _value_names(metric: str, labels: Sequence[str]) -> tuple[str, ...]:
    if metric != PER_LABEL:
        return (metric,)
    return tuple(f"{name}:{label}" for label in labels for name in BINARY)


def _values(metric: str, counts: _Counts, positive: int | None) -> Values:
    """The columns of one metric: (B, 1), or (B, 4 L) for the values of each label."""
    if metric == "accuracy":
        return ratio(counts.hits.sum(axis=1), counts.total)[:, None]
    if metric == "balanced_accuracy":
        return ratio(counts.scores[1].sum(axis=1), (counts.gold > 0).sum(axis=1))[:, None]
    if metric == "matthews":
        return _matthews(counts)[:, None]
    if metric == PER_LABEL:
        return np.stack([*counts.scores, counts.gold], axis=2).reshape(len(counts.total), -1)
    if metric in BINARY:
        assert positive is not None
        values_of_labels: Values = (*counts.scores, counts.gold)[BINARY.index(metric)]
        return values_of_labels[:, [positive]]
    kind, average = metric.split("_")
    if average == "micro":
        sides = (side.sum(axis=1, keepdims=True) for side in (counts.hits, counts.predicted, counts.gold))
        micro: Values = precision_recall_f1(*sides)[AVERAGED.index(kind)]
        return micro
    scores = counts.scores[AVERAGED.index(kind)]
    weights = np.ones_like(counts.gold) if average == "macro" else counts.gold
    return ratio((scores * weights).sum(axis=1), weights.sum(axis=1))[:, None]


def _matthews(counts: _Counts) -> Values:
    """Gorodkin's R_K: (B,); 0 where all gold labels, or all predicted labels, are the same."""
    total, squared = counts.total, counts.total**2
    covariance = counts.hits.sum(axis=1) * total - (counts.gold * counts.predicted).sum(axis=1)
    gold = squared - (counts.gold**2).sum(axis=1)
    predicted = squared - (counts.predicted**2).sum(axis=1)
    return ratio(covariance, np.sqrt(gold * predicted))  # one root, which is exact for a perfect prediction


# -- the confusion matrix ---------------------------------------------------------------------------------------------


def confusion(cells: Ints, names: Sequence[str]) -> Details:
    """The labels, and how often each gold label (row) was predicted as each (column)."""
    size = len(names)
    if size > MOST_LABELS_SHOWN:
        return {}
    return {"labels": list(names), "confusion": np.bincount(cells, minlength=size**2).reshape(size, size).tolist()}
