"""The lifecycle of a training run, for every trainer: lock, compare with an earlier run, read, train, save, report.

A `RunTrainer` trains in one of three ways: in steps (`training.engine.job`), in chunks
(`training.word_vectors.train`) or in one pass (`training.ngrams.train`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol, Self, TypeVar

from nlptools import environment, messages
from nlptools.errors import UsageError, display
from nlptools.files import artifacts, atomic, directory_lock, replaced_run
from nlptools.files.json_fields import child
from nlptools.json_types import JsonObject
from nlptools.training.engine import run_directory, stop
from nlptools.training.engine.run_directory import RECORD, Record, RunData, RunSettings

D = TypeVar("D", bound=RunData)
R = TypeVar("R", bound="Outcome")


@dataclass(frozen=True)
class Outcome:
    """The result of training.

    Attributes:
        steps: the steps (or chunks) of the run so far.
        metrics: the object "metrics" of training.json.
        stopped: why training stopped early, e.g. "SIGTERM"; None: it is finished.
    """

    steps: int
    metrics: Mapping[str, object]
    stopped: str | None


class RunTrainer(Protocol[D, R]):
    """One way to train, for `run`, which calls the methods in this order."""

    @property
    def in_one_pass(self) -> bool:
        """Whether there are no checkpoints: files are temporary, and the output is written at the end."""

    def settings(self) -> RunSettings:
        """The settings of the run."""

    def read(self, place: Path) -> D:
        """Read the data into files of the directory `place`, or map the files that are there already."""

    def continuing(self, before: JsonObject) -> Self:
        """This trainer, to continue the run of the record `before`."""

    def describe(self) -> Mapping[str, object]:
        """Further entries of training.json."""

    def train(self, data: D, record: Record) -> R:
        """Train from the last checkpoint, or from the beginning. `record` is the content of training.json."""

    def save(self, outcome: R, record: Record) -> None:
        """Write the result, and `record` as training.json."""

    def report(self, outcome: R) -> None:
        """Show what was trained, and a command to try."""


def refuse_processes(what: str = "this training") -> None:
    """Raise UsageError if several processes were started, for training that runs in one."""
    processes = environment.ranks()[2]
    if processes > 1:
        raise UsageError(
            f"{what} runs in one process, but {processes} were started", hint="start it without torchrun or srun"
        )


def run(
    trainer: RunTrainer[D, R],
    directory: Path,
    *,
    resume: str,
    force: bool,
    invocation: Mapping[str, object] | None = None,
) -> R:
    """Train in `directory`, or continue the run that was stopped there. `invocation` goes into training.json.

    Raises:
        OutputError: the directory holds something else, or is locked.
        Stopped: with everything saved.
        Any error of the trainer. After an error before the first checkpoint, the directory has the run that was there before.
    """
    settings, force = trainer.settings(), force and resume != "must"
    with stop.despite_closed_pipes(), directory_lock.locked(directory), contextlib.ExitStack() as stack:
        settle = partial(replaced_run.settle, directory)
        settle()  # after a crash
        stack.callback(settle)
        stack.enter_context(atomic.before_end(settle))
        before = run_directory.previous(directory, resume, force, settings)
        if trainer.in_one_pass:
            data = trainer.read(stack.enter_context(atomic.scratch_beside(directory)))
        else:
            with run_directory.reading(directory, before) as place:
                data = trainer.read(place)
        if before is not None:
            if before.get("data_sha256") != data.digests():
                raise run_directory.other_text(directory)
            trainer = trainer.continuing(before)
        record = run_directory.record(before, data, settings, invocation or {}, trainer.describe())
        if not trainer.in_one_pass:
            artifacts.write_json(directory / RECORD, record)
        outcome = trainer.train(data, record)
        record.update(status="finished" if outcome.stopped is None else "stopped", metrics=outcome.metrics)
        trainer.save(outcome, record)
        replaced_run.drop(directory)
        if outcome.stopped is not None:
            raise run_directory.stopped(directory, outcome.stopped, outcome.steps, force)
        if before is not None and _is_finished(before, outcome.steps):
            messages.note(run_directory.FINISHED.format(display(str(directory))))
        trainer.report(outcome)
    return outcome


def _is_finished(before: JsonObject, steps: int) -> bool:
    """Whether the run of the record `before` was finished at `steps`. Only trainers in steps record their number."""
    return before["status"] == "finished" and child(before, "metrics", RECORD).get("steps", steps) == steps
