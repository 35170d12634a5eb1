"""The tasks of the GLUE benchmark: files, labels, metrics, and submissions to its server.

Wang et al. 2018, "GLUE: a multi-task benchmark and analysis platform for natural language understanding" (W18-5446), table
1; https://gluebenchmark.com. Files are tab-separated without quoting: quotes are text. All have a header except CoLA's
training and development files; test files have an index (QQP: id) and no label. Labels are listed in the order in which
checkpoints of the usual scripts number them; a model with another order names its labels in its configuration.
The submission is a zip of one TSV per task, `index TAB prediction`, with labels as the training file has them and STS-B
as a number within 0 and 5.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from nlptools.errors import DataError, UsageError, shown

_SPLITS = {"train": "train.tsv", "dev": "dev.tsv", "test": "test.tsv"}
_MATCHED = {"train": "train.tsv", "dev": "dev_matched.tsv", "test": "test_matched.tsv"}
_MISMATCHED = {"train": "train.tsv", "dev": "dev_mismatched.tsv", "test": "test_mismatched.tsv"}
_SENTENCES, _QUESTIONS = ("sentence1", "sentence2"), ("question1", "question2")
_ENTAILMENT, _TWO_WAY = ("entailment", "neutral", "contradiction"), ("entailment", "not_entailment")
_FOLDERS = {"MNLI-m": "MNLI", "MNLI-mm": "MNLI", "AX": "diagnostic"}


@dataclass(frozen=True)
class GlueTask:
    """How a task is published.

    Attributes:
        task: the value of `finetune --task` that reads it: "classify", "pair" or "regress".
        texts: names of the text columns.
        label: name of the label column; "" if no file has one.
        metrics: names in `nlptools evaluate`; with two, the score of the task is their mean.
        labels: as published, in the order of their numbers; none for STS-B.
        words: names of labels that are published as numbers, in the same order.
        submission: name of the file for the server.
        folder: the folder of the files in the published archive.
        files: by split, the names of the files.
        id: name of the column in the test file that the submission repeats.
        numbers: columns of files without header, from 1: "text" and "label".
    """

    task: str
    texts: tuple[str, ...]
    label: str
    submission: str
    folder: str
    metrics: tuple[str, ...] = ("accuracy",)
    labels: tuple[str, ...] = ("0", "1")
    words: tuple[str, ...] = ()
    files: Mapping[str, str] = field(default_factory=lambda: _SPLITS)
    id: str = "index"
    numbers: Mapping[str, int] = field(default_factory=dict)


def _task(published: str, task: str, texts: tuple[str, ...], label: str = "label", **more: Any) -> GlueTask:
    """The row of a task that is published as `published`."""
    return GlueTask(task, texts, label, f"{published}.tsv", _FOLDERS.get(published, published), **more)


_TWO_METRICS = ("accuracy", "f1")

GLUE = {
    "cola": _task(
        "CoLA",
        "classify",
        ("sentence",),
        metrics=("matthews",),
        words=("unacceptable", "acceptable"),
        numbers={"text": 4, "label": 2},
    ),
    "sst-2": _task("SST-2", "classify", ("sentence",), words=("negative", "positive")),
    "mrpc": _task(
        "MRPC",
        "pair",
        ("#1 String", "#2 String"),
        "Quality",
        metrics=_TWO_METRICS,
        words=("not_equivalent", "equivalent"),
    ),
    "qqp": _task(
        "QQP", "pair", _QUESTIONS, "is_duplicate", metrics=_TWO_METRICS, words=("not_duplicate", "duplicate"), id="id"
    ),
    "sts-b": _task("STS-B", "regress", _SENTENCES, "score", metrics=("pearson", "spearman"), labels=()),
    "mnli": _task("MNLI-m", "pair", _SENTENCES, "gold_label", labels=_ENTAILMENT, files=_MATCHED),
    "mnli-m": _task("MNLI-m", "pair", _SENTENCES, "gold_label", labels=_ENTAILMENT, files=_MATCHED),
    "mnli-mm": _task("MNLI-mm", "pair", _SENTENCES, "gold_label", labels=_ENTAILMENT, files=_MISMATCHED),
    "qnli": _task("QNLI", "pair", ("question", "sentence"), labels=_TWO_WAY),
    "rte": _task("RTE", "pair", _SENTENCES, labels=_TWO_WAY),
    "wnli": _task("WNLI", "pair", _SENTENCES, words=("not_entailment", "entailment")),
    "ax": _task(
        "AX", "pair", _SENTENCES, "", metrics=("matthews",), labels=_ENTAILMENT, files={"test": "diagnostic.tsv"}
    ),
}
_ALSO_CALLED = {"mnlimatched": "mnli-m", "mnlimismatched": "mnli-mm"}


def glue_task(name: str) -> GlueTask:
    """The task called `name`; see `find`.

    Raises:
        UsageError: no such task.
    """
    return GLUE[find(name)]


def find(name: str) -> str:
    """The key in GLUE of the task called `name`: with or without `glue/`, in any case, hyphens and underscores ignored.

    Raises:
        UsageError: no such task.
    """
    name = name.removeprefix("glue/")
    keys = {_plain(key): key for key in GLUE} | _ALSO_CALLED
    if _plain(name) not in keys:
        raise UsageError(f"no such GLUE task: {shown(name)}, expected one of {', '.join(GLUE)}")
    return keys[_plain(name)]


def _plain(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "")


def submission(name: str, predictions: Iterable[tuple[str | None, str | float]]) -> Iterator[str]:
    """The lines of the file for the server, from the id and the prediction of each test example, in order.

    An example without id is numbered from 0, as in the published test files. Labels that are published as numbers may be
    given as words (`equivalent`); STS-B's numbers are clipped to 0 to 5 and written with three decimals.

    Raises:
        DataError: a label that the task does not have, or a number that is not finite.
        UsageError: no such task.
    """
    task = glue_task(name)
    words = dict(zip(task.words, task.labels))
    yield "index\tprediction"
    for i, (known, prediction) in enumerate(predictions):
        index = str(i) if known is None else known
        if task.task == "regress":
            try:
                number = float(prediction)
            except ValueError:
                number = math.nan
            if not math.isfinite(number):
                raise DataError(f"prediction {i + 1} is {shown(str(prediction))}, expected a number")
            yield f"{index}\t{min(max(number, 0.0), 5.0):.3f}"
            continue
        label = words.get(str(prediction), str(prediction))
        if label not in task.labels:
            raise DataError(
                f"prediction {i + 1} is {shown(str(prediction))}, expected one of {', '.join(task.labels)}",
                hint="the model must have the labels of the published training file",
            )
        yield f"{index}\t{label}"
