"""Numbers as decimal text, as short as possible, and back."""

from __future__ import annotations

import warnings

import numpy as np

from nlptools.arrays import Array, Floats

_DIGITS = {"float32": (8, 9), "float16": (4, 5)}  # enough for most numbers, enough for all


def decimals(values: Array, digits: tuple[int, int] | None = None) -> list[str]:
    """The numbers of an array of float32 or float16, flattened, as text.

    Args:
        digits: significant digits; the second number is for values that the first does not give back exactly. None:
            (8, 9) for float32, (4, 5) for float16.
    """
    plain = values.ravel().tolist()
    if not plain:
        return []
    short, exact = digits or _DIGITS[values.dtype.name]
    fields = (" ".join([f"%.{short}g"] * len(plain)) % tuple(plain)).split(" ")
    if short < exact:
        back = floats(" ".join(fields).encode()).astype(values.dtype)
        exactly = f"%.{exact}g"
        for i in np.flatnonzero(back != values.ravel()).tolist():
            fields[i] = exactly % plain[i]
    return fields


def rows_of_decimals(rows: Array, separator: str, digits: tuple[int, int] | None = None) -> list[str]:
    """The numbers of each row (N, D), separated by `separator`; see `decimals`."""
    fields, width = decimals(rows, digits), rows.shape[1]
    return [separator.join(fields[i * width : (i + 1) * width]) for i in range(len(rows))]


def floats(text: bytes) -> Floats:
    """Numbers separated by spaces, float32; those before the first field that is not a number, or none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # about fields that are not numbers; callers count
        try:
            numbers = np.fromstring(text, np.float64, sep=" ")  # type: ignore[call-overload, unused-ignore]
        except ValueError:  # newer versions of numpy
            return np.empty(0, np.float32)
    with np.errstate(over="ignore"):
        return np.asarray(numbers.astype(np.float32))
