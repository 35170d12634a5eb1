"""Instruction tuning: answers are learned, prompts are not; the model stops; a stopped run goes on exactly."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import nlptools
from nlptools import bundle
from nlptools.configs.generation import Generate
from nlptools.errors import BundleError, DataError, UsageError
from tests.tasks.tiny_tasks import FP32, encoder, stopped_at
from tests.tiny_bundles import words_bundle
from tests.training.preferences.toys import align, demonstrations, lines


@pytest.mark.sampled(law="preferences are learned")
def test_learns_to_answer_and_to_stop(tmp_path: Path) -> None:
    path, valid = lines(tmp_path / "a.jsonl", demonstrations(120)), lines(tmp_path / "b.jsonl", demonstrations(30))
    done = align(tmp_path, "instruct", path, valid)
    assert done.metrics["valid_loss"] < 0.05
    model: Any = nlptools.load(str(tmp_path / "out"), settings=Generate(), compute=FP32)
    settings = Generate(temperature=0, max_new_tokens=8)
    (good,), (bad,) = model.generate(["good w3", "bad w7"], settings)
    assert (good.text.split(), good.finish) == (["w3", "w3"], "eos")
    assert (bad.text.split(), bad.finish) == (["w7"], "eos")


def test_modern_in_messages(tmp_path: Path) -> None:
    words_bundle(tmp_path / "base", "modern")
    talk = [{"role": "user", "content": "w1"}, {"role": "assistant", "content": "w2"}]
    done = align(tmp_path, "instruct", lines(tmp_path / "a.jsonl", [{"messages": talk}] * 20), epochs=4.0)
    assert done.steps == 5 and bundle.load(tmp_path / "out").arch == "modern"


def test_stop_and_go_on(tmp_path: Path) -> None:
    path = lines(tmp_path / "a.jsonl", demonstrations(60))
    whole = align(tmp_path, "instruct", path, path, epochs=2.0, output=str(tmp_path / "whole"))
    with stopped_at(4):
        align(tmp_path, "instruct", path, path, epochs=2.0)
    again = align(tmp_path, "instruct", path, path, epochs=2.0)
    assert again.steps == whole.steps == 8 and again.metrics["valid_loss"] == whole.metrics["valid_loss"]
    one, other = (dict(bundle.load(tmp_path / name).weights()) for name in ("whole", "out"))
    assert all(torch.equal(tensor, other[name]) for name, tensor in one.items())


def test_errors(tmp_path: Path) -> None:
    path = lines(tmp_path / "a.jsonl", demonstrations(4))
    with pytest.raises(UsageError, match="--folds applies to --task classify"):
        align(tmp_path, "instruct", path, folds=2)
    with pytest.raises(UsageError, match="--best accuracy"):
        align(tmp_path, "instruct", path, best="accuracy")
    with pytest.raises(DataError, match="no examples to train on"):
        align(tmp_path, "instruct", lines(tmp_path / "empty.jsonl", []))
    (tmp_path / "other").mkdir()
    encoder(tmp_path / "other" / "base")
    with pytest.raises(BundleError, match="not a language model to train further"):
        align(tmp_path / "other", "instruct", path)
