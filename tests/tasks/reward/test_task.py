"""Reward models: the loss is that of the paper; what is learned is the preference, not the length; predictions are rewards."""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from nlptools import bundle
from nlptools.formats.examples import Place, Ranking, Turn
from nlptools.formats.reading_options import Options
from nlptools.tasks.reward.task import RewardTask, calibration_error
from tests.tasks.classify.test_task import predicted
from tests.tasks.tiny_tasks import gpt, train
from tests.training.preferences.toys import lines

TASK = RewardTask("reward", Options())


def ranking(*ranks: float, margin: float = 0.0) -> Ranking:
    responses = tuple((Turn("", "w" * (i + 1)),) for i in range(len(ranks)))
    return Ranking((Turn("", "p"),), responses, ranks, Place("-", 1), margin)


def test_loss_is_the_mean_over_the_pairs_of_each_prompt() -> None:
    rewards = torch.tensor([[0.3], [-0.2], [1.0], [0.7], [0.1]])
    example, rank = torch.tensor([0, 0, 0, 1, 1]), torch.tensor([1.0, 2.0, 2.0, 1.0, 2.0])
    margin, weight = torch.tensor([0.0, 0, 0, 0.5, 0.5]), torch.tensor([1 / 3, 1 / 3, 1 / 3, 1 / 2, 1 / 2])

    def term(gap: float) -> float:
        return math.log1p(math.exp(-gap))

    wanted = (term(0.5) + term(-0.7)) / 2 + term(0.6 - 0.5)
    assert TASK.loss(rewards, example, rank, margin, weight).item() == pytest.approx(wanted, rel=1e-5)
    assert TASK.loss(rewards, example, rank, margin, weight * 0).item() == 0
    measured = TASK.measure(
        [np.array([0.3, -0.2, 1.0]), np.array([0.7, 0.1])], [ranking(1, 2, 2), ranking(1, 2, margin=0.5)]
    )
    assert measured["loss"] == pytest.approx((term(0.5) + term(-0.7) + term(0.1)) / 3)
    assert measured["accuracy"] == pytest.approx(2 / 3) and measured["accuracy_longer"] == 0.0
    assert measured["best_reward"] == pytest.approx(0.5)


def test_calibration() -> None:
    rng = np.random.default_rng(0)
    gaps = rng.normal(size=20_000) * 2
    right = rng.random(len(gaps)) < 1 / (1 + np.exp(-np.abs(gaps)))
    calibrated = np.where(right, np.abs(gaps), -np.abs(gaps))
    assert calibration_error(calibrated) < 0.02
    assert calibration_error(5 * calibrated) > 0.1
    assert calibration_error(np.array([30.0, 30.0])) < 1e-6


def preferences(count: int, seed: int = 0) -> list[dict[str, Any]]:
    """A response with the word `good` is better, whatever its length."""
    rng, values = random.Random(seed), []
    for i in range(count):
        texts = [
            " ".join([word, *(f"w{rng.randrange(20)}" for _ in range(rng.randrange(5)))]) for word in ("good", "bad")
        ]
        prompt = f"w{rng.randrange(20)}"
        if i % 3:
            values.append({"prompt": prompt, "chosen": texts[0], "rejected": texts[1]})
        else:
            values.append({"prompt": prompt, "responses": [texts[1], texts[0], "bad"], "ranking": [2, 1, 2]})
    return values


@pytest.mark.sampled(law="preferences are learned")
@pytest.mark.parametrize("causal", [True, False])
def test_learns_the_preference(tmp_path: Path, causal: bool) -> None:
    if causal:
        gpt(tmp_path / "encoder")
    path, valid = lines(tmp_path / "a.jsonl", preferences(150)), lines(tmp_path / "b.jsonl", preferences(40, 1))
    done = train(tmp_path, path, valid, task="reward")
    assert done.metrics["valid_accuracy"] == 1.0 and abs(done.metrics["valid_length_correlation"]) < 0.4
    assert done.metrics["valid_accuracy_longer"] < 0.8
    found = bundle.load(tmp_path / "out")
    kind = "GPT2" if causal else "Bert"
    assert found.config["architectures"] == [f"{kind}ForSequenceClassification"]
    assert found.config["nlptools"]["task"]["best_reward"] == done.metrics["valid_best_reward"]
    rows = [list(map(float, line.split("\t"))) for line in predicted(tmp_path / "out", valid)]
    assert [len(row) for row in rows] == [3 if i % 3 == 0 else 2 for i in range(40)]
    best = [row[1] if len(row) == 3 else row[0] for row in rows]
    assert abs(np.mean(best)) < 1e-3  # the validation data themselves
    alone = lines(tmp_path / "c.jsonl", [{"prompt": "w1", "completion": word} for word in ("good w2", "bad w2")])
    good, bad = map(float, predicted(tmp_path / "out", alone))
    assert good > bad


def test_opens_in_transformers(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    gpt(tmp_path / "encoder")
    path = lines(tmp_path / "a.jsonl", preferences(20))
    train(tmp_path, path, task="reward", epochs=1.0)
    model = transformers.GPT2ForSequenceClassification.from_pretrained(tmp_path / "out").eval()
    alone = lines(tmp_path / "c.jsonl", [{"prompt": "w1 w2", "completion": "good"}])
    (line,) = predicted(tmp_path / "out", alone)
    ids = torch.tensor([[0, 5, 6, 2]])  # the start token, w1, w2, good
    assert model(ids).logits.item() == pytest.approx(float(line), abs=1e-5)
