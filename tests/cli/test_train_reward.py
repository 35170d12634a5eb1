"""`train-reward` is `finetune --task reward` under its own name."""

from __future__ import annotations

import json
from pathlib import Path

import torch

from nlptools.files import artifacts
from tests.tasks.reward.test_task import preferences
from tests.tasks.tiny_tasks import gpt
from tests.training.preferences.toys import lines

HOW = ("--batch-size", 8, "--epochs", 1, "--lr", "1e-3", "--valid", "b.jsonl", "a.jsonl")


def test_the_same_model_as_finetune(fork, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    gpt(tmp_path / "base")
    lines(tmp_path / "a.jsonl", preferences(40))
    lines(tmp_path / "b.jsonl", preferences(10, 1))
    one = fork("train-reward", "-m", "base", "-o", "one", *HOW)
    assert one.code == 0 and one.out == b"", one.err
    other = fork("finetune", "--task", "reward", "-m", "base", "-o", "other", *HOW)
    assert other.code == 0, other.err
    weights, same = (artifacts.load_weights(tmp_path / name) for name in ("one", "other"))
    assert weights.keys() == same.keys() and all(torch.equal(weights[name], same[name]) for name in weights)
    config, record = (json.loads((tmp_path / "one" / name).read_text()) for name in ("config.json", "training.json"))
    assert config == json.loads((tmp_path / "other" / "config.json").read_text())
    assert record["metrics"]["valid_accuracy"] >= 0.5
    again = fork("finetune", "--task", "reward", "-m", "base", "-o", "one", *HOW)
    assert again.code == 0, again.err  # the finished run, under its other name
    judged = fork("predict", "one", "-q", "b.jsonl")
    assert judged.code == 0 and len(judged.lines) == 10


def test_errors_before_any_work(fork, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    assert fork("train-reward", "-o", "x", "a.jsonl").code == 2
    for wrong in (("--folds", 1), ("--best", "f1"), ("--chat", "none"), ("--task", "reward")):
        done = fork("train-reward", "-m", "base", "-o", "x", *wrong, "a.jsonl")
        assert done.code == 2 and str(wrong[0]) in done.err, done.err
