"""The state of a run, for scripts."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from conftest import Run

from nlptools.errors import BundleError, InputError
from nlptools.files import directory_lock
from nlptools.training.engine.run_state import FINISHED, RUNNING, STOPPED, run_state

STOPPED_RUN = Path(__file__).parent / "stopped/lm/run"


def test_a_stopped_run(tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(STOPPED_RUN, run)
    assert run_state(str(run)) == STOPPED
    with directory_lock.locked(run):
        assert run_state(str(run)) == RUNNING
    assert run_state(str(run)) == STOPPED
    checkpoints = sorted((run / "checkpoints").iterdir())
    for number, path in enumerate(reversed(checkpoints), 1):
        weights = path / "weights.safetensors"
        weights.write_bytes(weights.read_bytes()[:-1])
        if number < len(checkpoints):
            assert run_state(str(run)) == STOPPED, "an earlier checkpoint is intact"
    with pytest.raises(BundleError, match=r"weights\.safetensors: damaged"):
        run_state(str(run))
    shutil.rmtree(run / "checkpoints")
    assert run_state(str(run)) == STOPPED, "killed before its first checkpoint"
    (run / "training.json").write_text("{")
    with pytest.raises(BundleError):
        run_state(str(run))
    (run / "training.json").unlink()
    with pytest.raises(InputError, match="holds no training run"):
        run_state(str(run))


def test_a_command_that_stops_under_torchrun(fork: Run, tmp_path: Path) -> None:
    """torchrun takes every status except 0 for a crash; the status of the directory tells a stopped run from a finished one."""
    (tmp_path / "train.txt").write_text("a b c d e f\n" * 50)
    (tmp_path / "vocab.tsv").write_text("<unk>\t0\n</s>\t0\n" + "".join(f"{letter}\t1\n" for letter in "abcdef"))
    sizes = {"layers": 1, "hidden": 8, "heads": 1, "context": 4, "threads": 1, "max-time": "0.001s"}
    options = [word for name, value in sizes.items() for word in (f"--{name}", value)]
    command = ["train-lm", "-t", "vocab.tsv", *options, "-o", "lm", "train.txt", "--steps", 4]
    done = fork(*command, env={"TORCHELASTIC_RUN_ID": "none"})
    assert done.code == 0 and "lm\n  hint: the same command continues; 'nlptools describe --status lm'" in done.err
    state = fork("describe", "--status", "lm")
    assert (state.code, state.text) == (75, "status\tto be continued\n")
    assert fork(*command).code == 75, "without torchrun"
    assert fork(*command[:-1], 2, "--max-time", "1h").code == 0
    assert run_state(str(tmp_path / "lm")) == FINISHED
    model = tmp_path / "lm/config.json"
    model.write_text(json.dumps({**json.loads(model.read_text()), "vocab_size": 5}))
    assert fork("describe", "--status", "lm").code == 78
    assert fork("describe", "--status", "train.txt").code == 66
