"""The metrics of the GLUE benchmark, by name of the task.

Wang et al. 2018, "GLUE: a multi-task benchmark and analysis platform for natural language understanding" (W18-5446),
table 1: Matthews correlation (CoLA, the diagnostic set AX), accuracy (SST-2, MNLI, QNLI, RTE, WNLI), accuracy and F1
(MRPC, QQP), Pearson and Spearman correlation (STS-B). Where there are two, `mean` is what a task counts with.
Departure: none in the numbers. Values are 0 to 1, or -1 to 1, not percent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nlptools.errors import UsageError
from nlptools.metrics import classification, correlation
from nlptools.metrics.examples import Paths, check_paired, refuse, shown
from nlptools.metrics.measures import Measures
from nlptools.metrics.resampling import Values, Weights

ENTAILMENT = ("entailment", "neutral", "contradiction")
TWO_WAY = ("entailment", "not_entailment")


@dataclass(frozen=True)
class Task:
    """A task: its metrics, and its labels as the published files have them.

    Attributes:
        labels: in the order of their numbers; none for numbers that are predicted.
        words: for labels that are published as numbers, what they say, in the same order.
    """

    metrics: tuple[str, ...]
    labels: tuple[str, ...] = ()
    words: tuple[str, ...] = ()


TASKS = {
    "cola": Task(("matthews",), ("0", "1"), ("unacceptable", "acceptable")),
    "sst-2": Task(("accuracy",), ("0", "1"), ("negative", "positive")),
    "mrpc": Task(("accuracy", "f1"), ("0", "1"), ("not_equivalent", "equivalent")),
    "qqp": Task(("accuracy", "f1"), ("0", "1"), ("not_duplicate", "duplicate")),
    "sts-b": Task(("pearson", "spearman")),
    "mnli": Task(("accuracy",), ENTAILMENT),
    "mnli-m": Task(("accuracy",), ENTAILMENT),
    "mnli-mm": Task(("accuracy",), ENTAILMENT),
    "qnli": Task(("accuracy",), TWO_WAY),
    "rte": Task(("accuracy",), TWO_WAY),
    "wnli": Task(("accuracy",), ("0", "1"), ("not_entailment", "entailment")),
    "ax": Task(("matthews",), ENTAILMENT),
}
_ALSO_CALLED = {"mnlimatched": "mnli-m", "mnlimismatched": "mnli-mm"}


def measures(task: str, gold: Sequence[str], predicted: Sequence[str], *, paths: Paths = (None, None)) -> Measures:
    """The metrics of a task, and their `mean` if there are two: a score for each of N predictions.

    Labels are those of the published files. Labels published as 0 and 1 may also be given as words (`equivalent`);
    those published as words as numbers (MNLI, QNLI, RTE, AX), if gold and predicted both are: which number
    stands for which word differs between models.

    Args:
        task: a name in TASKS; case, hyphens and underscores do not matter.
        paths: names of the files of gold and of predicted, for messages.

    Raises:
        DataError: no examples, unequal numbers of them, a label that the task does not have or no finite number
            (names the line), STS-B with all numbers the same.
        UsageError: no such task.
    """
    name = find(task)
    found = TASKS[name]
    check_paired(gold, predicted, "labels" if found.labels else "numbers", paths)
    if not found.labels:
        made = correlation.measures(gold, predicted, found.metrics, paths=paths)
    else:
        labels = _published(found, gold, predicted)
        words = dict(zip(found.words, labels))
        sides = [_read(side, labels, words, path) for side, path in zip((gold, predicted), paths, strict=True)]
        made = classification.measures(sides[0], sides[1], found.metrics, labels=labels, paths=paths)
    signature = (("task", name), *made.signature)
    if len(made.names) == 1:
        return Measures(made.names, made.count, made.unit, made.compute, signature, made.details)

    def compute(weights: Weights) -> Values:
        values = made.compute(weights)
        return np.concatenate([values, values.mean(axis=1, keepdims=True)], axis=1)

    return Measures((*made.names, "mean"), made.count, made.unit, compute, signature, made.details)


def find(task: str) -> str:
    """The key in TASKS of the task that is called `task`, whatever case, hyphens and underscores it is written with.

    Raises:
        UsageError: no such task.
    """
    keys = {_plain(name): name for name in TASKS} | _ALSO_CALLED
    if _plain(task) not in keys:
        raise UsageError(f"no such GLUE task: {shown(task)}, expected one of {', '.join(TASKS)}")
    return keys[_plain(task)]


def _plain(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "")


def _published(task: Task, gold: Sequence[str], predicted: Sequence[str]) -> tuple[str, ...]:
    """The labels to expect: those of the task, or their numbers if the task has words but both sides have numbers."""
    figures = tuple(map(str, range(len(task.labels))))
    return figures if set(figures).issuperset(gold) and set(figures).issuperset(predicted) else task.labels


def _read(side: Sequence[str], labels: tuple[str, ...], words: dict[str, str], path: str | None) -> list[str]:
    """The labels of one side, words replaced by the numbers they are published as."""
    known = {**dict(zip(labels, labels)), **words}
    read = [known.get(label, "") for label in side]
    if "" in read:
        index = read.index("")
        expected = ", ".join(labels) + (f" (or {', '.join(words)})" if words else "")
        raise refuse(f"expected one of {expected}, got {shown(side[index])}", path, index)
    return read
