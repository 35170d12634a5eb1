"""Questions and their answers: learnt, measured, left unanswered, written as SQuAD's scripts take them."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from nlptools import bundle
from nlptools.configs.finetuning import Predict
from nlptools.errors import BundleError, DataError, Stopped, UsageError
from nlptools.finetuning import answers
from nlptools.metrics import squad
from nlptools.train import stop
from tests.finetuning.test_texts import predicted, predictor
from tests.finetuning.tiny import encoder, train

HOW: dict[str, Any] = {"task": "answer", "epochs": 8.0, "lr": 4e-3, "stride": 8, "max_question": 4}


def questions(
    path: Path, count: int, seed: int = 0, impossible: float = 0.0, longest: int = 6, yes: bool = False
) -> Path:
    """The answer is the word behind `good`; where there is no `good`, none. With `yes`: `bad` says yes, and no place."""
    rng, made = random.Random(seed), []
    for number in range(count):
        words = [f"w{rng.randrange(20)}" for _ in range(rng.randrange(2, longest + 1))]
        qa: dict[str, Any] = {"id": f"q{number}", "question": "w1 w2", "answers": [], "is_impossible": False}
        if yes and rng.random() < 0.5:
            words[0] = "bad"
            qa["yes_no_answer"] = "YES"
        elif rng.random() < impossible:
            qa["is_impossible"] = True
        else:
            at = rng.randrange(len(words) - 1)
            words[at] = "good"
            start = sum(len(word) + 1 for word in words[: at + 1])
            qa["answers"] = [{"text": words[at + 1], "answer_start": start}]
            qa |= {"yes_no_answer": "NONE"} if yes else {}
        made.append({"context": " ".join(words), "qas": [qa]})
    path.write_text(json.dumps({"version": "x", "data": [{"title": "t", "paragraphs": made}]}), encoding="utf-8")
    return path


def scores(directory: Path, path: Path, version: str, **changes: Any) -> dict[str, float]:
    """What the metric says of the predictions that are written."""
    out = directory.parent / "predictions.json"
    predicted(directory, path, predictions=str(out), **changes)
    said = squad.squad(squad.read_questions(path), squad.read_predictions(out), version).values()
    out.unlink()
    return said


def test_places_are_found_also_in_long_contexts(tmp_path: Path) -> None:
    train_file = questions(tmp_path / "a.json", 500, longest=30)
    valid = questions(tmp_path / "b.json", 60, 1, longest=60)  # 24 positions: several windows
    done = train(tmp_path, train_file, valid, **HOW)
    assert done.metrics["valid_f1"] > 90 and "valid_threshold" not in done.metrics
    assert scores(tmp_path / "out", valid, "1.1")["f1"] == pytest.approx(done.metrics["valid_f1"], abs=1e-9)
    assert bundle.load(tmp_path / "out").config["architectures"] == ["BertForQuestionAnswering"]
    lines = predicted(tmp_path / "out", valid)
    assert len(lines) == 60 and all(lines)  # every question of the training data has an answer, so they have
    assert predicted(tmp_path / "out", valid, window=7, batch_tokens=50) == lines
