"""Metrics of labels equal scikit-learn's, on random labels and on resamples of them."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from conftest import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from nlptools.configs.metrics import AVERAGED as KINDS
from nlptools.metrics import label_tables
from nlptools.metrics.classification import METRICS, evaluate
from nlptools.metrics.tags import tagging_accuracy

sklearn_metrics = pytest.importorskip("sklearn.metrics")
pytestmark = pytest.mark.reference

LABELS = ["B-PER", "I-PER", "O", "neutral", "é"]


def theirs(gold, predicted, labels, positive):
    """The values of all METRICS but those per label, by name; then those per label."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a label that is only predicted; a single label
        values = {
            "accuracy": sklearn_metrics.accuracy_score(gold, predicted),
            "balanced_accuracy": sklearn_metrics.balanced_accuracy_score(gold, predicted),
            "matthews": sklearn_metrics.matthews_corrcoef(gold, predicted),
        }
        chosen = {"labels": labels, "zero_division": 0}
        rows = np.array(sklearn_metrics.precision_recall_fscore_support(gold, predicted, **chosen))
        values |= dict(zip((*KINDS, "support"), rows[:, labels.index(positive)].tolist()))
        for average in ("macro", "micro", "weighted"):
            found = sklearn_metrics.precision_recall_fscore_support(gold, predicted, average=average, **chosen)
            values |= {f"{kind}_{average}": value for kind, value in zip(KINDS, found)}
    for i, label in enumerate(labels):
        values |= {f"{name}:{label}": rows[j, i] for j, name in enumerate((*KINDS, "support"))}
    return values


def pairs_of(labels):
    return st.lists(st.tuples(st.sampled_from(labels), st.sampled_from(labels)), min_size=1, max_size=60)


@pytest.mark.filterwarnings("ignore:A single label was found")
@settings(max_examples=examples(120), deadline=None)
@given(st.integers(1, len(LABELS)).flatmap(lambda size: pairs_of(LABELS[:size])))
def test_labels_as_seen(pairs):
    gold, predicted = (list(side) for side in zip(*pairs))
    seen = sorted({*gold, *predicted})
    ours = evaluate(gold, predicted, METRICS, positive=seen[-1])
    assert ours.values() == pytest.approx(theirs(gold, predicted, seen, seen[-1]), rel=1e-12, abs=1e-12)
    matrix = sklearn_metrics.confusion_matrix(gold, predicted, labels=seen)
    assert ours.details == {"labels": seen, "confusion": matrix.tolist()}
    table = sklearn_metrics.classification_report(gold, predicted, digits=12, zero_division=0)
    lines = label_tables.report(ours, 12)
    expected = [line.removesuffix(".0").split() for line in table.rstrip("\n").split("\n")]  # 3.0 if nothing is right
    assert [line.split() for line in lines[: len(seen) + 6]] == expected
    assert lines[len(seen) + 6 :] == ["", *label_tables.confusion_lines(ours.details)]


@settings(max_examples=examples(80), deadline=None)
@given(pairs_of(LABELS), st.integers(0, 2**32 - 1))
def test_resamples_with_declared_labels(pairs, seed):
    gold, predicted = (np.array(side) for side in zip(*pairs))
    labels = LABELS[::-1]
    ours = evaluate(gold.tolist(), predicted.tolist(), METRICS, labels=labels, positive="O")
    drawn = np.random.default_rng(seed).integers(0, len(gold), size=(2, len(gold)))
    computed = ours.compute(np.stack([np.bincount(row, minlength=len(gold)) for row in drawn]))
    for row, values in zip(drawn, computed):
        expected = theirs(gold[row], predicted[row], labels, "O")
        assert dict(zip(ours.names, values.tolist())) == pytest.approx(expected, rel=1e-12, abs=1e-12)


@settings(max_examples=examples(80), deadline=None)
@given(st.lists(st.tuples(st.sampled_from("01"), st.sampled_from("01")), min_size=1, max_size=40))
def test_binary(pairs):
    gold, predicted = (list(side) for side in zip(*pairs))
    numbered = [[int(label) for label in side] for side in (gold, predicted)]
    found = sklearn_metrics.precision_recall_fscore_support(*numbered, average="binary", zero_division=0)
    expected = dict(zip(KINDS, found))
    assert evaluate(gold, predicted, KINDS).values() == pytest.approx(expected, rel=1e-12, abs=1e-12)


def test_many_examples_of_many_labels():
    rng = np.random.default_rng(0)
    gold = rng.zipf(1.3, size=20_000) % 300
    predicted = np.where(rng.random(20_000) < 0.6, gold, rng.integers(0, 300, size=20_000))
    sides = [[str(label) for label in side] for side in (gold, predicted)]
    ours = evaluate(*sides, METRICS, positive="7")
    seen = sorted({*sides[0], *sides[1]})
    assert ours.values() == pytest.approx(theirs(*sides, seen, "7"), rel=1e-12, abs=1e-12)


def test_tagging():
    rng = np.random.default_rng(1)
    gold, predicted = ([list(rng.choice(LABELS, size=n)) for n in range(40)] for _ in range(2))
    flat = [[label for sentence in side for label in sentence] for side in (gold, predicted)]
    assert tagging_accuracy(gold, predicted).values()["accuracy"] == sklearn_metrics.accuracy_score(*flat)
