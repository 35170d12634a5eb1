"""The files of the GLUE benchmark: their columns, labels and metrics, and the submission for its server.

Wang et al. 2018, W18-5446; https://gluebenchmark.com. Files are tab-separated without quoting: single quotes are text. All
have a header except CoLA's training and development files; test files have an index (QQP: id) and no label. Labels are
in the order in which checkpoints of the usual scripts number them; a model may have another order in its config.json.
The submission is a zip of one TSV per task, `index TAB prediction`, with labels as in the training file and STS-B
as a number from 0 to 5.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from nlptools.errors import DataError
from nlptools.formats.lines import shown
from nlptools.metrics.glue import TASKS, find

_SPLITS = {"train": "train.tsv", "dev": "dev.tsv", "test": "test.tsv"}
_MATCHED = {"train": "train.tsv", "dev": "dev_matched.tsv", "test": "test_matched.tsv"}
_MISMATCHED = {"train": "train.tsv", "dev": "dev_mismatched.tsv", "test": "test_mismatched.tsv"}
_SENTENCES, _QUESTIONS = ("sentence1", "sentence2"), ("question1", "question2")
_FOLDERS = {"mnli-m": "MNLI", "mnli-mm": "MNLI", "mnli": "MNLI", "ax": "diagnostic"}


@dataclass(frozen=True)
class GlueTask:
    """The published files of a task.

    Attributes:
        task: our task: "classify", "pair" or "regress".
        texts: names of the text columns.
        label: name of the label column; "" if no file has one.
        labels: by number; none for STS-B.
        metrics: names for `nlptools evaluate`'s GLUE metrics; with two, their mean is the score.
        submission: name of the file for the server.
        folder: folder of the files in the published archive.
        files: by split, the names of the files.
        id: name of the id column in the test file, which the submission repeats.
        numbers: columns "text" and "label" of files without header, from 1.
    """

    task: str
    texts: tuple[str, ...]
    label: str
    labels: tuple[str, ...]
    metrics: tuple[str, ...]
    submission: str
    folder: str
    files: Mapping[str, str] = field(default_factory=lambda: _SPLITS)
    id: str = "index"
    numbers: Mapping[str, int] = field(default_factory=dict)


def _task(name: str, published: str, task: str, texts: tuple[str, ...], label: str = "label", **more: Any) -> GlueTask:
    """The row of a task that is published as `published`."""
    metric = TASKS[name]
    folder = _FOLDERS.get(name, published)
    return GlueTask(task, texts, label, metric.labels, metric.metrics, f"{published}.tsv", folder, **more)


GLUE = {
    "cola": _task("cola", "CoLA", "classify", ("sentence",), numbers={"text": 4, "label": 2}),
    "sst-2": _task("sst-2", "SST-2", "classify", ("sentence",)),
    "mrpc": _task("mrpc", "MRPC", "pair", ("#1 String", "#2 String"), "Quality"),
    "qqp": _task("qqp", "QQP", "pair", _QUESTIONS, "is_duplicate", id="id"),
    "sts-b": _task("sts-b", "STS-B", "regress", _SENTENCES, "score"),
    "mnli": _task("mnli", "MNLI-m", "pair", _SENTENCES, "gold_label", files=_MATCHED),
    "mnli-m": _task("mnli-m", "MNLI-m", "pair", _SENTENCES, "gold_label", files=_MATCHED),
    "mnli-mm": _task("mnli-mm", "MNLI-mm", "pair", _SENTENCES, "gold_label", files=_MISMATCHED),
    "qnli": _task("qnli", "QNLI", "pair", ("question", "sentence")),
    "rte": _task("rte", "RTE", "pair", _SENTENCES),
    "wnli": _task("wnli", "WNLI", "pair", _SENTENCES),
    "ax": _task("ax", "AX", "pair", _SENTENCES, "", files={"test": "diagnostic.tsv"}),
}


def glue_task(name: str) -> GlueTask:
    """The task `name`, ignoring case, hyphens and underscores; with or without `glue/` before it.

    Raises:
        UsageError: no such task.
    """
    return GLUE[find(name.removeprefix("glue/"))]


def submission(name: str, predictions: Iterable[tuple[str | None, str | float]]) -> Iterator[str]:
    """The lines of the submission, from id and prediction of each example of a test file, in order.

    Examples without id are numbered from 0, as in the published test files. Labels that are published as numbers
    may be given as words (`equivalent`); numbers of STS-B are clipped to 0 to 5 and written with three decimals.

    Raises:
        DataError: a label that the task does not have, or a number that is not finite.
        UsageError: no such task.
    """
    task = glue_task(name)
    metric = TASKS[find(name.removeprefix("glue/"))]
    words = dict(zip(metric.words, metric.labels))
    yield "index\tprediction"
    for i, (id, prediction) in enumerate(predictions):
        index = str(i) if id is None else id
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
        if label not in metric.labels:
            raise DataError(
                f"prediction {i + 1} is {shown(str(prediction))}, expected one of {', '.join(metric.labels)}",
                hint="the labels of the model must be those of the published training file",
            )
        yield f"{index}\t{label}"
