"""Reports of a run: JSON objects in log.jsonl, and a progress bar on a terminal or occasional plain lines elsewhere."""

from __future__ import annotations

import contextlib
import json
import time
from datetime import datetime, timezone
from pathlib import Path
from typing import IO, Any

from nlptools import messages
from nlptools.errors import StreamError, Unavailable, reason
from nlptools.files import atomic

PLAIN_SECONDS = 10.0  # between plain progress lines


class Log:
    """The log of a run. Only in the main process does it write anything."""

    def __init__(
        self, directory: Path | None, total: int, *, track: str = "none", unit: str = "tokens", show: bool | None = None
    ) -> None:
        """Args:
        directory: the directory of `log.jsonl`; None writes no file.
        total: steps of the whole run.
        track: "tensorboard" also writes event files.
        unit: the unit of speed, such as "tokens".
        show: whether to report progress on standard error; by default if there is a directory.
        """
        self.total, self.unit = total, unit
        self._file: IO[str] | None = None
        self._board: Any = None
        self._bar: Any = None
        self._last_line = 0.0
        self._seconds: list[tuple[float, int]] = []  # recent (time, step), to estimate the remaining time
        if directory is not None and track == "tensorboard":
            self._board = _tensorboard(directory / "tensorboard")
        self._path = None if directory is None else directory / "log.jsonl"
        self._show = directory is not None if show is None else show

    def begin(self, step: int) -> None:
        """Start reporting after `step`; later reports of an interrupted run are removed, its steps are repeated."""
        if self._path is not None:
            _truncate(self._path, step)
            self._file = open(self._path, "a", encoding="utf-8")  # noqa: SIM115  open for the whole run
            if 0 < step < self.total:
                messages.note(f"continuing at step {step}")

    def train(self, row: dict[str, Any]) -> None:
        """Report a training step."""
        self._write({"kind": "train", **row})
        self._seconds = [*self._seconds[-20:], (time.monotonic(), row["step"])]
        self._progress(row)

    def valid(self, row: dict[str, Any], decides: str = "loss") -> None:
        """Report a validation; the metric `decides` selects the best one."""
        self._write({"kind": "valid", **row})
        if self._show:
            shown = [name for name in dict.fromkeys(("perplexity", decides)) if name in row and name != "loss"]
            more = "".join(f", {name} {digits(row[name])}" for name in shown)
            messages.note(f"step {row['step']}: validation loss {row['loss']:.4f}{more}")

    def event(self, name: str, **more: Any) -> None:
        """Report a single event, such as a skipped step."""
        self._write({"kind": name, **more})

    def close(self) -> None:
        """Close the progress bar and the files."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
        if self._file is not None:
            self._file.close()
            self._file = None
        if self._board is not None:
            self._board.close()

    def _write(self, row: dict[str, Any]) -> None:
        row["time"] = datetime.now(timezone.utc).isoformat(timespec="seconds")
        if self._file is None:
            return
        try:
            self._file.write(json.dumps(row) + "\n")
            self._file.flush()
        except OSError as error:
            raise StreamError(f"log.jsonl: write failed: {reason(error)}") from None
        if self._board is not None:
            for key, value in row.items():
                if isinstance(value, float):
                    self._board.add_scalar(f"{row['kind']}/{key}", value, row["step"])

    def _progress(self, row: dict[str, Any]) -> None:
        if not self._show or messages.settings.quiet:
            return
        loss = f"loss {row['loss']:.4f}  " if "loss" in row else ""
        text = f"{loss}lr {row['lr']:.2e}  {row[f'{self.unit}_per_second']:,.0f} {self.unit}/s"
        if messages.bars():
            self._draw(row["step"], text)
            return
        now = time.monotonic()
        if now - self._last_line >= PLAIN_SECONDS or row["step"] >= self.total:
            self._last_line = now
            messages.note(f"step {row['step']}/{self.total}  {text}  {self._remaining()} left")

    def _remaining(self) -> str:
        (t0, s0), (t1, s1) = self._seconds[0], self._seconds[-1]
        if s1 == s0:
            return "?"
        return messages.clock((t1 - t0) / (s1 - s0) * max(0, self.total - s1))

    def _draw(self, step: int, text: str) -> None:
        if self._bar is None:
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

            # redirect_*=False: rich would otherwise redirect standard output, which belongs to the user's data
            self._bar = Progress(
                TextColumn("training"),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("{task.fields[text]}"),
                TimeRemainingColumn(),
                console=Console(stderr=True, no_color=not messages.colored(), force_terminal=True),
                redirect_stdout=False,
                redirect_stderr=False,
                transient=True,
            )
            self._bar.start()
            self._bar.add_task("train", total=self.total, text=text)
        self._bar.update(self._bar.task_ids[0], completed=step, text=text)


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


def _tensorboard(directory: Path) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise Unavailable("--track tensorboard needs the tensorboard package", extra="tensorboard") from None
    return SummaryWriter(str(directory))
