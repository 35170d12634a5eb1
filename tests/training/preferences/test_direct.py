"""Preference losses by their formulas; each one learns; the reference is computed once; a stopped run goes on exactly."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from nlptools import bundle
from nlptools.batches.completions import PackedBatches
from nlptools.batches.features import Features
from nlptools.compute.backend import Backend
from nlptools.errors import DataError
from nlptools.training.preferences import losses
from nlptools.training.preferences.direct import PreferenceLoss
from nlptools.training.preferences.policy import log_probabilities
from tests.tasks.tiny_tasks import FP32, stopped_at
from tests.training.preferences.toys import align, lines


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def test_formulas() -> None:
    better, worse, beta = -1.5, -2.25, 0.3
    b, w = torch.tensor([better]), torch.tensor([worse])
    assert losses.dpo(b, w, beta).item() == pytest.approx(-math.log(sigmoid(beta * (better - worse))))
    assert losses.ipo(b, w, beta).item() == pytest.approx((better - worse - 1 / (2 * beta)) ** 2)
    ratios, good = torch.tensor([0.4, -0.9]), torch.tensor([True, False])
    wanted = [1 - sigmoid(beta * (0.4 - 0.2)), 1 - sigmoid(beta * (0.2 + 0.9))]
    assert losses.kto(ratios, good, torch.tensor(0.2), beta).tolist() == pytest.approx(wanted)
    p, q = math.exp(better), math.exp(worse)
    ratio = (p / (1 - p)) / (q / (1 - q))
    assert losses.orpo(b, w, beta).item() == pytest.approx(-better - beta * math.log(sigmoid(math.log(ratio))))
    assert torch.isfinite(losses.orpo(torch.zeros(1), w, beta)).all()


def preferences(count: int) -> list[dict[str, str]]:
    """The better response says the word of the prompt, the worse one the word after it."""
    return [{"prompt": f"w{i % 19}", "chosen": f"w{i % 19}", "rejected": f"w{i % 19 + 1}"} for i in range(count)]


def judgements(count: int) -> list[dict[str, Any]]:
    pairs = preferences(count)
    return [
        {"prompt": p["prompt"], "completion": p[key], "label": key == "chosen"}
        for p in pairs
        for key in ("chosen", "rejected")
    ]


@pytest.mark.sampled(law="preferences are learned")
@pytest.mark.parametrize("loss", ["dpo", "ipo", "kto", "orpo"])
def test_learns_preferences(tmp_path: Path, loss: str) -> None:
    values = judgements(40) if loss == "kto" else preferences(60)
    path = lines(tmp_path / "a.jsonl", values)
    done = align(tmp_path, "preference", path, path, loss=loss, epochs=6.0, beta=0.5)
    assert done.metrics["valid_accuracy"] > 0.97 and done.metrics["valid_margin"] > 0.3
    assert bundle.load(tmp_path / "out").arch == "transformer"


def test_the_reference_is_the_model_at_the_beginning(tmp_path: Path) -> None:
    path = lines(tmp_path / "a.jsonl", preferences(10))
    align(tmp_path, "preference", path, epochs=3.0)
    spooled = Features.open(tmp_path / "out" / "data" / "train")
    base = bundle.load(tmp_path / "base").model
    again = log_probabilities(base, spooled, Backend.detect(FP32))
    assert again is not None and np.allclose(again[:, 0], spooled.targets["reference"], atol=1e-4)
    objective = PreferenceLoss(base.train(), "dpo", 0.1)
    batch = next(iter(PackedBatches(spooled, 4, seed=0)))
    loss = objective(*map(torch.from_numpy, objective.arrays(batch)))["loss"]
    assert loss.item() / objective.counts(batch)["loss"] == pytest.approx(
        math.log(2), rel=1e-4
    )  # nothing is learned yet


def test_rankings_become_pairs(tmp_path: Path) -> None:
    ranked = {"prompt": "w1", "responses": ["w2", "w3", "w4"], "ranking": [2, 1, 3]}
    align(tmp_path, "preference", lines(tmp_path / "a.jsonl", [ranked] * 2), epochs=1.0)
    assert Features.open(tmp_path / "out" / "data" / "train").num_examples == 6


def test_stop_and_go_on(tmp_path: Path) -> None:
    path = lines(tmp_path / "a.jsonl", preferences(48))
    whole = align(tmp_path, "preference", path, epochs=2.0, output=str(tmp_path / "whole"))
    with stopped_at(3):
        align(tmp_path, "preference", path, epochs=2.0)
    assert align(tmp_path, "preference", path, epochs=2.0).steps == whole.steps == 6
    one, other = (dict(bundle.load(tmp_path / name).weights()) for name in ("whole", "out"))
    assert all(torch.equal(tensor, other[name]) for name, tensor in one.items())


def test_judgements_need_kto(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"a\.jsonl:1: a single response with a 'label'"):
        align(tmp_path, "preference", lines(tmp_path / "a.jsonl", judgements(4)))
