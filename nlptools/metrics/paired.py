"""Checked input of the metrics of paired examples: labels or numbers, one per line."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nlptools.errors import DataError, UsageError, shown
from nlptools.metrics.metric import Paths, Values


class Headed(str):
    """The name of a file whose first line is a header: its examples begin in the second."""


def refuse(message: str, path: str | None, index: int) -> DataError:
    """The error for the example at `index` (from 0): names the file, if known, and the line (from 1)."""
    line = index + (2 if isinstance(path, Headed) else 1)
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
