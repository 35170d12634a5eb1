"""Runs that version 0.1.0 stopped go on: `stopped/NAME` holds each with its text, as that version left it.

The argument vectors are those of `training.json`. A processor may round differently, so losses are compared, not weights;
except that the language model's best validation is before the stop, and its weights are in a stored checkpoint. It is recurrent,
and later versions read its text in random order: its steps after the stop are not those that 0.1.0 would have made.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from conftest import Run
from running import rows

from nlptools.files.artifacts import load_tensors
from nlptools.vectors.files.formats import load

STOPPED = Path(__file__).parent / "stopped"


def continued(call: Run, tmp_path: Path, name: str) -> Path:
    """The directory of a stopped run after its command is given again."""
    shutil.copytree(STOPPED / name, tmp_path, dirs_exist_ok=True)
    record = json.loads((tmp_path / "run/training.json").read_text())
    done = call(*record["invocation"]["argv"][1:])
    assert (done.code, done.err) == (0, "")
    return tmp_path / "run"


def test_train_lm(call: Run, tmp_path: Path) -> None:
    directory = continued(call, tmp_path, "lm")
    before = [row["time"] for row in rows(STOPPED / "lm/run")]
    assert [row["time"] for row in rows(directory)][: len(before)] == before, "steps 1 to 5 are not repeated"
    train = {row["step"]: row["loss"] for row in rows(directory, "train")}
    assert list(train) == list(range(1, 9))
    assert train[6] == pytest.approx(1.9480986595153809, rel=1e-4)
    assert train[8] == pytest.approx(2.2307939529418945, rel=1e-2)
    valid = {row["step"]: row["loss"] for row in rows(directory, "valid")}
    assert valid == pytest.approx({2: 2.051319146156311, 4: 2.08749, 6: 2.14617, 8: 2.19889}, rel=1e-2)
    record = json.loads((directory / "training.json").read_text())
    assert record["status"] == "finished" and record["metrics"]["steps"] == 8 and len(record["parts"]) == 2
    assert record["metrics"]["valid_loss"] == 2.051319146156311
    best = load_tensors(STOPPED / "lm/run/checkpoints/step-000002/weights.safetensors").values()
    weights = load_tensors(directory / "model.safetensors").values()
    for tensor in weights:
        assert any(tensor.shape == other.shape and bool((tensor == other).all()) for other in best)
    assert call("score", "run", "--per", "total", "valid.txt").code == 0


def test_train_w2v(call: Run, tmp_path: Path) -> None:
    directory = continued(call, tmp_path, "w2v")
    before = [row["time"] for row in rows(STOPPED / "w2v/run")]
    assert [row["time"] for row in rows(directory)][: len(before)] == before, "the first epoch is not repeated"
    losses = {row["step"]: row["loss"] for row in rows(directory, "train")}
    assert losses == pytest.approx({1: 2.079441547393799, 2: 2.079186943670114, 3: 2.0789784927325075}, rel=1e-6)
    record = json.loads((directory / "training.json").read_text())
    assert record["status"] == "finished" and record["metrics"]["words"] == 3 * 144
    vectors = load(tmp_path / "vectors.txt")
    assert vectors.words.list() == ["elk", "cow", "ant", "fox", "bee", "dog"]
    expected = [0.0649267435, -0.0591316409, -0.0227478445, 0.0632620826]
    assert vectors["elk"] == pytest.approx(expected, rel=1e-3)
