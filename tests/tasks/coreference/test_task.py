"""Pronouns and two names: learnt, measured as GAP does, predicted."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
import torch

from nlptools import bundle
from nlptools.errors import DataError, UsageError
from nlptools.formats.examples import Coreference, Place
from nlptools.layers.heads import MentionHead, mean_of_spans
from nlptools.tasks.coreference import task as pronouns
from tests.tasks.classify.test_task import predicted
from tests.tasks.tiny_tasks import encoder, table, train

HOW: dict[str, Any] = {"task": "coreference", "epochs": 8.0, "lr": 4e-3}
HEADER = ("ID", "Text", "Pronoun", "Pronoun-offset", "A", "A-offset", "A-coref", "B", "B-offset", "B-coref", "URL")


def gap(path: Path, count: int, seed: int = 0, words: int = 5) -> Path:
    """The pronoun, w0, means the name behind `good`; names are w1 and w2, in any order."""
    rng, rows = random.Random(seed), [HEADER]
    for number in range(count):
        label = rng.choice(("A", "B", "neither"))
        names = [["good" if label == "A" else "bad", "w1"], ["good" if label == "B" else "bad", "w2"], ["w0"]]
        rng.shuffle(names)
        text = " ".join(" ".join([*name, *(f"w{rng.randrange(3, 20)}" for _ in range(words // 3))]) for name in names)
        at = {word: f" {text} ".index(f" {word} ") for word in ("w0", "w1", "w2")}
        said = [str(label == name).upper() for name in "AB"]
        rows.append(
            (f"t-{number}", text, "w0", str(at["w0"]), "w1", str(at["w1"]), said[0], "w2", str(at["w2"]), said[1], "u")
        )
    return table(path, rows)


def labels(path: Path) -> list[str]:
    rows = [line.split("\t") for line in path.read_text().split("\n")[1:-1]]
    return ["A" if row[6] == "TRUE" else "B" if row[9] == "TRUE" else "neither" for row in rows]


@pytest.mark.sampled(law="an encoder learns a task")
@pytest.mark.parametrize("family", ["bert", "electra"])
def test_the_name_behind_the_word_is_found(tmp_path: Path, family: str) -> None:
    encoder(tmp_path / "encoder", family, **({"embedding_size": 16} if family == "electra" else {}))
    done = train(tmp_path, gap(tmp_path / "a.tsv", 400), gap(tmp_path / "b.tsv", 60, 1), **HOW)
    assert done.metrics["valid_f1"] > 0.95 > 0.7 > done.metrics["valid_f1_nearest"]
    assert bundle.load(tmp_path / "out").config["architectures"] == [f"{family.capitalize()}Model"]
    test = gap(tmp_path / "c.tsv", 50, 2)
    rows = [line.split("\t") for line in predicted(tmp_path / "out", test)]
    assert sum(row[0] == label for row, label in zip(rows, labels(test), strict=True)) > 46
    assert all(sum(map(float, row[1:])) == pytest.approx(1, abs=3e-4) and len(row) == 4 for row in rows)
    assert predicted(tmp_path / "out", test, window=7, batch_tokens=40) == ["\t".join(row) for row in rows]
    scored = predicted(tmp_path / "out", test, submission=True)
    assert scored[0].split("\t") == ["t-0", str(rows[0][0] == "A").upper(), str(rows[0][0] == "B").upper()]
    first = json.loads(predicted(tmp_path / "out", test, to="jsonl")[0])
    assert first["id"] == "t-0" and first["prediction"] == rows[0][0] == max(
        first["probabilities"], key=lambda label: first["probabilities"][label]
    )


def test_a_long_text_loses_what_is_far_from_the_mentions(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    train(tmp_path, gap(tmp_path / "a.tsv", 20), **{**HOW, "steps": 1})
    assert len(predicted(tmp_path / "out", gap(tmp_path / "b.tsv", 5, words=60))) == 5
    assert "cut 5 examples that exceeded the maximum length" in capfd.readouterr().err


def test_one_class_only(tmp_path: Path) -> None:
    path = gap(tmp_path / "a.tsv", 30)
    lines = path.read_text().split("\n")[:-1]
    keep = [line for line, label in zip(lines[1:], labels(path), strict=True) if label == "B"]
    path.write_text("\n".join([lines[0], *keep]) + "\n")
    with pytest.raises(DataError, match="only one class: every label is B"):
        train(tmp_path, path, **HOW)
    with pytest.raises(UsageError, match="--class-weights"):
        train(tmp_path, path, class_weights="balanced", **HOW)


def test_f1_by_hand() -> None:
    # A right, A for B (one false, one missed), neither right, B missed
    assert pronouns.f1(["A", "B", "neither", "B"], ["A", "A", "neither", "neither"]) == pytest.approx(2 / 5)
    assert pronouns.f1(["neither"], ["neither"]) == 0


def test_the_nearest_name_by_hand() -> None:
    def example(a: int, b: int) -> Coreference:
        text = list("." * 40)
        for name, at in (("he", 20), ("Ann", a), ("Bo", b)):
            text[at : at + len(name)] = name
        return Coreference("x", "".join(text), "he", 20, "Ann", a, "Bo", b, "A", Place("-", 1))

    assert pronouns.nearest(example(10, 28)) == "B"  # 7 characters between, and 6
    assert pronouns.nearest(example(10, 29)) == "A"
    assert pronouns.nearest(example(25, 0)) == "A"


def test_means_of_spans_by_hand() -> None:
    hidden = torch.tensor([[1.0, 2], [3, 4], [5, 9], [7, 7]])
    found = mean_of_spans(hidden, torch.tensor([[[0, 1], [2, 2]], [[1, 3], [3, 3]]]))
    assert torch.allclose(found, torch.tensor([[[2.0, 3], [5, 9]], [[5, 20 / 3], [7, 7]]]))


def test_names_change_places_with_their_scores() -> None:
    torch.manual_seed(0)
    head = MentionHead(8, "gelu", 0.1).eval()
    hidden, spans = torch.randn(12, 8), torch.tensor([[[0, 1], [3, 3], [6, 8]], [[9, 9], [10, 10], [11, 11]]])
    scores, other = head(hidden, spans), head(hidden, spans[:, [0, 2, 1]])
    assert torch.allclose(scores[:, [1, 0, 2]], other) and torch.all(scores[:, 2] == 0)
    assert not torch.allclose(scores, other)
