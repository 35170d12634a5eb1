"""The 20 faults, each with the rule that says what is kept. A fault is a row: its name, and a function of the trial."""

from __future__ import annotations

import os
import pickle
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.reliability import verdicts
from benchmarks.reliability.damages import Canary
from benchmarks.reliability.servers import End, Process
from benchmarks.reliability.trials import Bench

SIZE = 32  # of the models that are saved: their weights are the largest files
SECOND = {"seed": 2, "size": 2 * SIZE}  # a later result, in a larger file
PATIENCE = 100.0  # seconds until a training must be at work
WEIGHTS = ("*.safetensors", "*.bin", "*.pt", "*.npy")
Verdict = tuple[str, str]


@dataclass(frozen=True)
class Fault:
    """A fault.

    Attributes:
        name: what happens.
        needs: "train", "save" or "write": what a tool must do to meet it.
        happens: makes it happen in the directory of a cell, and returns the verdict.
    """

    name: str
    needs: str
    happens: Callable[[Trial], Verdict]

    def verdict(self, bench: Bench) -> Verdict:
        """The verdict on a tool, or why it has none."""
        if not {"train": bench.tool.trains, "save": bench.tool.saves, "write": bench.tool.writes}[self.needs]:
            return "-", bench.tool.unfaulted
        trial = Trial(bench)
        try:
            return self.happens(trial)
        finally:
            trial.clear()


class Trial:
    """The directory of a cell, and the training or saving of the tool in it; results are in the directory `out`."""

    def __init__(self, bench: Bench) -> None:
        self.bench, self.place = bench, bench.fresh()
        self.out = self.place / "out"

    def clear(self) -> None:
        shutil.rmtree(self.place, ignore_errors=True)

    def start(
        self, part: str, how: dict[str, Any] | None = None, place: Path | None = None, **arguments: Any
    ) -> Process:
        (self.place / "middle").unlink(missing_ok=True)
        return self.bench.server.start(self.bench.request(part, place or self.place, arguments, **(how or {})))

    def run(self, part: str, how: dict[str, Any] | None = None, **arguments: Any) -> End:
        return self.start(part, how, **arguments).end()

    def middle(self, process: Process) -> None:
        """Wait until a training is in the middle, and has saved something if it does so on the way."""
        until = time.monotonic() + PATIENCE
        while process.alive() and time.monotonic() < until:
            if (self.place / "middle").exists() or len([*self.out.glob("checkpoints/*/manifest.json")]) >= 2:
                return
            time.sleep(0.02)
        raise SystemExit(f"{self.bench.name}: no training that could be stopped: {process.end(1).err}")

    def save(self) -> str:
        """An earlier result in `out`; return its digest."""
        end = self.run("save", file="out", size=SIZE)
        assert end.status == 0, end.err
        return self.saved()

    def saved(self) -> str:
        """The digest of what is in `out`, as the tool itself loads it; "": it does not."""
        end = self.run(self.bench.tool.reads["model"], file="out")
        return str((end.result or {}).get("digest", "")) if end.status == 0 else ""

    def trained(self) -> dict[str, Any]:
        """What the tool loads as the result of its training; {}: it does not."""
        end = self.run(f"{self.bench.tool.trains}_verify")
        return (end.result or {}) if end.status == 0 else {}

    def undisturbed(self) -> dict[str, Any]:
        """The result of a training that nothing disturbs, made once."""
        if self.bench.whole is None:
            other = Trial(self.bench)
            end = other.run("train")
            assert end.status == 0, end.err
            self.bench.whole = other.trained()
            assert self.bench.whole, "the result of the training does not load"
            other.clear()
        return self.bench.whole

    def equal(self, end: End) -> Verdict:
        """The verdict on a training that has come to its end: its result must be that of one that nothing disturbed."""
        found = self.trained()
        said = verdicts.note(end)
        if end.executed:
            return "executed", said
        if end.late:
            return "hang", said
        return ("kept" if found == self.undisturbed() else "corrupt" if found else "lost"), said


