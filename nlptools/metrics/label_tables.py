"""Tables of labels as text: the report of precision, recall and F1 by label, and the confusion matrix.

Shapes: L labels or types of entities.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nlptools.errors import UsageError
from nlptools.metrics import tables
from nlptools.metrics.classification import MOST_LABELS_SHOWN, precision_recall_f1
from nlptools.metrics.metric import Details, Evaluation, Values, ratio

_HEADINGS = ("precision", "recall", "f1-score", "support")
_COLUMN = 9  # characters


def report(evaluation: Evaluation, width: int) -> list[str]:
    """Precision, recall, F1 and number of gold ones of each label or type of entity, with `width` decimals.

    The lines equal scikit-learn's `classification_report`, followed by the confusion matrix; of entities, seqeval's
    `classification_report`.

    Raises:
        UsageError: there are more than MOST_LABELS_SHOWN labels.
    """
    details = evaluation.details
    if "types" in details:
        rows = [[row[key] for row in details["types"].values()] for key in ("correct", "predicted", "gold")]
        return _table(list(details["types"]), np.array(rows, np.float64), width, exclusive=False)
    if "confusion" not in details:
        raise UsageError(f"--to report is for {MOST_LABELS_SHOWN:,} labels at most")
    confusion = np.array(details["confusion"], np.float64)
    counts = np.stack([confusion.diagonal(), confusion.sum(axis=0), confusion.sum(axis=1)])
    return [*_table(details["labels"], counts, width, exclusive=True), "", *confusion_lines(details)]


def _table(names: Sequence[str], counts: Values, width: int, exclusive: bool) -> list[str]:
    """The report of numbers of correct, predicted and gold ones, (3, L).

    `exclusive`: each example has one gold and one predicted label, so that the micro averages are all the accuracy.
    """
    scores, support = precision_recall_f1(*counts).T, counts[2]  # (L, 3), (L,)
    total = support.sum()
    micro = precision_recall_f1(*counts.sum(axis=1)).tolist()
    averages = {
        "accuracy" if exclusive else "micro avg": micro,
        "macro avg": (scores.sum(axis=0) / max(1, len(names))).tolist(),
        "weighted avg": ratio((scores * support[:, None]).sum(axis=0), total).tolist(),
    }
    printed = [_printable(name) for name in names]
    first = max(map(tables.width, [*printed, "weighted avg"]))

    def line(name: str, cells: Sequence[str]) -> str:
        return f"{tables.pad(name, first, '>')} " + "".join(f" {cell:>{_COLUMN}}" for cell in cells)

    def row(name: str, values: Sequence[float], count: float) -> str:
        cells = [f"{value:.{width}f}" for value in values]
        return line(name, [*(("", "", cells[0]) if name == "accuracy" and exclusive else cells), f"{count:.0f}"])

    labels = [row(*each) for each in zip(printed, scores.tolist(), support.tolist(), strict=True)]
    return [line("", _HEADINGS), "", *labels, "", *(row(name, values, total) for name, values in averages.items())]


def confusion_lines(details: Details) -> list[str]:
    """The confusion matrix in `details` as aligned lines for a terminal, rows gold, columns predicted.

    No lines if the details hold no matrix, as for very many labels.
    """
    if "confusion" not in details:
        return []
    names = [_printable(label) for label in details["labels"]]
    rows = [["gold \\ predicted", *names]]
    rows += [[name, *map(str, counts)] for name, counts in zip(names, details["confusion"], strict=True)]
    widths = [max(map(tables.width, column)) for column in zip(*rows)]
    return [
        "  ".join(tables.pad(cell, width, ">" if i else "<") for i, (cell, width) in enumerate(zip(row, widths)))
        for row in rows
    ]


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text)
