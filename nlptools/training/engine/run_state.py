"""The state of the run in a directory, for scripts: finished, to be continued, running, or damaged."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path

from nlptools.errors import BundleError, InputError, OutputError, Stopped, display
from nlptools.files import artifacts, directory_lock, replaced_run
from nlptools.training.engine import finished_files
from nlptools.training.engine.run_directory import RECORD


@dataclass(frozen=True)
class RunState:
    """The state of a run: as the exit status of a command, for scripts, and in words."""

    exit_code: int
    text: str


FINISHED = RunState(0, "finished")
STOPPED = RunState(Stopped.exit_code, "to be continued")
RUNNING = RunState(OutputError.exit_code, "running")


def run_state(output: str) -> RunState:
    """The state of the run with the output `output`: a run directory, or the file of word vectors that a run writes.

    Raises:
        InputError: there is no run.
        BundleError: the record, the model or every checkpoint is damaged.
    """
    directory = Path(output)
    if not directory.is_dir():
        directory = Path(f"{output}.run")  # holds a run that will write the file `output`
        if not directory.is_dir() and finished_files.recall(Path(output), directory) is not None:
            return FINISHED
    if directory_lock.is_locked(directory):
        return RUNNING
    with contextlib.suppress(BundleError):  # of a run that is to be continued
        replaced_run.restore(directory)
    if not (directory / RECORD).is_file():
        raise InputError(f"{display(output)}: holds no training run")
    status = artifacts.read_json(directory / RECORD).get("status")
    if status == "finished":
        artifacts.verify(directory)
        return FINISHED
    if status not in ("reading", "running", "stopped"):
        raise BundleError(f"{display(str(directory / RECORD))}: not the record of a training run")
    _check_checkpoints(directory / "checkpoints")
    return STOPPED


def _check_checkpoints(place: Path) -> None:
    """Raise BundleError if there are checkpoints, but no intact one: the run would begin anew."""
    errors = []
    for path in sorted(place.glob("step-*"), reverse=True):
        try:
            if artifacts.verify(path):
                return
        except BundleError as error:
            errors.append(error)
    if errors:
        raise errors[0]
