"""The metrics of the GLUE benchmark, by name of the task.

Wang et al. 2018, "GLUE: a multi-task benchmark and analysis platform for natural language understanding" (W18-5446),
table 1: Matthews correlation (CoLA, the diagnostic set AX), accuracy (SST-2, MNLI, QNLI, RTE, WNLI), accuracy and F1
(MRPC, QQP), Pearson and Spearman correlation (STS-B). Where there are two, `mean` is the score of the task.
Values are 0 to 1, or -1 to 1, not percent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from nlptools.configs.evaluate import Evaluate
from nlptools.configs.metrics import MetricRequest
from nlptools.errors import shown
from nlptools.formats import values
from nlptools.formats.glue import GLUE, GlueTask, find
from nlptools.metrics import classification, correlation
from nlptools.metrics.metric import Evaluation, Floats, MetricData, Paths, Table, select, titles
from nlptools.metrics.paired import check_paired, refuse


def evaluate(task: str, gold: Sequence[str], predicted: Sequence[str], *, paths: Paths = (None, None)) -> Evaluation:
    """The metrics of a task for N predictions, and their `mean` if there are two.

    Labels are as in the published files. Labels published as 0 and 1 may also be given as words (`equivalent`). Labels
    published as words (MNLI, QNLI, RTE, AX) may be given as numbers only if gold and predicted both are numbers, since
    models differ in which number means which word.

    Args:
        task: a name in `formats.glue.GLUE`; case, hyphens and underscores do not matter.
        paths: names of the files of gold and of predicted, for messages.

    Raises:
        DataError: no examples, unequal numbers of them, a label that the task does not have or no finite number
            (names the line), STS-B with all numbers the same.
        UsageError: no such task.
    """
    name = find(task)
    published = GLUE[name]
    check_paired(gold, predicted, "labels" if published.labels else "numbers", paths)
    if not published.labels:
        evaluation = correlation.evaluate(gold, predicted, published.metrics, paths=paths)
    else:
        labels = _published(published, gold, predicted)
        words = dict(zip(published.words, labels))
        sides = [_read(side, labels, words, path) for side, path in zip((gold, predicted), paths, strict=True)]
        evaluation = classification.evaluate(sides[0], sides[1], published.metrics, labels=labels, paths=paths)
    evaluation = replace(evaluation, items=(("task", name), *evaluation.items))
    if len(evaluation.names) == 1:
        return evaluation

    def with_mean(sums: Table) -> Floats:
        values = evaluation.scores(sums)
        return np.concatenate([values, values.mean(axis=1, keepdims=True)], axis=1)

    return replace(evaluation, names=(*evaluation.names, "mean"), scores=with_mean)


def requested(requests: Sequence[MetricRequest], data: MetricData, options: Evaluate) -> Evaluation:
    """The metrics of one task that `nlptools evaluate` is asked for."""
    gold, predicted = data.references, data.predictions
    task = GLUE[find(requests[0].metric)]
    if task.labels:
        truth = {"false": "0", "true": "1"} if task.labels == ("0", "1") else {}
        gold, predicted = ([truth.get(key, key) for key in map(values.key, side)] for side in (gold, predicted))
        words = dict(zip(task.words, task.labels))
        classification.warn_apart(*([words.get(label, label) for label in side] for side in (gold, predicted)))
    evaluation = evaluate(requests[0].metric, gold, predicted, paths=data.paths)
    return select(evaluation, *titles(requests, evaluation.names))


def _published(task: GlueTask, gold: Sequence[str], predicted: Sequence[str]) -> tuple[str, ...]:
    """The labels of the task, or their numbers if the published labels are words but both sides hold numbers."""
    figures = tuple(map(str, range(len(task.labels))))
    return figures if set(figures).issuperset(gold) and set(figures).issuperset(predicted) else task.labels


def _read(side: Sequence[str], labels: tuple[str, ...], words: dict[str, str], path: str | None) -> list[str]:
    """The labels of one side, with words replaced by the published numbers."""
    known = {**dict(zip(labels, labels)), **words}
    read = [known.get(label, "") for label in side]
    if "" in read:
        index = read.index("")
        expected = ", ".join(labels) + (f" (or {', '.join(words)})" if words else "")
        raise refuse(f"expected one of {expected}, got {shown(side[index])}", path, index)
    return read
