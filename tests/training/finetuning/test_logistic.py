"""Logistic regressions and pooled word vectors: the first classifiers, compared with scikit-learn."""

from __future__ import annotations

import csv
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import Run
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from nlptools import bundle
from tests.tasks.tiny_tasks import table, texts

N, PENALTY = 120, 0.02  # the L2 penalty per example: scikit-learn's C is 1 / (PENALTY N)
TO_THE_OPTIMUM = ("--optimizer", "sgd", "--weight-decay", PENALTY, "--batch-size", N, "--clip", 0)


def objective(directory: Path, probabilities: np.ndarray, labels: list[str]) -> float:
    """The mean loss and the penalty."""
    loaded = bundle.load(directory)
    names = [loaded.config["id2label"][str(i)] for i in range(probabilities.shape[1])]
    chosen = probabilities[np.arange(len(labels)), [names.index(label) for label in labels]]
    return float(-np.log(chosen).mean() + PENALTY / 2 * (loaded.model.weight.detach().double() ** 2).sum())


def sklearn_objective(model: LogisticRegression, x: np.ndarray, labels: list[str]) -> float:
    chosen = model.predict_proba(x)[np.arange(len(labels)), [list(model.classes_).index(label) for label in labels]]
    return float(-np.log(chosen).mean() + PENALTY / 2 * (model.coef_**2).sum())


def predicted(call: Run, *args: object) -> tuple[np.ndarray, list[str]]:
    """Probabilities (N, K) in the order of the labels of the model, and the most probable labels."""
    done = call("predict", *args, "--probabilities")
    assert done.code == 0, done.err
    rows = [[float(field) for field in line.split("\t")] for line in done.lines[1:]]
    plain = call("predict", *args)
    return np.array(rows), [line.split("\t")[0] for line in plain.lines]


def test_columns_of_numbers_as_scikit_learn(call: Run, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(N, 3)) * [1, 100, 0.01] + [5, -300, 0]
    scores = (x - x.mean(0)) / x.std(0) @ rng.normal(size=(3, 3)) * 2 + rng.gumbel(size=(N, 3))
    labels = [("red", "green", "blue")[i] for i in scores.argmax(1)]
    with open(tmp_path / "a.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["kind", "length", "width", "name", "height"])
        for row, label in zip(x.tolist(), labels, strict=True):
            writer.writerow([label, row[0], row[1], "x", row[2]])
    how = ("--task", "classify", "--scratch", "logistic", "--values", "numbers", "--text-column", "length,width,height")
    done = call(
        "finetune", *how, "--label-column", "kind", *TO_THE_OPTIMUM, "--lr", 0.5, "--epochs", 400, "-o", "m", "a.csv"
    )
    assert done.code == 0, done.err
    probabilities, found = predicted(call, "m", "a.csv")
    scaled = StandardScaler().fit_transform(x.astype(np.float32))
    theirs = LogisticRegression(C=1 / (PENALTY * N), tol=1e-8, max_iter=1000).fit(scaled, labels)
    ours, best = objective(tmp_path / "m", probabilities, labels), sklearn_objective(theirs, scaled, labels)
    assert ours == pytest.approx(best, abs=1e-4)
    assert found == theirs.predict(scaled).tolist()
    order = [list(theirs.classes_).index(name) for name in bundle.load(tmp_path / "m").config["id2label"].values()]
    assert np.allclose(probabilities, theirs.predict_proba(scaled)[:, order], atol=2e-3)
    weight = bundle.load(tmp_path / "m").model.weight.detach()
    assert torch.allclose(weight, torch.tensor(theirs.coef_[order].T, dtype=torch.float32), atol=1e-2)
    for cell in ("", "inf", "two"):
        (tmp_path / "b.csv").write_text(f"kind,length,width,name,height\nred,1,2,x,3\nblue,1,{cell},x,3\n")
        for command in (("predict", "m"), ("finetune", *how, "--label-column", "kind", "-o", "x")):
            refused = call(*command, "b.csv")
            assert refused.code == 65 and "b.csv:3: expected 3 finite numbers" in refused.err, refused.err


def test_counts_of_words_as_scikit_learn(call: Run, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    words = [f"w{i}" for i in range(12)]
    rows = [(" ".join(rng.choice(words, rng.integers(1, 9))), "") for _ in range(N)]
    rows = [(text, "abc"[(text.count("w1 ") + 2 * text.count("w2") + int(rng.integers(2))) % 3]) for text, _ in rows]
    table(tmp_path / "a.tsv", rows)
    how = ("--task", "classify", "--scratch", "logistic", "--no-lowercase")
    done = call("finetune", *how, *TO_THE_OPTIMUM, "--lr", 0.3, "--epochs", 500, "-o", "m", "a.tsv")
    assert done.code == 0, done.err
    labels = [label for _, label in rows]
    probabilities, found = predicted(call, "m", "a.tsv")
    counts = CountVectorizer(token_pattern=r"\S+").fit_transform([text for text, _ in rows]).toarray()
    theirs = LogisticRegression(C=1 / (PENALTY * N), tol=1e-8, max_iter=2000).fit(counts, labels)
    best = sklearn_objective(theirs, counts, labels)
    assert objective(tmp_path / "m", probabilities, labels) == pytest.approx(best, abs=2e-4)
    share = np.mean(np.array(found) == theirs.predict(counts))
    assert share > 0.97 and best < math.log(3) - 0.05
    assert len(call("predict", "m", stdin="w1 w1\n\nnever seen\n").lines) == 3


def test_the_defaults_learn_counts_and_pooled_vectors(call: Run, tmp_path: Path) -> None:
    table(tmp_path / "a.tsv", texts(300))
    table(tmp_path / "b.tsv", texts(40, 1))
    for name, more in (
        ("logistic", ()),
        ("mean", ("--pooling", "max", "--epochs", 8, "--lr", "1e-2")),
        ("mean", ("--pooling", "max", "--depth", 0, "--epochs", 8, "--lr", "2e-2")),
    ):
        done = call(
            "finetune",
            "--task",
            "classify",
            "--scratch",
            name,
            *more,
            "--valid",
            "b.tsv",
            "--force",
            "-o",
            "m",
            "a.tsv",
        )
        assert done.code == 0 and "validation accuracy 1.0" in done.err, done.err
        assert [line.split("\t")[0] for line in call("predict", "m", stdin="good w1\nbad w2\n").lines] == [
            "good",
            "bad",
        ]
        config = bundle.load(tmp_path / "m").config
        assert name == "logistic" or (config["pooling"], config["hidden_layer"]) == ("max", "--depth" not in more)
    (tmp_path / "v.txt").write_text("2 1\ngood 1\nbad 0\n")
    for args, message in (
        (("--scratch", "bag", "--pooling", "max"), "--pooling applies to --scratch mean only"),
        (("--scratch", "mean", "--values", "numbers"), "--values applies to --scratch logistic only"),
        (("--scratch", "lstm", "--depth", 0), "--depth 0 applies to --scratch mean only"),
        (("--scratch", "logistic", "--vectors", "v.txt"), "--vectors cannot be combined with --scratch logistic"),
    ):
        refused = call("finetune", "--task", "classify", *args, "-o", "x", "a.tsv")
        assert refused.code == 2 and message in refused.err, refused.err
    pair = call("finetune", "--task", "pair", "--scratch", "logistic", "-o", "x", "a.tsv")
    assert pair.code == 2 and "'logistic' is not one of" in pair.err
