"""Each entry of a checkpoint is needed: without it a continued run is refused, or ends in another way than an undisturbed one."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import Record, this_month, within
from safetensors.torch import save_file
from stopped_toys import RUNS, command, end, stopped
from tiny_models import tiny
from toy_trainers import data

from nlptools.batches.windows import ShuffledWindows
from nlptools.compute.backend import Backend
from nlptools.configs import Training
from nlptools.corpora.token_file import Corpus, TextCounts
from nlptools.files import artifacts
from nlptools.training.engine.checkpoint import Checkpoints
from nlptools.training.engine.progress import RunProgress
from nlptools.training.engine.steps import Fit
from nlptools.training.objectives import CausalLM


def entries(checkpoint: Path) -> Iterator[tuple[str, ...]]:
    """(file, key, ...) of each entry of a checkpoint; the tensors of an optimizer or a model once for each kind."""
    state = json.loads((checkpoint / "state.json").read_text())
    for key, value in state.items():
        inner = {"progress": {"step": 1, "tokens": 1}}.get(key, value)  # the others: `test_the_counters_come_back`
        if isinstance(inner, dict):  # an empty value is not missed
            yield from (("state.json", key, each) for each, held in inner.items() if held not in (None, {}))
        elif key not in ("seconds", "loss"):  # of word vectors: for messages
            yield "state.json", key
    for file in ("weights.safetensors", "state.safetensors"):
        names = {}
        for name in artifacts.load_tensors(checkpoint / file):
            names.setdefault(name.split(".")[1] if name.startswith("optimizer.") else name, name)
        kinds = list(names.values())
        yield from ((file, name) for name in (kinds if file.startswith("state") else kinds[:2]))


def drop(checkpoint: Path, file: str, *keys: str) -> None:
    """Remove an entry, and write a manifest that agrees."""
    path = checkpoint / file
    if path.suffix == ".json":
        state: dict[str, Any] = json.loads(path.read_text())
        inner = state
        for key in keys[:-1]:
            inner = inner[key]
        del inner[keys[-1]]
        path.write_text(json.dumps(state))
    else:
        tensors = artifacts.load_tensors(path)
        del tensors[keys[0]]
        save_file(tensors, path)
    artifacts.write_manifest(checkpoint, [each.name for each in checkpoint.iterdir() if each.name != "manifest.json"])


NAMES = [pytest.param(name, marks=() if name == "train-lm lstm" else pytest.mark.slow) for name in RUNS]


@pytest.mark.parametrize("name", NAMES)
def test_an_entry_that_is_dropped_is_missed(tmp_path: Path, name: str, record_property: Record) -> None:
    data(tmp_path)
    run = stopped(tmp_path, name)
    kept, last = tmp_path / "kept", sorted(run.glob("checkpoints/step-*"))[-1].name
    run.rename(kept)

    def ends(*dropped: str) -> Any:
        shutil.rmtree(run, ignore_errors=True)
        shutil.copytree(kept, run)
        if dropped:
            drop(run / "checkpoints" / last, *dropped)
        done = within(tmp_path, *command(name, run))
        assert done.code in (0, 78) and "Traceback" not in done.err, (dropped, done.err)
        return end(run) if done.code == 0 else done.code

    whole = ends()
    assert whole == ends(), "the same run ends in the same way"
    every = list(entries(kept / "checkpoints" / last))
    assert len(every) > 3
    tried = this_month(every, 8)
    record_property("count", len(tried))
    unnoticed = [entry for entry in tried if ends(*entry) == whole]
    assert not unnoticed


def toy(place: Path) -> Fit:
    ids = np.arange(2, 40).astype("uint16")
    source = ShuffledWindows(Corpus(place / "ids", ids, TextCounts(tokens=37), ""), 8, 4, seed=1)
    run = Training(output="", steps=4, batch_size=4)
    return Fit(CausalLM(tiny("transformer")), source, Backend(torch.device("cpu")), run, None)


def test_the_counters_come_back(tmp_path: Path) -> None:
    """Each field of `RunProgress`, with a value of its own."""
    values = {
        "int": 3,
        "float": 0.25,
        "float | None": 0.5,
        "dict[str, float]": {"loss": 0.5},
        "list[int]": [2],
        "bool": True,
    }
    progress = RunProgress(**{field.name: values[str(field.type)] for field in fields(RunProgress)})
    assert all(getattr(progress, field.name) != getattr(RunProgress(), field.name) for field in fields(RunProgress))
    before, checkpoints = toy(tmp_path), Checkpoints(tmp_path, keep=2)
    before.checkpoints, before.progress = checkpoints, progress
    before.save()
    after = toy(tmp_path)
    last = checkpoints.load_last()
    assert last is not None
    after.restore(*last)
    assert after.progress == progress
