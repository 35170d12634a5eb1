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
from nlptools.configs.finetuning import Finetune, Predict
from nlptools.errors import DataError, OutputError, UsageError
from nlptools.formats.squad import gold_answers, read_no_answer, read_predictions
from nlptools.metrics import squad
from nlptools.tasks.answer import task as answers
from tests.tasks.classify.test_task import predicted
from tests.tasks.tiny_tasks import encoder, stopped_at, train

HOW: dict[str, Any] = {"task": "answer", "epochs": 8.0, "lr": 4e-3, "stride": 8}


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
    said = squad.squad([*gold_answers(path)], read_predictions(out), version).values()
    out.unlink()
    return said


@pytest.mark.sampled(law="an encoder learns a task")
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


def test_the_threshold_of_no_answer_is_kept_and_applied(tmp_path: Path) -> None:
    path = questions(tmp_path / "a.json", 400, impossible=0.4)
    valid = questions(tmp_path / "b.json", 80, 1, impossible=0.4)
    done = train(tmp_path, path, valid, **{**HOW, "steps": 60})
    kept = bundle.load(tmp_path / "out").config["nlptools"]["task"]
    assert kept["threshold"] == done.metrics["valid_threshold"] and kept["required"] is False
    # what predict writes for the same questions is as good as it was measured
    said = scores(tmp_path / "out", valid, "2.0")
    assert said["f1"] == pytest.approx(done.metrics["valid_f1"], abs=1e-9)
    assert said["exact"] == pytest.approx(done.metrics["valid_exact"], abs=1e-9)
    assert said["NoAns_f1"] > 50 < said["HasAns_f1"]
    assert all(predicted(tmp_path / "out", valid, null_threshold=1e9))
    assert not any(predicted(tmp_path / "out", valid, null_threshold=-1e9))


def test_the_files_of_squad_are_what_its_metric_takes(tmp_path: Path) -> None:
    path = questions(tmp_path / "a.json", 60, impossible=0.4)
    train(tmp_path, path, **{**HOW, "steps": 10})
    names = {name: tmp_path / f"{name}.json" for name in ("predictions", "nbest", "null_odds")}
    how: dict[str, Any] = {name: str(file) for name, file in names.items()}
    lines = predicted(tmp_path / "out", path, **how, window=13)
    said, nbest, odds = (json.loads(file.read_text(encoding="utf-8")) for file in names.values())
    assert list(said) == list(nbest) == list(odds) == [f"q{i}" for i in range(60)]
    assert list(said.values()) == lines and said == read_predictions(names["predictions"])
    assert odds == read_no_answer(names["null_odds"])
    threshold = bundle.load(tmp_path / "out").config["nlptools"]["task"].get("threshold", 0.0)
    for id, found in nbest.items():
        assert 1 <= len(found) <= 21 and sum(c["probability"] for c in found) < 1 + 1e-6
        assert (said[id] == "") == (odds[id] > threshold)
        if said[id]:
            assert said[id] == next(c["text"] for c in found if c["text"])
    assert names["nbest"].read_text(encoding="utf-8") == json.dumps(nbest, indent=4, ensure_ascii=False) + "\n"
    with pytest.raises(OutputError, match="exists"):
        predicted(tmp_path / "out", path, **how)
    objects = [json.loads(line) for line in predicted(tmp_path / "out", path, to="jsonl")]
    assert [row["prediction"] for row in objects] == lines and [row["id"] for row in objects] == list(said)
    assert [row["null_odds"] for row in objects] == pytest.approx(list(odds.values()), abs=1e-5)


def test_no_questions_make_empty_files(tmp_path: Path) -> None:
    train(tmp_path, questions(tmp_path / "a.json", 20), **{**HOW, "steps": 1})
    (tmp_path / "none.json").write_text('{"data": []}')
    assert predicted(tmp_path / "out", tmp_path / "none.json", predictions=str(tmp_path / "p.json")) == []
    assert (tmp_path / "p.json").read_text() == "{}\n"


@pytest.mark.sampled(law="an encoder learns a task")
def test_yes_and_places_and_nothing(tmp_path: Path) -> None:
    path = questions(tmp_path / "a.json", 400, yes=True)
    valid = questions(tmp_path / "b.json", 60, 1, yes=True)
    done = train(tmp_path, path, valid, **HOW)
    assert done.metrics["valid_f1"] > 90
    found = bundle.load(tmp_path / "out")
    assert found.config["architectures"] == ["BertForQuestionAnswering"] and "yes_no" in found.model.heads  # type: ignore[attr-defined]
    gold = [p["qas"][0] for p in json.loads(valid.read_text())["data"][0]["paragraphs"]]
    lines = predicted(tmp_path / "out", valid)
    yes = [qa["yes_no_answer"] == "YES" for qa in gold]
    assert sum((line == "yes") == said for line, said in zip(lines, yes, strict=True)) > 55
    row = json.loads(predicted(tmp_path / "out", valid, to="jsonl")[yes.index(True)])
    assert row["prediction"] == "yes" and 0.5 < row["probability"] <= 1


def test_yes_and_no_are_learned_where_some_training_question_has_them(tmp_path: Path) -> None:
    for yes in (False, True):
        path = questions(tmp_path / f"{yes}.json", 20, yes=yes)
        train(tmp_path, path, force=True, **{**HOW, "steps": 1})
        assert ("yes_no" in bundle.load(tmp_path / "out").heads) == yes


