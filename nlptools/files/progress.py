"""Progress of a command through its input: lines per second, and the time left if the size of the input is known.

A command calls `start`; `streams.blocks` then reports what it reads, and the command what it has processed (`done`), if it
takes long for each line. Without such reports, a block counts as processed when the next one is read.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from nlptools import messages
from nlptools.files import standard
from nlptools.files.compression import is_compressed
from nlptools.files.input_parts import InputPart
from nlptools.messages import clock

DELAY, BAR_SECONDS, PLAIN_SECONDS = 0.5, 0.2, 60.0  # before the first bar, between bars, between plain lines


@dataclass
class Meter:
    """How much of the inputs has been read and processed."""

    inputs: frozenset[str]
    size: int | None  # bytes of all inputs together, None if unknown
    seconds: float  # between reports
    bytes: int = 0
    lines: int = 0
    done: int = 0
    ahead: int = 0  # of those that are processed together now, how many are
    reported: bool = False  # whether the command reports processed lines itself
    created: float = field(default_factory=time.monotonic)
    began: float = 0.0  # of reading; of a reader that does not report, of the command
    next: float = 0.0

    def report(self) -> None:
        """Write the state, unless the last report is too recent."""
        now = time.monotonic()
        if now < self.next:
            return
        self.next = now + self.seconds
        messages.progress(self.text(now - self.began), self.fraction())

    def fraction(self) -> float | None:
        """The processed share of the input, None if unknown."""
        processed = self.done + self.ahead
        if not self.size or not self.lines or processed > self.lines:
            return None
        return min(1.0, self.bytes / self.size * processed / self.lines)

    def text(self, seconds: float) -> str:
        """The numbers of a report after so many seconds."""
        fraction = self.fraction()
        left = f"  {clock(seconds / fraction - seconds)} left" if fraction else ""
        processed = self.done + self.ahead
        return f"{processed:,} lines  {processed / max(1e-9, seconds):,.0f}/s{left}"


_meters: list[Meter] = []


def start(inputs: Sequence[str], output: str = "-") -> None:
    """Report the progress through `inputs` (none: standard input) from now on, subject to --progress and --quiet.

    A terminal that shows the `output` gets no bar, unless --progress always asks for one.
    """
    _meters.clear()
    settings = messages.settings
    shares_terminal = settings.progress == "auto" and output == "-" and os.isatty(1)
    if settings.quiet or settings.progress == "never" or shares_terminal:
        return
    names = list(inputs) or ["-"]
    sizes = [size_of(name) for name in names]
    total = sum(size or 0 for size in sizes)
    seconds = BAR_SECONDS if messages.bars() else PLAIN_SECONDS
    _meters.append(Meter(frozenset(names), None if None in sizes else total, seconds))


def read(name: str, size: int, lines: int) -> None:
    """Report that a block of `size` bytes of the input `name` has been read, and the block before it processed."""
    for meter in _meters:
        if name in meter.inputs:
            _begin(meter, time.monotonic())
            if not meter.reported:
                meter.done = meter.lines
                meter.report()
            meter.bytes += size
            meter.lines += lines


def done(lines: int) -> None:
    """Report that so many more lines have been processed."""
    for meter in _meters:
        _count(meter)
        meter.done, meter.ahead = meter.done + lines, 0
        meter.report()


def ahead(lines: int) -> None:
    """Report the lines processed since the last call of `done`, for commands that process many together."""
    for meter in _meters:
        _count(meter)
        meter.ahead = lines
        meter.report()


def _count(meter: Meter) -> None:
    """From now on, the command itself reports the processed lines, so far none."""
    _begin(meter, meter.created)
    if not meter.reported:
        meter.reported, meter.done = True, 0


def _begin(meter: Meter, now: float) -> None:
    """Start the clock of a meter with the first of its reports."""
    if not meter.began:
        meter.began = now
        meter.next = meter.began + (DELAY if meter.seconds == BAR_SECONDS else meter.seconds)


def size_of(name: str) -> int | None:
    """Bytes of an uncompressed file or a part of it, None for other inputs."""
    if name == "-" and 0 in standard.closed:
        return None
    try:
        status = os.fstat(0) if name == "-" else os.stat(name)
    except OSError:
        return None
    if not stat.S_ISREG(status.st_mode) or is_compressed(name):
        return None
    if isinstance(name, InputPart):
        return (status.st_size if name.end is None else name.end) - name.start
    return status.st_size
