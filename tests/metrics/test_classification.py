"""Metrics of labels: cases by hand, laws of weights, and what is refused."""

from __future__ import annotations

import json

import numpy as np
import pytest
from conftest import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from nlptools.errors import DataError, UsageError
from nlptools.metrics import classification
from nlptools.metrics.classification import METRICS, evaluate
from nlptools.metrics.label_tables import confusion_lines

#        gold a a a a b b c c c c; predicted has 3 of 4 a, 1 of 2 b, 2 of 4 c
GOLD = ["a"] * 4 + ["b"] * 2 + ["c"] * 4
PREDICTED = ["a", "a", "a", "b", "b", "c", "c", "c", "a", "a"]


def by_hand(hits, predicted, gold):
    return {"precision": hits / predicted, "recall": hits / gold, "f1": 2 * hits / (predicted + gold)}


def test_three_labels_by_hand():
    values = evaluate(GOLD, PREDICTED, METRICS, positive="b").values()
    labels = {"a": by_hand(3, 5, 4), "b": by_hand(1, 2, 2), "c": by_hand(2, 3, 4)}
    support = {"a": 4, "b": 2, "c": 4}
    assert values["accuracy"] == 0.6
    assert values["balanced_accuracy"] == pytest.approx((3 / 4 + 1 / 2 + 2 / 4) / 3)
    for kind in ("precision", "recall", "f1"):
        assert values[kind] == labels["b"][kind]
        assert values[f"{kind}_micro"] == 0.6
        assert values[f"{kind}_macro"] == pytest.approx(sum(scores[kind] for scores in labels.values()) / 3)
        weighted = sum(labels[label][kind] * support[label] for label in labels) / 10
        assert values[f"{kind}_weighted"] == pytest.approx(weighted)
        for label in labels:
            assert values[f"{kind}:{label}"] == pytest.approx(labels[label][kind])
    assert values["support"] == 2
    assert [values[f"support:{label}"] for label in labels] == [4, 2, 4]
    # Gorodkin: (hits * n - sum gold * predicted) / sqrt((n^2 - sum gold^2) (n^2 - sum predicted^2))
    assert values["matthews"] == pytest.approx((60 - (20 + 4 + 12)) / np.sqrt((100 - 36) * (100 - 38)))


def test_matthews_of_two_labels_by_hand():
    gold, predicted = list("1110000000"), list("1101000000")  # 2 true positives, 1 false, 1 missed, 6 true negatives
    assert evaluate(gold, predicted, ["matthews"]).values()["matthews"] == pytest.approx(
        (12 - 1) / np.sqrt(3 * 3 * 7 * 7)
    )


def test_what_has_nothing_to_divide_by_is_0():
    values = evaluate(["x", "x"], ["y", "y"], METRICS, labels=["x", "y", "z"], positive="z").values()
    assert set(values.values()) == {0.0, 2.0}  # 2 is the support of x
    assert evaluate(["x"], ["x"], ["matthews", "f1_macro"]).values() == {"matthews": 0.0, "f1_macro": 1.0}


def test_details_and_signature():
    made = evaluate(GOLD, PREDICTED, ["f1", "accuracy", "f1"], positive="c")
    assert made.names == ("f1", "accuracy")
    assert made.details == {"labels": ["a", "b", "c"], "confusion": [[3, 1, 0], [0, 1, 1], [2, 0, 2]]}
    assert json.loads(json.dumps(made.details)) == made.details
    assert made.signature().startswith("labels:3|positive:c|unit:labels|version:nlptools-")
    assert evaluate(GOLD, PREDICTED).signature().startswith("labels:3|unit:labels|")
    declared = evaluate(GOLD, PREDICTED, labels=["c", "d", "b", "a"])
    assert declared.details["labels"] == ["c", "d", "b", "a"]
    assert declared.details["confusion"] == [[2, 0, 0, 2], [0, 0, 0, 0], [1, 0, 1, 0], [0, 0, 1, 3]]


def test_very_many_labels_need_no_square_of_them():
    gold = [f"word{i}" for i in range(20_000)]
    made = evaluate(gold, gold[:10_000] + gold[:10_000], ["accuracy", "f1_macro", "matthews"])
    assert made.details == {} and confusion_lines(made.details) == []
    values = made.values()
    assert values["accuracy"] == 0.5
    assert values["f1_macro"] == pytest.approx(0.5 * 2 / 3)


@pytest.mark.parametrize(
    ("gold", "labels", "positive", "expected"),
    [
        (["0", "1", "1"], None, None, "1"),
        (["0", "0", "0"], None, None, "1"),
        (["1", "1", "1"], None, None, "1"),
        (["no", "yes", "yes"], None, None, "yes"),
        (["no", "yes", "yes"], ["yes", "no"], None, "no"),
        (["no", "yes", "yes"], None, "no", "no"),
        (["no", "no", "no"], None, "yes", "yes"),
        (["1", "0", "0"], ["1", "0"], None, "1"),
        (["a", "b", "c"], None, "b", "b"),
    ],
)
def test_the_positive_label(gold, labels, positive, expected):
    made = evaluate(gold, gold, ["support", "f1"], labels=labels, positive=positive)
    assert dict(made.items)["positive"] == expected
    assert made.values() == {"support": gold.count(expected), "f1": float(expected in gold)}


