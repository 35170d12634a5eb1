"""Checked input of metrics of paired examples: labels, numbers or texts, one per line."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nlptools.errors import DataError, UsageError, shown
from nlptools.metrics.metric import Paths, Values


class RecordsFile(str):
    """The name of a file of records.

    Attributes:
        lines: the number of the first line of each.
    """

    lines: Sequence[int]

    def __new__(cls, name: str, lines: Sequence[int]) -> RecordsFile:
        """The name, with the numbers of the lines."""
        made = super().__new__(cls, name)
        made.lines = lines
        return made


def refuse(message: str, path: str | None, index: int) -> DataError:
    """The error for the example at `index` (from 0): names the file, if known, and the line (from 1)."""
    line = path.lines[index] if isinstance(path, RecordsFile) else index + 1
    return DataError(message, path=path, line=line) if path is not None else DataError(f"line {line}: {message}")


def check_paired(gold: Sequence[object], predicted: Sequence[object], unit: str, paths: Paths = (None, None)) -> int:
    """N, the number of examples on either side.

    Raises:
        DataError: the numbers differ, or are 0.
        UsageError: a string where a list of strings is expected.
    """
    if isinstance(gold, str) or isinstance(predicted, str):
        raise UsageError(f"expected {unit} as a list, not as one string")
    if len(gold) != len(predicted):
        raise DataError(f"unequal counts: {len(gold)} gold {unit}, {len(predicted)} predicted", path=paths[1])
    if not gold:
        raise DataError(f"no {unit}: gold and predicted are empty", path=paths[0])
    return len(gold)


def check_references(predictions: Sequence[str], references: Sequence[Sequence[str | None]]) -> None:
    """Check texts with one list per reference, None where a text has no such reference.

    Raises:
        DataError: the numbers of texts differ, or a text has no reference at all.
        UsageError: no references, or a string where a list of strings is expected.
    """
    if isinstance(predictions, str) or isinstance(references, str) or any(isinstance(r, str) for r in references):
        raise UsageError("expected predictions as a list of texts, and references as a list of such lists")
    if not references:
        raise UsageError("expected at least one reference")
    for number, lines in enumerate(references, 1):
        if len(lines) != len(predictions):
            which = f"reference {number} of {len(references)}" if len(references) > 1 else "the reference"
            raise DataError(f"unequal numbers of texts: {len(predictions)} predictions, {len(lines)} in {which}")
    if any(None in lines for lines in references):
        for index, texts in enumerate(zip(*references), 1):
            if all(text is None for text in texts):
                raise DataError(f"text {index} has no reference, expected at least one")


def numbers(lines: Sequence[str], path: str | None = None) -> Values:
    """The number in each of `lines`: (N,).

    Raises:
        DataError: a line holds no number, or one that is not finite; names the line.
    """
    try:
        values = np.fromiter(map(float, lines), np.float64, len(lines))
    except ValueError:
        values = None
    # float() also reads 1_000 and the digits of other scripts: in a file of numbers, these are mistakes
    text = "".join(lines)
    if values is not None and np.isfinite(values).all() and text.isascii() and "_" not in text:
        return values
    for index, line in enumerate(lines):
        try:
            finite = bool(np.isfinite(float(line)))
        except ValueError:
            finite = False
        if not finite or not line.isascii() or "_" in line:
            raise refuse(f"expected a finite number, got {shown(line)}", path, index)
    raise AssertionError("unreachable")
