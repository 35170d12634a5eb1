"""Toy runs that stop after a chosen number of steps, in this process, and all that a run ends with."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from conftest import within
from running import rows
from toy_trainers import TASKS, TRAINERS

from nlptools.training.engine.steps import Fit
from nlptools.training.engine.stop import Stop
from nlptools.training.word_vectors.epochs import Epochs

WITHOUT_CHECKPOINTS = ("train-lm ngram", "distill-static")
RUNS = {name: run for name, run in {**TRAINERS, **TASKS}.items() if name not in WITHOUT_CHECKPOINTS}


def command(name: str, output: Path, steps: int = 10) -> list[str]:
    """`steps`: optimizer steps; of word vectors, epochs."""
    run = RUNS[name].replace("--steps 10", f"--steps {steps}")
    return [*shlex.split(run if steps == 10 else run.replace("--epochs 4", f"--epochs {steps}")), "-o", output.name]


def stopped(place: Path, name: str, after: int = 4, steps: int = 10) -> Path:
    """The directory of a run that a signal stopped after its `after`th step."""
    with pytest.MonkeyPatch.context() as patch:
        done_steps = []

        def requested(stop: Stop) -> bool:
            stop.reason = "SIGTERM" if len(done_steps) >= after else None
            return stop.reason is not None

        for kind, step in ((Fit, "step"), (Epochs, "_look")):
            real = getattr(kind, step)
            patch.setattr(kind, step, lambda *args, real=real: (done_steps.append(1), real(*args))[1])
        patch.setattr(Stop, "requested", property(requested))
        done = within(place, *command(name, place / "stopped", steps))
    assert done.code == 75, (after, done.code, done.err)
    return place / "stopped"


def end(run: Path) -> Any:
    """All that a run ends with, besides times and the checkpoint before the last one: it may be of the step where it stopped."""
    log = [{key: row[key] for key in row if key != "time" and "second" not in key} for row in rows(run)]
    record = json.loads((run / "training.json").read_text())
    metrics = {key: value for key, value in record["metrics"].items() if key != "seconds"}
    checkpoints = sorted(run.glob("checkpoints/step-*"))
    last = checkpoints[-1]
    state = json.loads((last / "state.json").read_text())
    for times in (state, state.get("progress", {})):
        times.pop("seconds", None)
    files = [path for place in (run, last) for path in place.iterdir() if path.suffix in (".safetensors", ".npy")]
    arrays = {str(path): path.read_bytes() for path in files}
    return log, metrics, record.get("weights_of_steps"), len(checkpoints), last, state, arrays