labels_lists = st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from("abc")), min_size=1, max_size=30)


@settings(max_examples=examples(150), deadline=None)
@given(labels_lists, st.integers(0, 2**32 - 1), st.integers(1, 5))
def test_a_weight_is_a_number_of_copies(pairs, seed, rows):
    gold, predicted = (list(side) for side in zip(*pairs))
    chosen = {"labels": list("abcd"), "positive": "b"}
    made = evaluate(gold, predicted, METRICS, **chosen)
    weights = np.random.default_rng(seed).multinomial(len(gold), np.ones(len(gold)) / len(gold), size=rows)
    computed = made.compute(weights)
    assert computed.shape == (rows, len(made.names)) and computed.dtype == np.float64
    for row, values in zip(weights, computed):
        copies = [list(np.repeat(side, row)) for side in (gold, predicted)]
        assert values.tolist() == pytest.approx(list(evaluate(*copies, METRICS, **chosen).values().values()), abs=1e-15)


@settings(max_examples=examples(100), deadline=None)
@given(labels_lists)
def test_laws(pairs):
    gold, predicted = (list(side) for side in zip(*pairs))
    values, swapped = (
        evaluate(*sides, METRICS, positive=gold[0]).values() for sides in ((gold, predicted), (predicted, gold))
    )
    assert values["precision_macro"] == swapped["recall_macro"]
    assert values["f1_macro"] == swapped["f1_macro"]
    assert values["matthews"] == pytest.approx(swapped["matthews"])
    assert values["f1_micro"] == values["accuracy"] == swapped["accuracy"]
    assert values["recall_weighted"] == pytest.approx(values["accuracy"])
    assert all(-1 <= value <= 1 for name, value in values.items() if not name.startswith("support"))
    assert evaluate(gold, gold, ["matthews"]).values()["matthews"] == float(len(set(gold)) > 1)
    perfect = evaluate(gold, gold, ["accuracy", "balanced_accuracy", "f1_macro"]).values()
    assert set(perfect.values()) == {1.0}


def test_intervals():
    made = evaluate(GOLD * 20, PREDICTED * 20, ["accuracy", "f1_macro"])
    for mean, half in made.intervals(resamples=400).values():
        assert mean == pytest.approx(0.6, abs=0.05) and 0.04 < half < 0.1  # 2 sqrt(0.6 * 0.4 / 200) is 0.07


def test_confusion_lines():
    assert confusion_lines(evaluate(GOLD, PREDICTED).details) == [
        "gold \\ predicted  a  b  c",
        "a                 3  1  0",
        "b                 0  1  1",
        "c                 2  0  2",
    ]
    wide = confusion_lines(evaluate(["日Ｂ", "e\u0301"] * 6, ["日Ｂ", "a\tb"] * 6).details)
    assert wide == [
        "gold \\ predicted  a\\tb  e\u0301  日Ｂ",
        "a\\tb                 0  0     0",
        "e\u0301                    6  0     0",
        "日Ｂ                 0  0     6",
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((["a", "b"], ["a"]), "unequal counts: 2 gold labels, 1 predicted"),
        (([], []), "no labels"),
        ((["a", ""], ["a", "a"]), "^g.txt:2: the label is empty"),
        ((["a", "a"], ["", "a"]), "^p.txt:1: the label is empty"),
    ],
)
def test_bad_data(arguments, message):
    with pytest.raises(DataError, match=message):
        evaluate(*arguments, paths=("g.txt", "p.txt"))


def test_a_label_that_is_not_declared():
    with pytest.raises(DataError, match=r"^p.txt:2: label 'c' is none of those declared: a, b$"):
        evaluate(["a", "b"], ["a", "c"], labels=["a", "b"], paths=(None, "p.txt"))
    with pytest.raises(DataError, match=r"^line 1: label 'xxx"):
        evaluate(["x" * 1000, "b"], ["a", "c"], labels=["a", "b"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"metrics": ["f2"]}, "no such metric: f2"),
        ({"metrics": []}, "no such metric: none"),
        ({"metrics": ["f1"]}, "which of 3 labels"),
        ({"positive": "z"}, "the positive label 'z' is none of the labels: a, b, c"),
        ({"positive": ""}, "the positive label '' is none"),
        ({"labels": ["a", "b", "c"], "positive": "z"}, "is none of the labels"),
        ({"labels": ["a", "b", "c", "b"]}, "the label 'b' is declared twice"),
        ({"labels": ["a", ""]}, "a label is empty"),
        ({"labels": []}, "at least one"),
        ({"labels": "abc"}, "list of strings"),
    ],
)
def test_wrong_usage(options, message):
    with pytest.raises(UsageError, match=message):
        evaluate(GOLD, PREDICTED, **options)


def test_a_string_is_no_list_of_labels():
    with pytest.raises(UsageError, match="list"):
        evaluate("aab", "aba")


def test_labels_are_compared_as_they_are():
    values = evaluate(["a", "A", "1", "1.0"], ["a ", "a", "1", "1"]).values()
    assert values == {"accuracy": 0.25}
    assert classification.evaluate(["é"], ["e\u0301"]).values() == {"accuracy": 0.0}
