"""Reports of a run: JSON objects in log.jsonl, and a bar on a terminal or occasional plain lines elsewhere.

The bar and the lines have the loss, the numbers that the task names, and the time left; with --verbose the learning rate and
the speed.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import IO, Protocol

from nlptools import messages
from nlptools.errors import StreamError, Unavailable, reason
from nlptools.files import atomic

PLAIN_SECONDS = 10.0  # between plain progress lines
BAR_SECONDS = 0.2  # between bars, at least


class Log:
    """The log of a run. Only the main process writes one."""

    def __init__(
        self,
        directory: Path | None,
        total: int,
        *,
        track: str = "none",
        unit: str = "tokens",
        show: bool | None = None,
        shown: tuple[str, ...] = (),
    ) -> None:
        """Args:
        directory: the directory of `log.jsonl`; None writes no file.
        total: steps of the whole run.
        track: "tensorboard" also writes event files.
        unit: the unit of speed, such as "tokens".
        show: whether to report progress on standard error; by default if there is a directory.
        shown: numbers of a training step that are reported there after its loss, if they are known.
        """
        self.total, self.unit, self.shown = total, unit, shown
        self._file: IO[str] | None = None
        self._board: _Board | None = None
        self._last_line, self._drawn = 0.0, 0.0  # when a line was written, and a bar drawn
        self._text, self._validated = "", ""  # of the last report, and in it of the last validation
        self._seconds: list[tuple[float, int]] = [(time.monotonic(), 0)]  # recent (time, step), for the time left
        if directory is not None and track == "tensorboard":
            self._board = _tensorboard(directory / "tensorboard")
        self._path = None if directory is None else directory / "log.jsonl"
        self._show = directory is not None if show is None else show

    def begin(self, step: int) -> None:
        """Start reporting after `step`; later reports of an interrupted run are removed, since its steps are repeated."""
        self._seconds = [(time.monotonic(), step)]
        if self._path is not None:
            _truncate(self._path, step)
            self._file = open(self._path, "a", encoding="utf-8")  # noqa: SIM115  open for the whole run
            if 0 < step < self.total:
                messages.note(f"continuing at step {step}")

    def train(self, step: int, row: Mapping[str, float]) -> None:
        """Report a training step."""
        self._write("train", {"step": step, **row})
        self._seconds = [*self._seconds[-20:], (time.monotonic(), step)]
        self._progress(step, row)

    def move(self, step: int) -> None:
        """Move the bar, between two reports."""
        moves = self._text and messages.bars() and time.monotonic() - self._drawn >= BAR_SECONDS
        if moves and self._show and not messages.settings.quiet:
            self._draw(step)

    def valid(self, step: int, row: Mapping[str, float], decides: str = "loss") -> None:
        """Report a validation; the metric `decides` selects the best one."""
        self._write("valid", {"step": step, **row})
        if decides != "loss" and decides in row:
            self._validated = f"valid {decides} {digits(row[decides])}  "
        if self._show:
            shown = [name for name in dict.fromkeys(("perplexity", decides)) if name in row and name != "loss"]
            more = "".join(f", {name} {digits(row[name])}" for name in shown)
            messages.note(f"step {step}: validation loss {row['loss']:.4f}{more}")

    def event(self, name: str, **more: object) -> None:
        """Report a single event, such as a skipped step."""
        self._write(name, more)

    def close(self) -> None:
        """Remove the bar, and close the files."""
        messages.no_bar()
        if self._file is not None:
            self._file.close()
            self._file = None
        if self._board is not None:
            self._board.close()

    def _write(self, kind: str, row: Mapping[str, object]) -> None:
        if self._file is None:
            return
        now = datetime.now(timezone.utc).isoformat(timespec="seconds")
        try:
            self._file.write(json.dumps({"kind": kind, **row, "time": now}) + "\n")
            self._file.flush()
        except OSError as error:
            raise StreamError(f"log.jsonl: write failed: {reason(error)}") from None
        step = row.get("step")
        if self._board is not None and isinstance(step, int):
            for key, value in row.items():
                if isinstance(value, float):
                    self._board.add_scalar(f"{kind}/{key}", value, step)

    def _progress(self, step: int, row: Mapping[str, float]) -> None:
        if not self._show or messages.settings.quiet:
            return
        names = [name for name in ("loss", *self.shown) if name in row]
        self._text = "".join(f"{name} {row[name]:.4f}  " for name in names) + self._validated
        if messages.settings.verbose:
            speed = row[f"{self.unit}_per_second"]
            self._text += f"lr {row['lr']:.2e}  {speed:,.0f} {self.unit}/s  "
        if messages.bars():
            self._draw(step)
            return
        now = time.monotonic()
        if now - self._last_line >= PLAIN_SECONDS or step >= self.total:
            self._last_line = now
            messages.note(self._line(step))

    def _draw(self, step: int) -> None:
        self._drawn = time.monotonic()
        messages.progress(self._line(step), step / max(1, self.total))

    def _line(self, step: int) -> str:
        return f"step {step}/{self.total}  {self._text}{self._remaining()} left"

    def _remaining(self) -> str:
        (t0, s0), (t1, s1) = self._seconds[0], self._seconds[-1]
        if s1 == s0:
            return "?"
        return messages.clock((t1 - t0) / (s1 - s0) * max(0, self.total - s1))


def digits(value: float) -> str:
    """A validation metric for a message: four decimal places, two from 10 on."""
    return f"{value:.{4 if abs(value) < 10 else 2}f}"


def _truncate(path: Path, step: int) -> None:
    """Remove the reports of steps after `step`, which a continued run repeats."""
    if not path.is_file():
        return
    kept = []
    for line in path.read_text(encoding="utf-8").split("\n"):
        with contextlib.suppress(ValueError):
            if line and json.loads(line).get("step", 0) <= step:
                kept.append(line + "\n")
    atomic.write_whole(path, "".join(kept))


class _Board(Protocol):
    """The writer of TensorBoard's event files."""

    def add_scalar(self, tag: str, scalar_value: float, global_step: int, /) -> None: ...

    def close(self) -> None: ...


def _tensorboard(directory: Path) -> _Board:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise Unavailable("--track tensorboard needs the tensorboard package", extra="tensorboard") from None
    board: _Board = SummaryWriter(str(directory))
    return board
