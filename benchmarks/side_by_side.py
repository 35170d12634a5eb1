"""The harness of the benchmarks: options, a scratch folder, sides that take turns, tables and records.

A script describes its sides and nothing else. A side is a function that prepares a job and returns it; calling the job does the
work once and returns how much was done. The harness runs the sides in turns, because shared machines drift: what counts is the
ratio within a run, not the absolute figures. Names of our sides begin with `nlptools`.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import json
import multiprocessing
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import records

CORES = len(os.sched_getaffinity(0))
STOPPED = 75  # status of a training that ended early with everything saved
# does the work once; returns the amount done, or the amount and a result to compare, or a `Speed`
Job = Callable[[], Any]


class Speed(float):
    """A figure that a job measures itself, instead of an amount of work."""


@dataclass(frozen=True)
class Separate:
    """A side in a separate process, so that nothing one side does to a process (its allocator, say) helps the other."""

    make: Callable[..., Job]
    arguments: tuple[Any, ...]


@dataclass(frozen=True)
class Command:
    """A whole command as a side; its result is its output if `output` names a file."""

    words: Sequence[object]
    amount: float = 1
    stdin: Path | None = None
    output: Path | None = None


def separate(make: Callable[..., Job], *arguments: Any) -> Separate:
    """The side whose job `make(*arguments)` returns, in a separate process."""
    return Separate(make, arguments)


def ours(*arguments: object) -> list[str]:
    """The words of a command of nlptools."""
    return [sys.executable, "-m", "nlptools", *map(str, arguments)]


def by_precision(makers: Mapping[str, Callable[..., Job]], *arguments: Any) -> dict[str, Separate]:
    """Sides that get a precision as their last argument: fp32, and bf16 where nlptools would choose it."""
    return {f"{name}, {p}": separate(make, *arguments, p) for p in precisions() for name, make in makers.items()}


def precisions() -> list[str]:
    """fp32, and bf16 where nlptools would choose it."""
    from nlptools.compute.backend import Backend

    return ["fp32", "bf16"] if Backend.detect().precision == "bf16" else ["fp32"]


def in_steps(step: Callable[[], float], seconds: float) -> Job:
    """A round of steps, each of which says how much it did: as many as begin within so many seconds, at least one."""

    def job() -> float:
        end, done = time.perf_counter() + seconds, step()
        while time.perf_counter() < end:
            done += step()
        return done

    return job


def device() -> str:
    """Where all sides compute."""
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


# -- a script ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Bench:
    """The options of a script, and a folder for what it makes."""

    options: argparse.Namespace
    folder: Path

    def compare(
        self,
        title: str,
        unit: str,
        sides: Mapping[str, Job | Separate | Command],
        *,
        less: bool = False,
        warm_up: int = 1,
        memory: bool = False,
        check: Callable[[Mapping[str, Any]], str] | None = None,
    ) -> dict[str, float]:
        """Run the sides in turns; print a table and record it; return the medians.

        Args:
            unit: ms or s for the time of a job, else the amount of work is divided by the seconds.
            less: lower figures are better.
            warm_up: rounds that do not count.
            memory: also record the peak memory; of separate processes, what the jobs add to the memory of the prepared process.
            check: gets the last result of each side and says how much they differ.
        """
        running = {name: self._start(side) for name, side in sides.items()}
        try:
            figures = self._in_turns(running, unit, warm_up)
            said = check({name: side.result() for name, side in running.items()}) if check else ""
            peaks = {name: side.peak() for name, side in running.items()} if memory else {}
        finally:
            for side in running.values():
                side.close()
        medians = report(title, unit, figures, less=less, check=said)
        if memory:
            report(f"memory of {title}", "MiB", {name: [peak] for name, peak in peaks.items()}, less=True)
        return medians

    def seconds(self, commands: Mapping[str, Command], warm_up: int = 1) -> dict[str, list[float]]:
        """Run commands in turns; return their times."""
        return self._in_turns({name: _Command(each) for name, each in commands.items()}, "s", warm_up)

    def _in_turns(
        self, running: Mapping[str, _Within | _Process | _Command], unit: str, warm_up: int
    ) -> dict[str, list[float]]:
        figures: dict[str, list[float]] = {name: [] for name in running}
        for turn in range(warm_up + self.options.rounds):
            for name, side in running.items():
                figure = side.measure(unit)
                if turn >= warm_up:
                    figures[name].append(figure)
        return figures

    def _start(self, side: Job | Separate | Command) -> _Within | _Process | _Command:
        if isinstance(side, Command):
            return _Command(side)
        if not isinstance(side, Separate):
            return _Within(side)
        return _Within(side.make(*side.arguments)) if self.options.within else _Process(side)


@contextlib.contextmanager
def bench(description: str | None, *positional: str, **defaults: Any) -> Iterator[Bench]:
    """Read the options, print the machine, and give a folder that is empty unless --keep names one.

    Args:
        positional: names of arguments; a first / means a path; a last ?, * or + how many there may be.
        defaults: option -> default, whose type is the type of the option. A type: no default. False: a switch. A tuple or
            mapping: some of these names, between commas, by default all.
    """
    chosen = _options(description, positional, {"rounds": 3, "threads": CORES, **defaults})
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[name] = str(chosen.threads)  # of the processes that are started
    os.environ |= {"TOKENIZERS_PARALLELISM": "true", "TQDM_DISABLE": "1", "TRL_EXPERIMENTAL_SILENCE": "1"}
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(chosen.threads)
    print(f"{machine()}, {chosen.threads} threads", flush=True)
    with tempfile.TemporaryDirectory() as scratch:
        folder = chosen.keep or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        yield Bench(chosen, folder.resolve())


def _options(description: str | None, positional: Sequence[str], defaults: Mapping[str, Any]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in positional:
        count = name[-1] if name[-1] in "?*+" else None
        parser.add_argument(name.strip("/?*+"), nargs=count, type=Path if name[0] == "/" else str)
    for name, default in defaults.items():
        flag = f"--{name.replace('_', '-')}"
        if default is False:
            parser.add_argument(flag, action="store_true")
        elif isinstance(default, type):
            parser.add_argument(flag, type=default)
        elif isinstance(default, tuple | Mapping):
            parser.add_argument(flag, type=_some_of(default), default=[*default], help=f"of {','.join(default)}")
        else:
            parser.add_argument(flag, type=type(default), default=default, help="default: %(default)s")
    parser.add_argument("--keep", type=Path, help="directory for what is made; what is there is not made again")
    parser.add_argument("--within", action="store_true", help="all sides in this process, to try the script")
    return parser.parse_args()


def _some_of(names: Sequence[str] | Mapping[str, Any]) -> Callable[[str], list[str]]:
    def chosen(text: str) -> list[str]:
        wrong = [name for name in text.split(",") if name not in names]
        if wrong:
            raise argparse.ArgumentTypeError(f"unknown {', '.join(wrong)}, expected {', '.join(names)}")
        return text.split(",")

    return chosen


def report(
    title: str, unit: str, rows: Mapping[str, Sequence[float]], *, less: bool = False, check: str = ""
) -> dict[str, float]:
    """Print a table and record it: the median of measured speeds, the mean of figures of quality.

    Args:
        rows: the figures of each side, over rounds or seeds.
    """
    middle = statistics.mean if unit in records.NO_RATIOS else statistics.median
    medians = {name: middle(values) for name, values in rows.items()}
    ratios = {} if unit in records.NO_RATIOS else records.ratios(medians, less)
    print(f"\n{title} ({unit})")
    for name, values in rows.items():
        ratio = f"   nlptools is {ratios[name]:.2f}x" if name in ratios else ""
        print(f"  {name:<50} {medians[name]:>12,.5g}   {min(values):>12,.5g} .. {max(values):<12,.5g}{ratio}")
    print(f"  {check}" if check else "", flush=True)
    ranges = {name: (min(values), max(values)) for name, values in rows.items()}
    count = max(map(len, rows.values()))
    records.record(title, unit, medians, less=less, ranges=ranges, rounds=count, check=check)
    return medians


# -- sides that run ---------------------------------------------------------------------------------------------------


class _Within:
    """A job in this process."""

    def __init__(self, job: Job) -> None:
        self.job, self.last = job, None

    def measure(self, unit: str) -> float:
        begin = time.perf_counter()
        done = self.job()
        torch = sys.modules.get("torch")
        if torch is not None and torch.cuda.is_available():
            torch.cuda.synchronize()
        seconds = time.perf_counter() - begin
        amount, self.last = done if isinstance(done, tuple) else (done, None)
        return amount if isinstance(amount, Speed) else _figure(unit, amount, seconds)

    def result(self) -> Any:
        return self.last

    def peak(self) -> float:
        return _status("VmHWM")

    def close(self) -> None:
        """Nothing is open."""


_END = 10.0  # seconds that a side may take to end
_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG: sent to a process when its parent dies


class _Process:
    """A job in a process of its own, which answers until the pipe is closed."""

    def __init__(self, side: Separate) -> None:
        spawn = multiprocessing.get_context("spawn")
        self.pipe, theirs = spawn.Pipe()
        self.process = spawn.Process(target=_serve, args=(theirs, side), daemon=True)
        self.process.start()
        theirs.close()
        self.name = side.make.__name__

    def ask(self, question: str, *arguments: Any) -> Any:
        try:
            self.pipe.send((question, arguments))
            return self.pipe.recv()
        except (EOFError, OSError):
            raise SystemExit(f"the side {self.name} died") from None

    def measure(self, unit: str) -> float:
        return float(self.ask("measure", unit))

    def result(self) -> Any:
        return self.ask("result")

    def peak(self) -> float:
        return float(self.ask("peak"))

    def close(self) -> None:
        self.pipe.close()
        self.process.join(_END)
        self.process.kill()  # it computes: the script was interrupted


def _serve(pipe: Any, side: Separate) -> None:
    with contextlib.suppress(AttributeError):  # Linux: it would otherwise go on beside the next script
        ctypes.CDLL(None).prctl(_DEATH_SIGNAL, signal.SIGKILL)
    multiprocessing.current_process()._config["daemon"] = False  # type: ignore[attr-defined]  # a job may start processes
    within = _Within(side.make(*side.arguments))
    before = _status("VmRSS")
    with contextlib.suppress(EOFError):
        while True:
            question, arguments = pipe.recv()
            answer = getattr(within, question)(*arguments)
            pipe.send(answer - before if question == "peak" else answer)


class _Command:
    """A process that does the job from its start to its end.

    Linux counts the memory that the parent has when it starts a child as the child's; so a process that holds next to nothing
    starts the command, and times it.
    """

    STARTER = """
