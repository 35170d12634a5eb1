"""Endings of contexts: learnt, measured, predicted, with two or three of them in one batch."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from nlptools import bundle
from nlptools.batches.encoder_rows import EncoderRows
from nlptools.batches.features import Features
from nlptools.configs.finetuning import Finetune
from nlptools.configs.tasks.files import Files
from nlptools.errors import DataError, UsageError
from nlptools.tasks import task as tasks
from tests.tasks.classify.test_task import predicted, predictor
from tests.tasks.tiny_tasks import encoder, train

HOW: dict[str, Any] = {"task": "choice", "epochs": 6.0}


def choices(path: Path, count: int, seed: int = 0) -> Path:
    """The right ending is the one with `good` in it."""
    rng, rows = random.Random(seed), []
    for number in range(count):
        endings = [f"bad w{rng.randrange(20)}" for _ in range(rng.choice([2, 3]))]
        label = rng.randrange(len(endings))
        endings[label] = f"w{rng.randrange(20)} good"
        rows.append({"id": f"n{number}", "context": f"w{rng.randrange(20)} w1", "endings": endings, "label": label})
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.mark.sampled(law="an encoder learns a task")
def test_the_ending_with_the_word_is_found(tmp_path: Path) -> None:
    done = train(tmp_path, choices(tmp_path / "a.jsonl", 300), choices(tmp_path / "b.jsonl", 50, 1), **HOW)
    assert done.metrics["valid_accuracy"] == 1.0
    assert bundle.load(tmp_path / "out").config["architectures"] == ["BertForMultipleChoice"]
    test = choices(tmp_path / "c.jsonl", 40, 2)
    gold = [json.loads(line) for line in test.read_text().split("\n")[:-1]]
    rows = [line.split("\t") for line in predicted(tmp_path / "out", test)]
    assert [int(row[0]) for row in rows] == [example["label"] for example in gold]
    assert all(0.34 < float(row[1]) <= 1 for row in rows)
    assert predicted(tmp_path / "out", test, window=3, batch_tokens=10) == ["\t".join(row) for row in rows]
    shares = [
        [float(share) for share in line.split("\t")] for line in predicted(tmp_path / "out", test, probabilities=True)
    ]
    assert [len(row) for row in shares] == [len(example["endings"]) for example in gold]
    assert all(sum(row) == pytest.approx(1, abs=2e-4) for row in shares)
    two = [line.split("\t") for line in predicted(tmp_path / "out", test, top_k=2)]
    assert [row[:2] for row in two] == rows and all(float(row[1]) >= float(row[3]) for row in two)
    first = json.loads(predicted(tmp_path / "out", test, to="jsonl")[0])
    assert (first["id"], first["prediction"]) == ("n0", gold[0]["label"])


def test_the_loss_compares_the_endings_of_an_example_alone() -> None:
    made = tasks.for_training(Finetune(task="choice", model="m"), Files())
    scores = torch.tensor([1.0, 3.0, 0.5, 0.25, -2.0])
    example, weight = torch.tensor([7, 7, 2, 2, 2]), torch.tensor([0.0, 1, 1, 0, 0])
    expected = -(scores[:2].log_softmax(0)[1] + scores[2:].log_softmax(0)[0])
    assert float(made.loss(scores, example, weight)) == pytest.approx(float(expected), abs=1e-6)
    assert float(made.loss(scores, example, 0 * weight)) == 0


def test_what_nothing_can_be_learnt_from(tmp_path: Path) -> None:
    row = {"context": "w1", "endings": ["w2", "w3"], "label": 1}
    path = tmp_path / "a.jsonl"
    path.write_text(2 * (json.dumps(row) + "\n"))
    with pytest.raises(DataError, match="always number 1"):
        train(tmp_path, path, **HOW)
    with pytest.raises(UsageError, match="expected one of auto, loss, accuracy"):
        train(tmp_path, path, best="f1", **HOW)


def test_settings_of_other_tasks_are_refused(tmp_path: Path) -> None:
    train(tmp_path, choices(tmp_path / "a.jsonl", 20), **{**HOW, "steps": 1})
    with pytest.raises(UsageError, match=r"--columns applies to --task .* only"):
        predictor(tmp_path / "out", columns=True)
    with pytest.raises(UsageError, match="--null-threshold applies to --task answer only"):
        predictor(tmp_path / "out", null_threshold=1.0)
    with pytest.raises(UsageError, match="--stride applies to --task answer only"):
        Finetune(task="choice", model="m", stride=5).check()


@pytest.mark.sampled(law="an encoder learns a task")
def test_electra_compares_too(tmp_path: Path) -> None:
    encoder(tmp_path / "encoder", "electra", embedding_size=16)
    done = train(tmp_path, choices(tmp_path / "a.jsonl", 300), choices(tmp_path / "b.jsonl", 50, 1), **HOW)
    assert done.metrics["valid_accuracy"] > 0.95
    assert bundle.load(tmp_path / "out").config["architectures"] == ["ElectraForMultipleChoice"]


def test_probabilities_of_the_endings_of_each_example() -> None:
    task = tasks.for_training(Finetune(task="choice", model="m"), Files())
    rows = EncoderRows(np.zeros(5, np.int32), np.zeros(5, np.uint8), np.arange(6))
    outputs = list(np.array([0.0, np.log(3), 1000, 1000, 1000], np.float32))
    first, second = task.decode(outputs, Features(rows, examples=np.array([0, 2, 5])), [])
    np.testing.assert_allclose([*first, *second], [0.25, 0.75, 1 / 3, 1 / 3, 1 / 3], rtol=1e-6)