def test_empty_contexts_have_no_answer_and_a_line(tmp_path: Path) -> None:
    path = questions(tmp_path / "a.json", 60, impossible=0.3)
    data = json.loads(path.read_text())
    empty = {"context": "", "qas": [{"id": "e", "question": "", "answers": [], "is_impossible": True}]}
    data["data"][0]["paragraphs"].insert(1, empty)
    path.write_text(json.dumps(data))
    done = train(tmp_path, path, path, **{**HOW, "steps": 20})
    assert np.isfinite(done.metrics["valid_loss"])
    lines = predicted(tmp_path / "out", path, null_threshold=1e9)
    assert len(lines) == 61 and lines[1] == "" and all(lines[2:])


def test_answers_that_cannot_be_learnt_are_counted(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = questions(tmp_path / "a.json", 20)
    data = json.loads(path.read_text())
    words = " ".join(f"w{i % 20}" for i in range(40))
    whole = {"id": "long", "question": "w1", "answers": [{"text": words, "answer_start": 0}]}
    inside = {"id": "part", "question": " ".join(["w1"] * 30), "answers": [{"text": "2", "answer_start": 7}]}
    data["data"][0]["paragraphs"].append({"context": words, "qas": [whole, inside]})
    path.write_text(json.dumps(data))
    train(tmp_path, path, **{**HOW, "steps": 1})
    told = capfd.readouterr().err
    assert "22 questions in " in told and "1 answer is whole in no window" in told and ", 1 cut" in told
    assert "1 answer does not begin and end with pieces" in told


def test_the_loss_by_hand() -> None:
    logits = torch.tensor([[[1.0, 0, 9, 0, 0], [5, 5, 0, 0, 0], [2, 1, 0, 0, 0], [0, 3, 0, 0, 0]]])
    allowed = torch.tensor([[True, False, True, True]])
    found = answers._losses(logits, allowed, torch.tensor([2]), torch.tensor([3]))
    expected = -(torch.tensor([1.0, 2, 0]).log_softmax(0)[1] + torch.tensor([0.0, 1, 3]).log_softmax(0)[2]) / 2
    assert float(found) == pytest.approx(float(expected), abs=1e-6)
    yes = answers._losses(logits, allowed, torch.tensor([2]), torch.tensor([3]), torch.tensor([1]))
    assert float(yes) == pytest.approx(float(expected) - float(torch.tensor([9.0, 0, 0]).log_softmax(0)[1]), abs=1e-5)
    unknown = answers._losses(logits, allowed, torch.tensor([2]), torch.tensor([3]), torch.tensor([-1]))
    assert torch.equal(unknown, found)


@pytest.mark.sampled(law="a stopped run goes on")
def test_a_stopped_run_goes_on_as_if_it_had_not_been(tmp_path: Path) -> None:
    path, valid = (
        questions(tmp_path / "a.json", 60, impossible=0.3),
        questions(tmp_path / "b.json", 20, 1, impossible=0.3),
    )
    encoder(tmp_path / "encoder", hidden_dropout=0.1)
    more: dict[str, Any] = {**HOW, "epochs": 3.0}
    whole = train(tmp_path, path, valid, output=str(tmp_path / "whole"), **more)
    with stopped_at(6):
        train(tmp_path, path, valid, **more)
    again = train(tmp_path, path, valid, **more)
    assert again.metrics["valid_threshold"] == whole.metrics["valid_threshold"]
    one, other = (bundle.load(tmp_path / name) for name in ("whole", "out"))
    assert all(torch.equal(tensor, other.weights()[name]) for name, tensor in one.weights().items())
    assert one.config == other.config


def test_what_goes_wrong_is_told(tmp_path: Path) -> None:
    path = questions(tmp_path / "a.json", 20)
    data = json.loads(path.read_text())
    data["data"][0]["paragraphs"][1]["qas"][0]["id"] = "q0"
    path.with_name("twice.json").write_text(json.dumps(data))
    with pytest.raises(DataError, match=r"twice\.json:1: a second question has the id 'q0'"):
        train(tmp_path, path, tmp_path / "twice.json", **HOW)
    with pytest.raises(UsageError, match="expected auto, exact, f1, loss"):
        train(tmp_path, path, best="accuracy", **HOW)
    with pytest.raises(UsageError, match="--stride applies to --task answer only"):
        Finetune(task="pair", model="m", stride=5).check()
    with pytest.raises(UsageError, match="different files"):
        Predict(predictions="x", nbest="x").check()
    with pytest.raises(UsageError, match="different files"):
        Predict(null_odds="-").check()


@pytest.mark.sampled(law="an encoder learns a task")
def test_an_encoder_with_one_segment_learns_too(tmp_path: Path) -> None:
    encoder(tmp_path / "encoder", type_vocab_size=1)
    path = questions(tmp_path / "a.json", 200)
    done = train(tmp_path, path, path, **HOW)
    assert done.metrics["valid_f1"] > 90 and len(predicted(tmp_path / "out", path)) == 200


def test_a_model_of_another_always_answers_unless_told_otherwise(tmp_path: Path) -> None:
    path = questions(tmp_path / "a.json", 40, impossible=0.5)
    train(tmp_path, path, **{**HOW, "steps": 5})
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    del config["nlptools"]
    (tmp_path / "out" / "config.json").write_text(json.dumps(config))
    (tmp_path / "out" / "manifest.json").unlink()
    assert all(predicted(tmp_path / "out", path))
    assert not any(predicted(tmp_path / "out", path, null_threshold=-1e9))