import json, os, sys, time
begin = time.perf_counter()
stdin, out = os.open(sys.argv[1], os.O_RDONLY), os.open(sys.argv[2], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
actions = [(os.POSIX_SPAWN_DUP2, stdin, 0), (os.POSIX_SPAWN_DUP2, out, 1)]
_, status, usage = os.wait4(os.posix_spawnp(sys.argv[3], sys.argv[3:], os.environ, file_actions=actions), 0)
print(json.dumps([status, time.perf_counter() - begin, usage.ru_maxrss / 1024]))
"""

    def __init__(self, command: Command) -> None:
        self.command, self.most = command, 0.0

    def measure(self, unit: str) -> float:
        files = (str(self.command.stdin or os.devnull), str(self.command.output or os.devnull))
        words = [sys.executable, "-S", "-c", self.STARTER, *files, *map(str, self.command.words)]
        done = subprocess.run(words, capture_output=True, text=True, check=True)
        status, seconds, megabytes = json.loads(done.stdout)
        if status:
            raise SystemExit(f"failed: {' '.join(map(str, self.command.words))}\n{done.stderr[-2000:]}")
        self.most = max(self.most, megabytes)
        return _figure(unit, self.command.amount, seconds)

    def result(self) -> Any:
        return None if self.command.output is None else self.command.output.read_text(encoding="utf-8")

    def peak(self) -> float:
        return self.most

    def close(self) -> None:
        """The process has ended."""


def _figure(unit: str, amount: float, seconds: float) -> float:
    return {"ms": 1000 * seconds, "s": seconds}.get(unit, (amount or 0) / seconds)


def _status(field: str) -> float:
    """A figure of /proc/self/status in MiB: VmRSS is the memory now, VmHWM the most so far."""
    rows = Path("/proc/self/status").read_text().split("\n")
    return next(int(row.split()[1]) for row in rows if row.startswith(f"{field}:")) / 1024


# -- commands and data ------------------------------------------------------------------------------------------------


def nlptools(*arguments: object, stdin: Path | str | None = None, stdout: Path | None = None) -> str:
    """Run a command, and show it; returns its standard output. Ends the program on errors.

    Args:
        stdin: a file, or text; None: nothing.
        stdout: a file for what it writes, which is then not returned.
    """
    files = [f"< {stdin}"] if isinstance(stdin, Path) else [], [f"> {stdout}"] if stdout else []
    print("  $ nlptools", *arguments, *files[0], *files[1], flush=True)
    given = stdin.read_bytes() if isinstance(stdin, Path) else (stdin or "").encode()
    done = subprocess.run(ours(*arguments), input=given, stdout=subprocess.PIPE)
    if done.returncode not in (0, STOPPED):
        raise SystemExit(f"nlptools {arguments[0]} ended with status {done.returncode}")
    if done.returncode == STOPPED:
        print("  stopped before its time; the following figures are of the best model until then")
    if stdout is None:
        return done.stdout.decode()
    stdout.write_bytes(done.stdout)
    return ""


def trained(folder: Path, command: str, *arguments: object) -> dict[str, Any]:
    """The metrics of a training command with `folder` as its output, which is run or continued unless it has finished."""
    record = folder / "training.json"
    if not record.exists() or json.loads(record.read_text(encoding="utf-8"))["status"] != "finished":
        nlptools(command, "-q", "-o", folder, *arguments)
    metrics: dict[str, Any] = json.loads(record.read_text(encoding="utf-8"))["metrics"]
    return metrics


def logged(folder: Path, kind: str) -> list[dict[str, Any]]:
    """The rows of a kind in the log of a training."""
    rows = map(json.loads, (folder / "log.jsonl").read_text(encoding="utf-8").splitlines())
    return [row for row in rows if row["kind"] == kind]


def write(path: Path, rows: Sequence[object]) -> Path:
    """Write lines, objects as JSON; returns the path."""
    lines = (row if isinstance(row, str) else json.dumps(row) for row in rows)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def read(path: Path) -> list[str]:
    """The lines of a file."""
    return path.read_text(encoding="utf-8").removesuffix("\n").split("\n")


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
    row = records.machine()
    versions = ", ".join(f"{name} {row['versions'][name]}" for name in ("python", "torch") if name in row["versions"])
    gpu = f", {row['gpu']}" if "gpu" in row else ""
    return f"{row['processor']}, {row['cores']} cores, {row['units']}{gpu}; {versions}, commit {row['commit']}"