def stopped(number: int, times: int = 1) -> Callable[[Trial], Verdict]:
    """A signal in the middle of a training, once or twice; then it goes on."""

    def happens(trial: Trial) -> Verdict:
        trial.undisturbed()
        end = None
        for i in range(times):
            process = trial.start("train", again=i > 0)
            trial.middle(process)
            process.send(number)
            end = process.end()
            if not trial.bench.tool.resumes:
                return "no resume", verdicts.note(end)
        again = trial.run("train", again=True)
        found, said = trial.equal(again)
        return found, said if found != "kept" or end is None else verdicts.note(end)

    return happens


def paused(trial: Trial) -> Verdict:
    """STOP, and CONT after a moment."""
    trial.undisturbed()
    process = trial.start("train")
    trial.middle(process)
    process.send(signal.SIGSTOP)
    time.sleep(0.5)
    process.send(signal.SIGCONT)
    return trial.equal(process.end())


def after_save(trial: Trial, earlier: str, end: End) -> Verdict:
    """The verdict on `out` after a save that a fault met: the earlier result, or the whole new one if it says so."""
    now, said = trial.saved(), verdicts.note(end)
    if not now:
        return "lost", said
    if now == earlier:
        return ("kept" if end.status else "lost"), said  # a save that did not happen must not look like one that did
    whole = Trial(trial.bench)
    whole.run("save", file="out", **SECOND)
    same = whole.saved() == now
    whole.clear()
    return ("kept" if same else "corrupt"), said


def limited(killed: bool) -> Callable[[Trial], Verdict]:
    """The largest file of a save ends in its middle: the process is killed there, or the write fails."""

    def happens(trial: Trial) -> Verdict:
        earlier = trial.save()
        largest = max(path.stat().st_size for path in trial.out.rglob("*") if path.is_file())
        how = {"largest": largest + largest // 4, "killed": killed}
        return after_save(trial, earlier, trial.run("save", how, file="out", **SECOND))

    return happens


def disk_full(trial: Trial) -> Verdict:
    """The disk of the result is full when a second, larger result is saved."""
    trial.out.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(trial.out)]
    if os.geteuid() or subprocess.run(mount, capture_output=True).returncode:
        return "-", "needs root, to mount a small disk"
    try:
        end = trial.run("save", file="out/result", size=SIZE)
        assert end.status == 0, end.err
        read = trial.bench.tool.reads["model"]
        earlier = trial.run(read, file="out/result").result
        free = os.statvfs(trial.out)
        (trial.out / "filler").write_bytes(bytes(max(0, free.f_bavail * free.f_frsize - 8192)))
        end = trial.run("save", file="out/result", **SECOND)
        said = verdicts.note(end)
        (trial.out / "filler").unlink()
        now = trial.run(read, file="out/result")
        if now.status or now.result is None:
            return "lost", said
        return ("kept" if now.result == earlier and end.status else "corrupt"), said
    finally:
        subprocess.run(["umount", "-l", str(trial.out)], check=False)


def file_in_the_way(trial: Trial) -> Verdict:
    """A file stands where the directory of the result should be."""
    trial.out.write_text("keep me")
    end = trial.run("save", file="out", size=SIZE)
    kept = trial.out.is_file() and trial.out.read_text() == "keep me"
    return ("kept" if kept and end.status else "lost"), verdicts.note(end)


def exists(trial: Trial) -> Verdict:
    """Another training with the same directory as one that has ended."""
    first = trial.run("train")
    assert first.status == 0, first.err
    earlier = trial.trained()
    end = trial.run("train", seed=2)
    return ("kept" if trial.trained() == earlier else "lost"), verdicts.note(end)


def two_at_once(trial: Trial) -> Verdict:
    """A second training in the same directory, while the first is at work."""
    trial.undisturbed()
    process = trial.start("train")
    trial.middle(process)
    other = trial.place / "other"
    other.mkdir()
    for name in ("text.txt", "words.tsv"):
        if (trial.place / name).exists():
            shutil.copy(trial.place / name, other)
    (other / "out").symlink_to(trial.out)
    second = trial.start("train", place=other, seed=2).end()
    end = process.end()
    found = trial.trained()
    said = verdicts.note(second)
    if found == trial.undisturbed() and end.status == 0 and second.status:
        return "kept", said
    return ("lost" if found else "corrupt"), said


