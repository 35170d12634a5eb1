"""Regular expressions for the decimal numbers in a range."""

from __future__ import annotations


def integers(low: int | None, high: int | None) -> str:
    """A regular expression for the whole numbers from `low` to `high`, None: without a bound, written without leading zeros."""
    parts = []
    if low is None or low < 0:
        largest = None if low is None else -low
        smallest = 1 if high is None or high >= 0 else -high
        parts.append(f"-{_natural(smallest, largest)}")
    if high is None or high >= 0:
        parts.append(_natural(0 if low is None else max(low, 0), high))
    return f"(?:{'|'.join(parts)})"


def _natural(low: int, high: int | None) -> str:
    """Those from `low`, which is not negative, to `high`."""
    parts = []
    if low == 0:
        parts.append("0")
        low = 1
    first = str(low)
    if high is None:
        parts += [_same_length(first, "9" * len(first)), f"[1-9][0-9]{{{len(first)},}}"]
    elif high >= low:
        last = str(high)
        for digits in range(len(first), len(last) + 1):
            begin = first if digits == len(first) else "1" + "0" * (digits - 1)
            end = last if digits == len(last) else "9" * digits
            parts.append(_same_length(begin, end))
    return f"(?:{'|'.join(parts)})"


def _same_length(low: str, high: str) -> str:
    """Those from `low` to `high`, which have the same number of digits."""
    if low == high:
        return low
    if not low.strip("0") and not high.strip("9"):
        return f"[0-9]{{{len(low)}}}"
    if len(low) == 1:
        return f"[{low}-{high}]"
    if low[0] == high[0]:
        return low[0] + _same_length(low[1:], high[1:])
    rest = len(low) - 1
    parts, begin, end = [], int(low[0]), int(high[0])
    if low[1:].strip("0"):
        parts.append(low[0] + _same_length(low[1:], "9" * rest))
        begin += 1
    if high[1:].strip("9"):
        end -= 1
    if begin <= end:
        parts.append(f"[{begin}-{end}][0-9]{{{rest}}}")
    if high[1:].strip("9"):
        parts.append(high[0] + _same_length("0" * rest, high[1:]))
    return f"(?:{'|'.join(parts)})"
