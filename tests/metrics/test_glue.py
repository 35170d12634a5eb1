"""GLUE's metrics by task name: which they are, which labels they take."""

from __future__ import annotations

import numpy as np
import pytest

from nlptools.errors import DataError, UsageError
from nlptools.formats.glue import GLUE
from nlptools.metrics import classification, correlation, glue
from nlptools.metrics.glue import evaluate

GOLD = list("1110000000")
PREDICTED = list("1101010000")  # 2 true positives, 2 false, 1 missed, 5 true negatives


@pytest.mark.parametrize("task", ["mrpc", "qqp"])
def test_accuracy_f1_and_their_mean(task):
    values = evaluate(task, GOLD, PREDICTED).values()
    assert values == pytest.approx({"accuracy": 0.7, "f1": 4 / 7, "mean": (0.7 + 4 / 7) / 2})
    made = evaluate(task, GOLD, PREDICTED)
    weights = np.random.default_rng(0).integers(0, 3, size=(5, 10))
    computed = made.compute(weights)
    assert computed[:, 2].tolist() == pytest.approx(computed[:, :2].mean(axis=1).tolist())
    assert made.signature().startswith(f"task:{task}|labels:2|positive:1|unit:labels|")


@pytest.mark.parametrize("task", ["sst-2", "wnli"])
def test_accuracy_of_numbered_labels(task):
    assert evaluate(task, GOLD, PREDICTED).values() == {"accuracy": 0.7}


def test_cola():
    expected = classification.evaluate(GOLD, PREDICTED, ["matthews"]).values()
    assert evaluate("cola", GOLD, PREDICTED).values() == expected
    assert expected["matthews"] == pytest.approx((2 * 5 - 2 * 1) / np.sqrt(4 * 3 * 7 * 6))


def test_stsb():
    gold, predicted = ["0.0", "2.5", "5.0", "4.8"], ["0.3", "2.0", "4.4", "5.1"]
    values = evaluate("sts-b", gold, predicted).values()
    assert list(values) == ["pearson", "spearman", "mean"]
    both = correlation.evaluate(gold, predicted).values()
    assert values == {**both, "mean": pytest.approx((both["pearson"] + both["spearman"]) / 2)}
    with pytest.raises(DataError, match=r"^dev.tsv:2: expected a finite number"):
        evaluate("sts-b", ["1", "nan"], ["1", "2"], paths=("dev.tsv", None))
    with pytest.raises(DataError, match="unequal"):
        evaluate("sts-b", ["1", "2"], ["1"])


@pytest.mark.parametrize("task", ["mnli", "mnli-m", "mnli-mm"])
def test_mnli(task):
    gold = ["entailment", "neutral", "contradiction", "neutral"]
    made = evaluate(task, gold, ["entailment", "neutral", "entailment", "contradiction"])
    assert made.values() == {"accuracy": 0.5}
    assert made.details["labels"] == ["entailment", "neutral", "contradiction"]
    assert evaluate(task, list("0120"), list("0220")).values() == {"accuracy": 0.75}


@pytest.mark.parametrize("task", ["qnli", "rte"])
def test_two_way(task):
    assert evaluate(task, ["entailment", "not_entailment"], ["entailment"] * 2).values() == {"accuracy": 0.5}
    assert evaluate(task, ["0", "1"], ["1", "1"]).values() == {"accuracy": 0.5}


def test_ax():
    gold = ["entailment", "neutral", "contradiction", "neutral", "neutral"]
    predicted = ["entailment", "neutral", "neutral", "contradiction", "neutral"]
    expected = classification.evaluate(gold, predicted, ["matthews"]).values()
    assert evaluate("AX", gold, predicted).values() == expected
    assert 0 < expected["matthews"] < 1


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("SST-2", "sst-2"),
        ("sst2", "sst-2"),
        ("STS_B", "sts-b"),
        ("CoLA", "cola"),
        ("MNLI_mm", "mnli-mm"),
        ("mnli_mismatched", "mnli-mm"),
        ("MNLI-matched", "mnli-m"),
        *((name.upper(), name) for name in GLUE),
    ],
)
def test_names(written, name):
    assert glue.find(written) == name


def test_an_unknown_task_names_those_there_are():
    with pytest.raises(UsageError, match=r"no such GLUE task: 'sst-5'.*cola, sst-2, mrpc.*ax$"):
        evaluate("sst-5", ["1"], ["1"])


def test_words_stand_for_published_numbers():
    made = evaluate("mrpc", ["1", "0", "1"], ["equivalent", "equivalent", "not_equivalent"])
    assert made.values()["accuracy"] == pytest.approx(1 / 3)
    assert made.details == {"labels": ["0", "1"], "confusion": [[0, 1], [1, 1]]}
    assert evaluate("wnli", ["1", "0"], ["entailment", "not_entailment"]).values() == {"accuracy": 1.0}
    assert evaluate("sst2", ["negative", "0"], ["positive", "negative"]).values() == {"accuracy": 0.5}


@pytest.mark.parametrize(
    ("task", "gold", "predicted", "message"),
    [
        ("cola", ["0", "1"], ["0", "2"], r"^p:2: expected one of 0, 1 \(or unacceptable, acceptable\), got '2'"),
        ("rte", ["entailment", "not_entailment"], ["entailment", "neutral"], "^p:2: expected one of entailment, not_"),
        (
            "rte",
            ["entailment", "not_entailment"],
            ["0", "1"],
            "^p:1: expected one of entailment, not_entailment, got '0'",
        ),
        ("rte", ["0", "1"], ["entailment"] * 2, "^g:1: expected one of entailment, not_entailment, got '0'"),
        ("mnli", ["0", "3"], ["0", "1"], "^g:1: expected one of entailment, neutral, contradiction, got '0'"),
        ("mnli", ["entailment", ""], ["entailment"] * 2, "^g:2: expected one of .* got ''"),
        ("qqp", ["0"], ["0", "1"], "unequal"),
        ("qqp", [], [], "no labels"),
    ],
)
def test_bad_labels(task, gold, predicted, message):
    with pytest.raises(DataError, match=message):
        evaluate(task, gold, predicted, paths=("g", "p"))


def test_a_task_whose_predictions_are_all_of_one_label():
    assert evaluate("mrpc", ["0", "0"], ["0", "0"]).values() == {"accuracy": 1.0, "f1": 0.0, "mean": 0.5}
    assert evaluate("cola", ["0", "1"], ["1", "1"]).values() == {"matthews": 0.0}
