"""GLUE's metrics equal those put together out of scikit-learn and scipy, on random and on published labels."""

from __future__ import annotations

import numpy as np
import pytest

from nlptools.formats.glue import GLUE
from nlptools.metrics.glue import evaluate
from tests.real_data import published

sklearn_metrics = pytest.importorskip("sklearn.metrics")
stats = pytest.importorskip("scipy.stats")
pytestmark = pytest.mark.reference


def theirs(metric, gold, predicted):
    if metric == "matthews":
        return sklearn_metrics.matthews_corrcoef(gold, predicted)
    if metric == "accuracy":
        return sklearn_metrics.accuracy_score(gold, predicted)
    if metric == "f1":
        return sklearn_metrics.f1_score(gold, predicted, pos_label="1", zero_division=0)
    return {"pearson": stats.pearsonr, "spearman": stats.spearmanr}[metric](
        [float(value) for value in gold], [float(value) for value in predicted]
    ).statistic


def check(task, gold, predicted):
    values = evaluate(task, gold, predicted).values()
    expected = {metric: theirs(metric, gold, predicted) for metric in GLUE[task].metrics}
    if len(expected) > 1:
        expected["mean"] = sum(expected.values()) / len(expected)
    assert values == pytest.approx(expected, rel=0, abs=1e-12)


@pytest.mark.parametrize("task", GLUE)
def test_random_labels(task):
    for seed in range(5):
        rng = np.random.default_rng(seed)
        if labels := GLUE[task].labels:
            gold = rng.choice(labels, size=400)
            predicted = np.where(rng.random(400) < 0.7, gold, rng.choice(labels, size=400))
        else:
            gold = rng.integers(0, 26, size=400) / 5
            predicted = gold + rng.normal(size=400).round(2)
        check(task, [str(label) for label in gold], [str(label) for label in predicted])


@pytest.mark.parametrize(
    ("task", "name", "text", "label"), [("cola", "cola/in_domain_dev.tsv", 3, 1), ("sst-2", "sst2/dev.tsv", 0, 1)]
)
def test_published_labels(task, name, text, label):
    """Of sentences whose length is taken for their label."""
    path = published(name)
    rows = [line.split("\t") for line in path.read_text(encoding="utf-8").removesuffix("\n").split("\n")]
    rows = [row for row in rows if row[label] in ("0", "1")]  # without a heading
    gold, predicted = [row[label] for row in rows], [str(int(len(row[text]) < 60)) for row in rows]
    assert len(rows) > 400
    check(task, gold, predicted)
    assert evaluate(task, gold, predicted).intervals(resamples=20).keys() == set(GLUE[task].metrics)
