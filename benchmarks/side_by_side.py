"""Measure several ways of doing one thing, taking turns, and print their medians and ratios as a table.

Turns, because shared machines drift: what counts is the ratio within a run, not the absolute figures.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import records

from nlptools.batches.source import BatchSource

CORES = len(os.sched_getaffinity(0))
STOPPED = 75  # status of a training that ended early with everything saved
Measure = Callable[[], float]  # does the job once and returns its speed


def options(description: str | None, *positional: str, **defaults: Any) -> argparse.Namespace:
    """The options of a script, with `worker`: the arguments of a `Worker`, or None.

    Args:
        positional: names of arguments; a first / means a path; a last ?, * or + how many there may be.
        defaults: option -> default: its type is the type of the option. A type: no default. [] an option that may be
            repeated. False a switch.
    """
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in positional:
        parser.add_argument(
            name.strip("/?*+"), nargs=name[-1] if name[-1] in "?*+" else None, type=Path if name[0] == "/" else str
        )
    for name, default in defaults.items():
        flag = f"--{name.replace('_', '-')}"
        if default is False:
            parser.add_argument(flag, action="store_true")
        elif default == []:
            parser.add_argument(flag, action="append", default=[])
        elif isinstance(default, type):
            parser.add_argument(flag, type=default)
        else:
            parser.add_argument(flag, type=type(default), default=default)
    parser.add_argument("--worker", nargs="*", help=argparse.SUPPRESS)
    return parser.parse_args()


def precisions() -> list[str]:
    """fp32, and bf16 where nlptools would choose it."""
    from nlptools.compute.backend import Backend

    return ["fp32", "bf16"] if Backend.detect().precision == "bf16" else ["fp32"]


def compare(
    title: str, unit: str, sides: Mapping[str, Measure], rounds: int = 3, *, less: bool = False
) -> dict[str, float]:
    """Run each side `rounds` times after a warm-up, in turns; print a table and record it; return the medians.

    The names of our sides begin with `nlptools`; the ratio of the best of them to each other one is printed. Ends workers.

    Args:
        less: lower figures are better.
    """
    speeds: dict[str, list[float]] = {name: [] for name in sides}
    for turn in range(rounds + 1):
        for name, measure in sides.items():
            speed = measure()
            if turn:
                speeds[name].append(speed)
    medians = {name: statistics.median(values) for name, values in speeds.items()}
    ratios = records.ratios(medians, less)
    print(f"\n{title} ({unit}; median, lowest and highest of {rounds} rounds in turns)")
    for name, values in speeds.items():
        ratio = f"   nlptools is {ratios[name]:.2f}x" if name in ratios else ""
        print(
            f"  {name:<44} {medians[name]:>10,.1f}   {min(values):>10,.1f} .. {max(values):<10,.1f}{ratio}", flush=True
        )
    for measure in sides.values():
        if isinstance(measure, Worker):
            measure.close()
    ranges = {name: (min(values), max(values)) for name, values in speeds.items()}
    records.record(title, unit, medians, less=less, ranges=ranges, rounds=rounds)
    return medians


class Worker:
    """One side in a separate process, so that nothing ours does to a process (its allocator, say) helps the other.

    The script is started with `--worker` and the arguments; it calls `serve` with its measure.
    """

    def __init__(self, script: str, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, script, "--worker", *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __call__(self) -> float:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"a side of the benchmark died: {self.process.args}")
        return float(line)

    def close(self) -> None:
        """End the process."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def serve(measure: Measure) -> None:
    """Answer each line of standard input with a measurement."""
    for _ in sys.stdin:
        print(measure(), flush=True)


def seconds(job: Callable[[], object]) -> float:
    """Wall-clock seconds of `job`."""
    begin = time.perf_counter()
    job()
    return time.perf_counter() - begin


class Endless(BatchSource):
    """A source without a position; subclasses make the batches."""

    batches_per_epoch, epoch = 1e6, 0.0

    def state(self) -> dict[str, Any]:
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        pass


def nlptools(*arguments: object, stdin: Path | str | None = None, stdout: Path | None = None) -> str:
    """Run a command, and show it; returns its standard output. Ends the program on errors.

    Args:
        stdin: a file, or text; None: nothing.
        stdout: a file for what it writes, which is then not returned.
    """
    files = [f"< {stdin}"] if isinstance(stdin, Path) else [], [f"> {stdout}"] if stdout else []
    print("  $ nlptools", *arguments, *files[0], *files[1], flush=True)
    command = [sys.executable, "-m", "nlptools", *map(str, arguments)]
    given = stdin.read_bytes() if isinstance(stdin, Path) else (stdin or "").encode()
    done = subprocess.run(command, input=given, stdout=subprocess.PIPE)
    if done.returncode not in (0, STOPPED):
        raise SystemExit(f"nlptools {arguments[0]} ended with status {done.returncode}")
    if done.returncode == STOPPED:
        print("  stopped before its time; the following figures are of the best model until then")
    if stdout is None:
        return done.stdout.decode()
    stdout.write_bytes(done.stdout)
    return ""


def unfinished(folder: Path) -> bool:
    """Whether a training in `folder` has not begun or was stopped; the same command begins or continues it."""
    record = folder / "training.json"
    return not record.exists() or json.loads(record.read_text(encoding="utf-8"))["status"] != "finished"


def found(folder: str, *more: str) -> Path | None:
    """The file or folder of that name in the folder of corpora and tasks that NLPTOOLS_DATA names, if it exists."""
    data = os.environ.get("NLPTOOLS_DATA")
    path = Path(data or "", folder, *more)
    return path if data and path.exists() else None


def published(folder: str, *more: str) -> Path:
    """As `found`. Ends the program where it is not there."""
    path = found(folder, *more)
    if path is None:
        raise SystemExit(f"NLPTOOLS_DATA must name a folder with {Path(folder, *more)} in it")
    return path


def machine() -> str:
    """One line about where the numbers come from."""
    import torch

    from nlptools.compute import processor

    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
    gpu = f", {torch.cuda.get_device_name()}" if torch.cuda.is_available() else ""
    matrix = "bf16 units" if processor.has_bf16() else "no bf16 units"
    name = processor.name()
    return (
        f"{name}, {len(os.sched_getaffinity(0))} cores, {matrix}{gpu}; Python {platform.python_version()},"
        f" torch {torch.__version__}, commit {commit or '?'}"
    )