def diverged(trial: Trial) -> Verdict:
    """A learning rate of 10^12: gradients and weights are soon not finite."""
    end = trial.run("train", diverge=True)
    found = trial.trained()
    bad = end.status == 0 and not found.get("finite", False)
    return ("corrupt" if bad else "hang" if end.late else "kept"), verdicts.note(end)


def damaged(change: Callable[[list[Path]], object]) -> Callable[[Trial], Verdict]:
    """The last checkpoint of a training that was killed is damaged; then the training goes on."""

    def happens(trial: Trial) -> Verdict:
        if not trial.bench.tool.resumes:
            return "no resume", "saves no state of the training"
        trial.undisturbed()
        process = trial.start("train")
        trial.middle(process)
        process.send(signal.SIGKILL)
        process.end()
        last = max(trial.out.glob("**/*-[0-9]*"), key=lambda path: (path.is_dir(), int(path.name.rpartition("-")[2])))
        change(sorted(path for pattern in WEIGHTS for path in last.glob(pattern)))
        again = trial.run("train", again=True)
        if again.status > 0 and not again.executed:
            return "kept", verdicts.note(again)  # it says so, and has touched nothing
        return trial.equal(again)

    return happens


def cut(files: list[Path]) -> None:
    for file in files:
        os.truncate(file, file.stat().st_size // 2)


def flipped(files: list[Path]) -> None:
    """A bit of a weight, in the largest file."""
    file = next((each for each in files if each.name in ("model.safetensors", "weights.safetensors")), files[0])
    content = bytearray(file.read_bytes())
    content[-(len(content) // 16 * 4) + 3] ^= 0x10
    file.write_bytes(content)


def missing(files: list[Path]) -> None:
    """The state of the optimizer."""
    next(file for file in files if file.name.startswith(("optimizer", "state", "output"))).unlink()


def pickled(files: list[Path]) -> None:
    next(file for file in files if file.name.startswith(("optimizer", "state", "output"))).write_bytes(
        pickle.dumps(Canary())
    )


def output(kind: str) -> Callable[[Trial], Verdict]:
    """The output that a program writes cannot be written."""

    def happens(trial: Trial) -> Verdict:
        (trial.place / "input.txt").write_text(trial.bench.text * 10)
        (trial.place / "reference.txt").write_text(trial.bench.text * 10)
        end = trial.run(trial.bench.tool.writes, {"stdout": kind}, file="input.txt")
        said = verdicts.note(end)
        if kind == "pipe":  # the reader wants no more: no harm, but it is to end
            return ("hang" if end.late else "kept"), said
        return ("kept" if end.status else "lost"), said

    return happens


def orphans(trial: Trial) -> Verdict:
    """KILL to a training with a second process or thread."""
    process = trial.start("train", workers=2)
    trial.middle(process)
    process.send(signal.SIGKILL)
    end = process.end()
    time.sleep(5)
    left = process.left()
    for each in left:
        os.kill(each, signal.SIGKILL)
    return ("orphan" if left else "kept"), verdicts.note(end)


FAULTS = (
    Fault("INT in training", "train", stopped(signal.SIGINT)),
    Fault("TERM in training", "train", stopped(signal.SIGTERM)),
    Fault("KILL in training", "train", stopped(signal.SIGKILL)),
    Fault("KILL twice in training", "train", stopped(signal.SIGKILL, 2)),
    Fault("STOP and CONT in training", "train", paused),
    Fault("KILL in a save", "save", limited(True)),
    Fault("file size limit in a save", "save", limited(False)),
    Fault("disk full in a save", "save", disk_full),
    Fault("a file in place of the directory", "save", file_in_the_way),
    Fault("training into an earlier result", "train", exists),
    Fault("two trainings in a directory", "train", two_at_once),
    Fault("NaN in training", "train", diverged),
    Fault("checkpoint cut", "train", damaged(cut)),
    Fault("checkpoint: a bit flipped", "train", damaged(flipped)),
    Fault("checkpoint without optimizer", "train", damaged(missing)),
    Fault("checkpoint: pickle with code", "train", damaged(pickled)),
    Fault("stdout closed", "write", output("closed")),
    Fault("stdout is a full disk", "write", output("full")),
    Fault("reader of stdout ends", "write", output("pipe")),
    Fault("KILL with data workers", "train", orphans),
)
