"""Runs that an earlier version has left: `stopped/NAME` holds each with its text; the arguments are in its `training.json`.

The earlier version stopped the language model (dropout 0.1) after step 5 of 8, and the word vectors after the first of three
epochs. Continued, they end as runs that were never stopped, bit for bit. Only where a processor rounds differently from the one
that wrote the checkpoints, the last digits differ.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from conftest import Run
from running import rows

from nlptools.files.artifacts import load_tensors
from nlptools.vectors.files.formats import load

STOPPED = Path(__file__).parent / "stopped"


def continued(call: Run, tmp_path: Path, name: str) -> list[str]:
    """Give the command of a run again, in a copy of its folder; returns the arguments without the output."""
    shutil.copytree(STOPPED / name, tmp_path, dirs_exist_ok=True)
    command = json.loads((tmp_path / "run/training.json").read_text())["invocation"]["argv"][1:]
    done = call(*command)
    assert done.code == 0, done.err
    return command


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor], exact: bool) -> bool:
    """Whether the tensors are equal, or equal but for rounding. The bias of keys has a gradient of 0, since softmax cancels it:
    Adam divides its rounding errors by their own size, so it is compared only where processors round alike.
    """
    if not exact:
        one, other = ({name: _without_keys(name, each) for name, each in tensors.items()} for tensors in (one, other))
    tolerance = {} if exact else {"rtol": 1e-4, "atol": 1e-6}
    equal = torch.equal if exact else torch.allclose
    return one.keys() == other.keys() and all(equal(one[name], other[name], **tolerance) for name in one)


def _without_keys(name: str, tensor: torch.Tensor) -> torch.Tensor:
    if not name.endswith(("query_key_value.bias", "c_attn.bias")):
        return tensor
    query, _, value = tensor.chunk(3)
    return torch.cat([query, value])


def test_train_lm(call: Run, tmp_path: Path) -> None:
    command = continued(call, tmp_path, "lm")
    before = [row["time"] for row in rows(STOPPED / "lm/run")]
    assert [row["time"] for row in rows(tmp_path / "run")][: len(before)] == before, "steps 1 to 5 are not repeated"
    record = json.loads((tmp_path / "run/training.json").read_text())
    assert record["status"] == "finished" and record["metrics"]["steps"] == 8 and len(record["parts"]) == 2
    assert call(*command, "--keep", 9, "-o", "whole").code == 0
    weights = "checkpoints/step-00000{}/weights.safetensors".format
    stored, ours = (load_tensors(place / weights(4)) for place in (STOPPED / "lm/run", tmp_path / "whole"))
    exact = same(stored, ours, exact=True)
    for file in (weights(8), weights(8).replace("weights", "state"), "model.safetensors"):
        assert same(load_tensors(tmp_path / "run" / file), load_tensors(tmp_path / "whole" / file), exact), file
    losses = [{row["step"]: row["loss"] for row in rows(tmp_path / name, "train")} for name in ("run", "whole")]
    assert losses[0] == (losses[1] if exact else pytest.approx(losses[1], rel=1e-4))


def test_train_w2v(call: Run, tmp_path: Path) -> None:
    command = continued(call, tmp_path, "w2v")
    before = [row["time"] for row in rows(STOPPED / "w2v/run")]
    assert [row["time"] for row in rows(tmp_path / "run")][: len(before)] == before, "the first epoch is not repeated"
    record = json.loads((tmp_path / "run/training.json").read_text())
    assert record["status"] == "finished" and record["metrics"]["words"] == 3 * 144
    assert call(*command, "--run", "whole", "-o", "whole.txt").code == 0
    ours, theirs = load(tmp_path / "vectors.txt"), load(tmp_path / "whole.txt")
    assert ours.words.list() == theirs.words.list() == ["elk", "cow", "ant", "fox", "bee", "dog"]
    assert (ours.matrix == theirs.matrix).all() or ours.matrix == pytest.approx(theirs.matrix, rel=1e-4)


def test_ngrams(call: Run, tmp_path: Path) -> None:
    """A pass over the text has no state to continue: a run is finished, or begins anew."""
    files = {path.name: path.read_bytes() for path in (STOPPED / "ngram/run").iterdir()}
    command = continued(call, tmp_path, "ngram")
    assert {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir()} == files, "it was finished"
    assert call(*command, "--force").code == 0
    for name, content in files.items():
        if name not in ("training.json", "manifest.json"):
            assert (tmp_path / "run" / name).read_bytes() == content, name
