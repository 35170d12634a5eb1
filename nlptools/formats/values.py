"""Values of files as text: one spelling for a value of any type.

JSON, Parquet and Python have numbers and truth values, tables have their spellings. `text` spells a typed value: 1, 1.0 and
Decimal("1.00") are "1", True is "true". Text is unchanged, so that labels are printed as in the file. `key` compares labels:
"1.0" and "1" are the same label, and so are "True", "TRUE" and "true".
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal

# as programs print floats that are whole, very large or very small; 007 and 3.10 are codes or versions
_FLOAT = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.0+|(?:\.[0-9]+)?e[-+][0-9]{2,3})")
_TRUTH = {"True": "true", "TRUE": "true", "False": "false", "FALSE": "false"}
_BOOLEAN, _BINARY = ("false", "true"), ("0", "1")
_LONGEST = 2.0**64  # whole numbers below it are printed with all digits: columns of 64-bit numbers have them as well


def text(value: object) -> str:
    """A value as text: text unchanged, numbers and truth values in one spelling, other values as JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return _BOOLEAN[value]
    if isinstance(value, float) and math.isfinite(value):
        return str(int(value)) if value.is_integer() and abs(value) < _LONGEST else repr(value)
    if isinstance(value, Decimal) and value.is_finite():
        return _digits(value)
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return json.dumps(value, ensure_ascii=False, default=str)


def _digits(number: Decimal) -> str:
    """All digits of a number but zeros at the end of its fraction."""
    digits = format(number, "f")
    return digits.rstrip("0").rstrip(".") if "." in digits else digits


def is_finite(value: object) -> bool:
    """False for NaN and the infinities as numbers, True for everything else."""
    return not isinstance(value, (float, Decimal)) or math.isfinite(value)


def is_number(label: str) -> bool:
    """Whether a label is a finite number, as a decimal."""
    try:
        return math.isfinite(float(label)) and label.isascii() and "_" not in label
    except ValueError:
        return False


def without_value(labels: Iterable[str]) -> set[str]:
    """The labels for a missing number: spellings of NaN and infinity, if all other labels are numbers.

    In other files they are text: `nan` is also the code of a language.
    """
    odd = {label for label in labels if not is_number(label)}
    return odd if odd != set(labels) and all(map(_is_float, odd)) else set()


def _is_float(label: str) -> bool:
    try:
        float(label)
    except ValueError:
        return False
    return label.isascii() and "_" not in label


def key(label: str) -> str:
    """The common form of equal labels: numbers without needless digits, `true` and `false`, other text unchanged."""
    digits = _digits(Decimal(label)) if _FLOAT.fullmatch(label) else label
    return "0" if digits == "-0" else _TRUTH.get(digits, digits)


def spellings(labels: Iterable[str]) -> dict[str, str]:
    """The first spelling of each label, by its `key`."""
    return {key(label): label for label in reversed(list(dict.fromkeys(labels)))}


def compared(gold: Sequence[str], predicted: Sequence[str]) -> tuple[Mapping[str, str], list[str], list[str]]:
    """Labels of both sides, with one spelling for equal labels: the spelling of gold, if gold has the label.

    If all labels are true, false, 1 and 0, then 1 is true, as in Python.

    Returns:
        The spelling of each key, the gold labels and the predicted ones.
    """
    labels = dict.fromkeys([*gold, *predicted])
    names = spellings(labels)
    if names.keys() <= {*_BOOLEAN, *_BINARY}:
        for pair in zip(_BOOLEAN, _BINARY, strict=True):
            if first := next((label for label in labels if key(label) in pair), ""):
                names |= dict.fromkeys(pair, first)
    spelled = {label: names[key(label)] for label in labels}
    return names, [spelled[label] for label in gold], [spelled[label] for label in predicted]
