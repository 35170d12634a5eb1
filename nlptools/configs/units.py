"""Values with units: durations, sizes, intervals."""

from __future__ import annotations

import re
from typing import NamedTuple

from nlptools.errors import UsageError

LARGEST = 2**31 - 1  # fits a C int, which is what some libraries expect

_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def duration(text: str) -> float:
    """Seconds in a text such as `90`, `45s`, `10m`, `1h30m`, up to LARGEST. Raises UsageError."""
    if re.fullmatch(r"\d+(\.\d+)?", text):
        seconds = float(text)
    elif re.fullmatch(r"(\d+(\.\d+)?[smhd])+", text):
        parts = re.findall(r"(\d+(\.\d+)?)([smhd])", text)
        seconds = sum(float(number) * _SECONDS[unit] for number, _, unit in parts)
    else:
        raise UsageError(f"not a duration: {text!r}, expected something like 45s, 10m or 1h30m")
    if seconds > LARGEST:
        raise UsageError(f"too long: {text!r}, expected a duration of at most {LARGEST} seconds")
    return seconds


_BYTES = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def size(text: str) -> int:
    """Bytes in a text such as `4096`, `512K`, `64M`, `1G` (powers of 1024), from 1 to 1024G. Raises UsageError."""
    match = re.fullmatch(r"([0-9]{1,15})([KMG]?)", text)
    value = int(match[1]) * _BYTES[match[2]] if match else 0
    if not 1 <= value <= 1 << 40:
        raise UsageError(f"not a size: {text!r}, expected a number of bytes, or something like 512K, 64M or 1G")
    return value


class Interval(NamedTuple):
    """How often something happens: one of steps, seconds, epochs; the others are None."""

    steps: int | None = None
    seconds: float | None = None
    epochs: float | None = None


def interval(text: str) -> Interval:
    """The interval in `500` (steps), `10m` (time), `1e` (epochs), `never`. Raises UsageError."""
    if text == "never":
        return Interval()
    if re.fullmatch(r"\d{1,10}", text) and 0 < int(text) <= LARGEST:
        return Interval(steps=int(text))
    if re.fullmatch(r"\d{1,9}(\.\d+)?e", text) and float(text[:-1]) > 0:
        return Interval(epochs=float(text[:-1]))
    try:
        seconds = duration(text)
    except UsageError:
        seconds = 0.0
    if seconds <= 0:
        raise UsageError(f"not an interval: {text!r}, expected steps (500), time (10m), epochs (1e) or never")
    return Interval(seconds=seconds)
