"""Several models in `predict`: with itself a model is itself; two are their mean; models that do not agree are refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Run

from nlptools import bundle
from nlptools.compute.backend import Backend
from nlptools.configs.finetuning import Predict
from nlptools.configs.tasks.files import Files
from nlptools.errors import UsageError
from nlptools.inference.loading import load
from nlptools.inference.prediction import Predictor
from nlptools.tasks.answer.decoding import AnswerRecord, Candidate
from nlptools.tasks.answer.merging import merged
from nlptools.tasks.ensembles import mean_of_tags
from nlptools.tasks.tag.decoding import TagTransitions
from tests.tasks.tiny_tasks import FP32, table, texts, train


def lines(paths: list[Path], data: Path, **changes: Any) -> list[str]:
    first, *others = map(bundle.load, paths)
    made = Predictor(first, Backend.detect(FP32), Predict(**changes), Files(), others=others)
    return [line for some in made.lines([str(data)]) for line in some]


def trained(tmp_path: Path, data: Path, **changes: Any) -> list[Path]:
    """Two models of different seeds after an epoch, so that they are not sure."""
    out = []
    for name, lr in (("one", 1e-3), ("two", 2e-3)):
        train(tmp_path, data, output=str(tmp_path / name), epochs=1.0, lr=lr, **changes)
        out.append(tmp_path / name)
    return out


def numbers(rows: list[str]) -> np.ndarray:
    return np.array([[float(x) for x in row.split("\t")] for row in rows])


def test_labels(tmp_path: Path, fork: Run) -> None:
    data, test = table(tmp_path / "a.tsv", texts(60)), tmp_path / "test"
    test.write_text("".join(f"{text}\n" for text, _ in texts(20, 1)))
    one, two = trained(tmp_path, data)
    assert lines([one, one], test) == lines([one], test)
    probabilities = [lines(paths, test, probabilities=True) for paths in ([one], [two], [one, two], [two, one])]
    mean = (numbers(probabilities[0][1:]) + numbers(probabilities[1][1:])) / 2
    assert numbers(probabilities[2][1:]) == pytest.approx(mean, abs=1.01e-4) and probabilities[2] == probabilities[3]
    assert not np.array_equal(numbers(probabilities[0][1:]), numbers(probabilities[1][1:]))
    done = fork("predict", "one", "two", "test", "--probabilities")
    assert (done.code, done.lines, done.err) == (0, probabilities[2], "")
    assert fork("predict", "one", "test", "two").code == 66  # a directory among files


def test_models_of_different_kinds(tmp_path: Path) -> None:
    data = table(tmp_path / "a.tsv", texts(60))
    train(tmp_path, data, output=str(tmp_path / "one"), epochs=1.0)
    train(tmp_path, data, output=str(tmp_path / "bag"), model=None, scratch="bag", epochs=1.0)
    (tmp_path / "test").write_text("good w1\n\nbad w2\n")
    paths = [tmp_path / "one", tmp_path / "bag"]
    each = [numbers(lines([path], tmp_path / "test", probabilities=True)[1:]) for path in paths]
    both = numbers(lines(paths, tmp_path / "test", probabilities=True)[1:])
    assert both == pytest.approx(np.mean(each, axis=0), abs=1.01e-4)


def test_several_labels_and_numbers(tmp_path: Path) -> None:
    rows = [(text, f"{label},any" if i % 2 else label) for i, (text, label) in enumerate(texts(60))]
    one, two = trained(tmp_path, table(tmp_path / "a.tsv", rows), multi_label=True)
    test = table(tmp_path / "test", [(text,) for text, _ in texts(9, 1)])
    each = [numbers(lines(paths, test, probabilities=True)[1:]) for paths in ([one], [two], [one, two])]
    assert each[2] == pytest.approx((each[0] + each[1]) / 2, abs=1.01e-4)
    assert lines([one, one], test) == lines([one], test)
    (tmp_path / "numbers").mkdir()
    scores = table(tmp_path / "n.tsv", [(text, str(float(label == "good"))) for text, label in texts(60)])
    one, two = trained(tmp_path / "numbers", scores, task="regress")
    each = [numbers(lines(paths, test)) for paths in ([one], [two], [one, two])]
    assert each[2] == pytest.approx((each[0] + each[1]) / 2, abs=1e-4)


def sentences(path: Path) -> Path:
    rows = [text.split() for text, _ in texts(40)]
    tags = {"good": "B-X", "bad": "B-Y"}
    words = ["\n".join(f"{word} {tags.get(word, 'O')}" for word in row) for row in rows]
    path.write_text("\n\n".join(words) + "\n")
    return path


@pytest.mark.sampled(1)
@pytest.mark.parametrize("crf", [False, True])
def test_tags(tmp_path: Path, crf: bool) -> None:
    data = sentences(tmp_path / "a.conll")
    one, two = trained(tmp_path, data, task="tag", crf=crf)
    for how in ({}, {"decoding": "scheme"}):
        assert lines([one, one], data, **how) == lines([one], data, **how)
        assert lines([one, two], data, **how) == lines([two, one], data, **how)


def test_the_mean_of_tags_by_hand() -> None:
    rng = np.random.default_rng(0)
    one, two = rng.normal(size=(2, 5, 3))
    scores, between = mean_of_tags([one, two], [None, None])
    softmax = [np.exp(x) / np.exp(x).sum(1, keepdims=True) for x in (one, two)]
    assert np.exp(scores) == pytest.approx((softmax[0] + softmax[1]) / 2) and between is None
    rules = TagTransitions(rng.normal(size=(3, 3)), rng.normal(size=3), rng.normal(size=3))
    scores, between = mean_of_tags([one, two], [rules, None])
    assert scores == pytest.approx((one + np.log(softmax[1])) / 2) and between is not None
    assert between.follows == pytest.approx(rules.follows / 2) and between.ends == pytest.approx(rules.ends / 2)
    scores, between = mean_of_tags([one, one], [rules, rules])
    assert scores == pytest.approx(one) and between is not None and between.begins == pytest.approx(rules.begins)


def test_answers_merge() -> None:
    def record(odds: float, *found: tuple[str, float], yes_no: tuple[float, float] = (0.0, 0.0)) -> AnswerRecord:
        nbest = tuple(Candidate(text, p, 10 * p, 20 * p, i, i + 1) for i, (text, p) in enumerate(found))
        return AnswerRecord("q", next(c for c in nbest if c.text), nbest, odds, yes_no)

    one = record(1.0, ("a", 0.5), ("", 0.3), ("b", 0.2), yes_no=(0.6, 0.2))
    two = record(-2.0, ("b", 0.7), ("c", 0.2), ("", 0.1), yes_no=(0.3, 0.1))
    assert merged([one, one], 20) == one
    both = merged([one, two], 20)
    assert [(c.text, round(c.probability, 6)) for c in both.nbest] == [("b", 0.45), ("a", 0.25), ("", 0.2), ("c", 0.1)]
    assert both.best.text == "b" and both.null_odds == -0.5 and both.best.start_logit == pytest.approx(4.5)
    assert both.yes_no == "yes" and both.yes_no_probability == pytest.approx(0.45)
    assert [c.text for c in merged([one, two], 1).nbest] == ["b", ""]


def test_answers(tmp_path: Path) -> None:
    rows = [("what w1", text, label) for text, label in texts(60)]
    data = table(tmp_path / "a.tsv", [("question", "context", "answer"), *rows])
    one, two = trained(tmp_path, data, task="answer")
    names = [str(tmp_path / name) for name in ("self.json", "one.json", "both.json")]
    single = lines([one], data, nbest=names[1])
    assert lines([one, one], data, nbest=names[0]) == single
    mine, theirs = (json.loads(Path(name).read_text()) for name in names[:2])
    assert [[c["text"] for c in n] for n in mine.values()] == [[c["text"] for c in n] for n in theirs.values()]
    assert len(lines([one, two], data, nbest=names[2])) == len(rows)


def test_choices(tmp_path: Path) -> None:
    rows = [
        {"context": "w1", "endings": [f"{a} w2", f"{b} w3"], "label": int(b == "good")}
        for a, b in [("good", "bad"), ("bad", "good")] * 20
    ]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n")
    one, two = trained(tmp_path, tmp_path / "a.jsonl", task="choice")
    each = [numbers(lines(p, tmp_path / "a.jsonl", probabilities=True)) for p in ([one], [two], [one, two])]
    assert each[2] == pytest.approx((each[0] + each[1]) / 2, abs=1.01e-4)


def test_models_that_do_not_agree(tmp_path: Path) -> None:
    data = table(tmp_path / "a.tsv", texts(40))
    other = table(tmp_path / "b.tsv", texts(40, words=("good", "w3")))
    train(tmp_path, data, output=str(tmp_path / "one"), epochs=1.0)
    train(tmp_path, other, output=str(tmp_path / "labels"), epochs=1.0)
    train(tmp_path, sentences(tmp_path / "a.conll"), task="tag", output=str(tmp_path / "tags"), epochs=1.0)

    def refused(*names: str, error: type[Exception] = UsageError, **changes: Any) -> str:
        first, *others = (tmp_path / name for name in names)
        with pytest.raises(error) as raised:
            load(first, *others, settings=Predict(**changes), compute=FP32)
        return str(raised.value)

    assert "are no ensemble: labels: 'bad', 'good'; 'good', 'w3'" in refused("one", "labels")
    assert "are no ensemble: the tasks are classify and tag" in refused("one", "tags")
    assert "predict cannot take" in refused("one", "encoder")
    assert "predict --ask takes one model" in refused("encoder", "encoder", ask="next")
