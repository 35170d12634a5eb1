"""Every fault at every stage of every training command: the status, what is left, and the model after the same command again.

`bin/test --all` runs the whole matrix; `bin/test` two cells of one command, which change with the month.
"""

from __future__ import annotations

import os
import shlex
import shutil
import time
from pathlib import Path
from random import Random

import numpy as np
import pytest
from conftest import Finished, Record, Run
from faulty_command import FAULTS, SIGNALS, STAGES
from toy_trainers import TASKS, TRAINERS, data

from nlptools.bundle import WEIGHTS_OF
from nlptools.cli import COMMANDS
from nlptools.configs.tasks import table
from nlptools.files import artifacts

PROGRAM = Path(__file__).parents[2] / "faulty_command.py"
STOPPABLE = ("step", "evaluation", "save", "prune")  # a signal is answered with a checkpoint
# Stages that a trainer does not have.
WITHOUT = {
    "train-lm ngram": ("save", "prune"),
    "train-ppo": ("evaluation",),
    "distill-static": ("spool", "evaluation", "save", "prune"),
}
NAN = ("step", "evaluation")  # stages at which numbers are computed
CHANGING = ("training.json", "log.jsonl", "manifest.json", "state.json")  # with times in them
RUNS = {**TRAINERS, **TASKS}
Cell = tuple[str, str, str]


def cells(*trainers: str) -> list[Cell]:
    """(trainer, stage, fault) of these trainers."""
    return [
        (trainer, stage, fault)
        for trainer in trainers
        for stage in STAGES
        for fault in FAULTS
        if stage not in WITHOUT.get(trainer, ()) and (fault != "NaN" or (stage in NAN and has_checkpoints(trainer)))
    ]


def has_checkpoints(trainer: str) -> bool:
    return "save" not in WITHOUT.get(trainer, ())


def status(trainer: str, stage: str, fault: str) -> int:
    """The exit status that the conventions promise; negative: the signal itself."""
    if fault in SIGNALS:
        stops = fault != "KILL" and stage in STOPPABLE and has_checkpoints(trainer)
        return 75 if stops else -SIGNALS[fault]
    if fault == "NaN" and stage == "step" and trainer.startswith("train-w2v"):
        return 3
    return {"disk full": 74, "memory": 70}.get(fault, 0)


def files(folder: Path) -> dict[str, bytes]:
    """The model, and the last checkpoint."""
    places = [folder, *sorted(folder.glob("checkpoints/step-*"))[-1:]]
    found = [path for place in places for path in place.iterdir() if path.is_file() and path.name not in CHANGING]
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


def hidden(place: Path) -> list[str]:
    """Temporary files."""
    found = [path for path in place.rglob(".*") if path.name != ".lock"]
    return sorted(str(path.relative_to(place)) for path in found)


class Matrix:
    """The runs of a test, in a place with their data; undisturbed ones are made once."""

    def __init__(self, place: Path, run: Run) -> None:
        self.place, self.run = place, run
        self.whole: dict[str, dict[str, bytes]] = {}
        data(place)
        (place / "out").mkdir()

    def undisturbed(self, trainer: str) -> dict[str, bytes]:
        if trainer not in self.whole:
            assert self._run(trainer).code == 0
            self.whole[trainer] = files(self.place / "out/run")
            self._clear()
        return self.whole[trainer]

    def _run(self, trainer: str, *before: str) -> Finished:
        return self.run(*before, *shlex.split(RUNS[trainer]), "-o", "out/run")

    def _clear(self) -> None:
        shutil.rmtree(self.place / "out")
        (self.place / "out").mkdir()

    def wrong(self, cell: Cell) -> str:
        """What is wrong in a cell; "" if nothing is."""
        trainer, stage, fault = cell
        whole, out = self.undisturbed(trainer), self.place / "out"
        mark = self.place / "mark"
        mark.unlink(missing_ok=True)
        done = self._run(trainer, str(PROGRAM), fault, stage, str(mark))
        problems = [] if mark.exists() else ["it did not happen"]
        problems += self._after(cell, done)
        again = self._run(trainer)
        if again.code != 0 or "Traceback" in again.err:
            problems.append(f"again: status {again.code}: {again.err[-300:]}")
        elif fault != "NaN" and (ends := files(out / "run")) != whole:
            different = sorted(name for name in whole.keys() | ends.keys() if whole.get(name) != ends.get(name))
            problems.append(f"another end: {different}")
        if hidden(out) or (out / "run/.lock").exists():
            problems.append(f"left at the end: {hidden(out)} {os.listdir(out)}")
        self._clear()
        return "; ".join(problems)

    def _after(self, cell: Cell, done: Finished) -> list[str]:
        """What is wrong after the fault."""
        trainer, stage, fault = cell
        problems, out = [], self.place / "out"
        if done.code != status(*cell):
            problems.append(f"status {done.code}, expected {status(*cell)}: {done.err[-300:]}")
        lines = [line for line in done.err.split("\n") if line.startswith(f"nlptools {trainer.split()[0]}: ")]
        said = [line for line in lines if ": warning: " not in line]
        if "Traceback" in done.err or (done.code > 0 and len(said) != 1):
            problems.append(f"no message: {done.err[-300:]}")
        if fault == "NaN" and stage == "step" and done.code == 0 and "update skipped" not in done.err:
            problems.append("the step was not skipped")
        may_leave = fault == "KILL" or (fault, stage) == ("memory", "prune")  # there the removal itself fails
        if not may_leave and (hidden(out) or (done.code >= 0 and (out / "run/.lock").exists())):
            problems.append(f"left: {hidden(out)}")
        checkpoints = [*out.glob("run/checkpoints/step-*")]
        for path in checkpoints:
            if not artifacts.verify(path):
                problems.append(f"{path.name} is damaged")
        if stage in ("save", "prune") and not checkpoints:
            problems.append("no checkpoint")
        if done.code == 0:
            artifacts.verify(out / "run")
            record = artifacts.read_json(out / "run/training.json")
            if (fault, stage) == ("NaN", "evaluation") and record.get(WEIGHTS_OF) == [4]:
                problems.append("the validation that was not a number counts as the best")
            for path in out.glob("run/model.safetensors"):
                broken = [name for name, array in artifacts.load_arrays(path).items() if not np.isfinite(array).all()]
                problems += [f"{name} is not finite" for name in broken]
        return problems


def test_every_training_command_is_here() -> None:
    commands = [name for name, (section, _) in COMMANDS.items() if section == "Training"]
    assert sorted({name.split()[0] for name in TRAINERS}) == sorted(commands), "give the new trainer a toy run"
    tasks = {shlex.split(run)[2] for run in RUNS.values() if run.startswith("finetune")}
    assert tasks | {"reward"} == {*table.TASKS}, "give the new task a toy run"  # reward: train-reward


def test_some_cells(tmp_path: Path, fork: Run) -> None:
    matrix = Matrix(tmp_path, fork)
    month = Random(time.strftime("%Y-%m"))
    trainer = month.choice([*RUNS])  # one: its undisturbed run is needed as well
    chosen = month.sample(cells(trainer), 2)
    assert not [(cell, problem) for cell in chosen if (problem := matrix.wrong(cell))]


@pytest.mark.slow
@pytest.mark.parametrize("trainer", RUNS)
def test_all_cells(tmp_path: Path, fork: Run, trainer: str, record_property: Record) -> None:
    matrix = Matrix(tmp_path, fork)
    chosen = cells(trainer)
    wrong = [(*cell, problem) for cell in chosen if (problem := matrix.wrong(cell))]
    record_property("count", len(chosen))
    assert not wrong, "\n".join(map(str, wrong))
