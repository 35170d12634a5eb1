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

from nlptools.errors import DataError
from nlptools.formats.lines import shown
from nlptools.metrics.glue import TASKS, find

_SPLITS = {"train": "train.tsv", "dev": "dev.tsv", "test": "test.tsv"}
_MATCHED = {"train": "train.tsv", "dev": "dev_matched.tsv", "test": "test_matched.tsv"}
_MISMATCHED = {"train": "train.tsv", "dev": "dev_mismatched.tsv", "test": "test_mismatched.tsv"}
_TWO = ("index", "sentence1", "sentence2", "label")
_MNLI = (
    *("index", "promptID", "pairID", "genre", "sentence1_binary_parse", "sentence2_binary_parse"),
    *("sentence1_parse", "sentence2_parse", "sentence1", "sentence2"),
)
_STS = ("index", "genre", "filename", "year", "old_index", "source1", "source2", "sentence1", "sentence2")
_MRPC = ("#1 ID", "#2 ID", "#1 String", "#2 String")
_LABELS_OF_FIVE = ("label1", "label2", "label3", "label4", "label5")
_FOLDERS = {"mnli-m": "MNLI", "mnli-mm": "MNLI", "mnli": "MNLI", "ax": "diagnostic"}


@dataclass(frozen=True)
class GlueTask:
    """The published files of a task.

    Attributes:
        task: our task: "classify", "pair" or "regress".
        texts: names of the text columns.
        label: name of the label column; "" if no file has one.
        headers: by "train", "dev" and "test", the header of the file; () if it has none.
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
    headers: Mapping[str, tuple[str, ...]]
    labels: tuple[str, ...]
    metrics: tuple[str, ...]
    submission: str
    folder: str
    files: Mapping[str, str] = field(default_factory=lambda: _SPLITS)
    id: str = "index"
    numbers: Mapping[str, int] = field(default_factory=dict)


def _task(
    name: str,
    published: str,
    task: str,
    texts: tuple[str, ...],
    label: str,
    headers: tuple[tuple[str, ...], ...],
    files: Mapping[str, str] = _SPLITS,
    id: str = "index",
    numbers: Mapping[str, int] | None = None,
) -> GlueTask:
    metric = TASKS[name]
    by_split = dict(zip(files, headers, strict=True))
    folder = _FOLDERS.get(name, published)
    sent = f"{published}.tsv"
    return GlueTask(task, texts, label, by_split, metric.labels, metric.metrics, sent, folder, files, id, numbers or {})


_SENTENCES = ("sentence1", "sentence2")
_MNLI_HEADERS = ((*_MNLI, "label1", "gold_label"), (*_MNLI, *_LABELS_OF_FIVE, "gold_label"), _MNLI)
_QUESTIONS = ("question1", "question2")
_QQP = ("id", "qid1", "qid2", *_QUESTIONS, "is_duplicate")

GLUE = {
    "cola": _task(
        "cola",
        "CoLA",
        "classify",
        ("sentence",),
        "label",
        ((), (), ("index", "sentence")),
        numbers={"text": 4, "label": 2},
    ),
    "sst-2": _task(
        "sst-2",
        "SST-2",
        "classify",
        ("sentence",),
        "label",
        (("sentence", "label"), ("sentence", "label"), ("index", "sentence")),
    ),
    "mrpc": _task(
        "mrpc",
        "MRPC",
        "pair",
        ("#1 String", "#2 String"),
        "Quality",
        (("Quality", *_MRPC), ("Quality", *_MRPC), ("index", *_MRPC)),
    ),
    "qqp": _task("qqp", "QQP", "pair", _QUESTIONS, "is_duplicate", (_QQP, _QQP, ("id", *_QUESTIONS)), id="id"),
    "sts-b": _task("sts-b", "STS-B", "regress", _SENTENCES, "score", ((*_STS, "score"), (*_STS, "score"), _STS)),
    "mnli": _task("mnli", "MNLI-m", "pair", _SENTENCES, "gold_label", _MNLI_HEADERS, _MATCHED),
    "mnli-m": _task("mnli-m", "MNLI-m", "pair", _SENTENCES, "gold_label", _MNLI_HEADERS, _MATCHED),
    "mnli-mm": _task("mnli-mm", "MNLI-mm", "pair", _SENTENCES, "gold_label", _MNLI_HEADERS, _MISMATCHED),
    "qnli": _task(
        "qnli",
        "QNLI",
        "pair",
        ("question", "sentence"),
        "label",
        (*(("index", "question", "sentence", "label"),) * 2, ("index", "question", "sentence")),
    ),
    "rte": _task("rte", "RTE", "pair", _SENTENCES, "label", (_TWO, _TWO, _TWO[:-1])),
    "wnli": _task("wnli", "WNLI", "pair", _SENTENCES, "label", (_TWO, _TWO, _TWO[:-1])),
    "ax": _task("ax", "AX", "pair", _SENTENCES, "", (_TWO[:-1],), {"test": "diagnostic.tsv"}),
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
