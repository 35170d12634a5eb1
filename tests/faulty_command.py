"""A command to which something happens at a stage of its work; with its other arguments it is `nlptools`.

    python faulty_command.py FAULT STAGE MARK ARG...    writes the file MARK when it happens

The disk is full from then on for every write of the process, by the limit on the size of files: the status, the message and
what is left are those of a full disk, and no write of a library escapes it.
"""

from __future__ import annotations

import os
import resource
import runpy
import signal
import subprocess
import sys
from collections.abc import Callable
from functools import reduce
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

SIGNALS = {"INT": signal.SIGINT, "TERM": signal.SIGTERM, "USR1": signal.SIGUSR1, "KILL": signal.SIGKILL}
FAULTS = (*SIGNALS, "STOP", "closed stderr", "disk full", "NaN", "memory")
_ENGINE, _VECTORS = "nlptools.training.engine", "nlptools.training.word_vectors"


class Place(NamedTuple):
    """The `call`th call of a function, of those whose first argument is so named."""

    module: str
    function: str
    call: int = 1
    of: Callable[[str], bool] = lambda name: True


def _checkpoint(name: str) -> bool:
    return "/.tmp-" in name


def _model(name: str) -> bool:
    return "/checkpoints/" not in name


STAGES = {
    "start": (Place(f"{_ENGINE}.run_directory", "previous"), Place("nlptools.training.static_vectors", "load")),
    "spool": (Place(f"{_ENGINE}.lifecycle", "run"),),  # while the trainer reads, see `while_reading`
    "step": (
        Place(f"{_ENGINE}.steps", "Fit._accumulate", 3),
        Place(f"{_VECTORS}.epochs", "Epochs._look", 2),
        Place("nlptools.training.ngrams.counting", "count"),
        Place("nlptools.training.static_vectors", "token_vectors"),
    ),
    "evaluation": (
        Place(f"{_ENGINE}.loop", "_Loop._measure", 2),
        Place(f"{_VECTORS}.trainer", "Trainer.held_out", 2),
        Place(f"{_VECTORS}.glove", "Glove.held_out", 2),
        Place("nlptools.training.ngrams.train", "total_score"),
    ),
    "save": (Place("nlptools.files.artifacts", "save_tensors", 4, _checkpoint),),
    "prune": (Place("shutil", "rmtree", 1, lambda name: "/.tmp-old-" in name),),
    "export": (
        Place("nlptools.files.artifacts", "write_manifest", 1, _model),
        Place("nlptools.vectors.files.directory", "write_manifest", 1, _model),
    ),
}


def wrap(place: Place, happen: Callable[[str, Any], None]) -> None:
    """Call `happen` at this place, with the name of the function and its first argument."""
    *owners, name = place.function.split(".")
    owner = reduce(getattr, owners, import_module(place.module))
    real, calls = getattr(owner, name), 0

    def call(*args: Any, **kwargs: Any) -> Any:
        nonlocal calls
        calls += place.of(str(args[0]) if args else "")
        if calls == place.call and place.of(str(args[0])):
            happen(name, args[0])
        return real(*args, **kwargs)

    setattr(owner, name, call)


def while_reading(trainer: Any, happen: Callable[[], None]) -> None:
    """Call `happen` when the trainer has read a part: before it opens a file for writing, or else at the end."""
    kind, reads = type(trainer), False
    real = kind.read

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal reads
        if reads and event == "open" and arguments[2] & (os.O_WRONLY | os.O_RDWR):
            reads = False
            happen()

    def read(*args: Any) -> Any:
        nonlocal reads
        reads = True
        data = real(*args)
        reads = False
        happen()
        return data

    kind.read = read
    sys.addaudithook(watch)


def happen(fault: str, mark: Path, function: str, given: Any) -> None:
    if mark.exists():
        return
    mark.touch()
    if fault in SIGNALS:
        os.kill(os.getpid(), SIGNALS[fault])
    elif fault == "STOP":
        with subprocess.Popen(["sh", "-c", f"while sleep .02; do kill -CONT {os.getpid()}; done"]) as helper:
            os.kill(os.getpid(), signal.SIGSTOP)
            helper.kill()
    elif fault == "closed stderr":
        reader, writer = os.pipe()
        os.close(reader)
        os.dup2(writer, 2)
    elif fault == "disk full":
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
    elif fault == "memory":
        raise MemoryError
    elif function == "_accumulate":
        given.forward = _once(given, "forward")
    elif function == "_measure":
        given.evaluate = _once(given, "evaluate")
    elif function == "_look":
        for table in given.tables.values():
            table.fill_(float("nan"))


def _once(owner: Any, name: str) -> Callable[..., dict[str, Any]]:
    """The function with NaN as each of its numbers, for one call."""
    real = getattr(owner, name)

    def call(*args: Any) -> dict[str, Any]:
        setattr(owner, name, real)
        return {key: value * float("nan") for key, value in real(*args).items()}

    return call


def main() -> None:
    fault, stage, mark, *arguments = sys.argv[1:]

    def now(function: str = "", given: Any = None) -> None:
        happen(fault, Path(mark), function, given)

    for place in STAGES[stage]:
        wrap(place, now if stage != "spool" else lambda _, trainer: while_reading(trainer, now))
    sys.argv = ["nlptools", *arguments]
    runpy.run_module("nlptools", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
