"""Tags of words: learnt, kept to their scheme, written back as columns."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from nlptools import bundle
from nlptools.backend import Backend
from nlptools.configs.finetuning import Files, Predict
from nlptools.errors import DataError, UsageError
from nlptools.prediction import Predictor
from tests.finetuning.tiny import FP32, encoder, train


def sentences(count: int, seed: int = 0, longest: int = 8) -> list[list[tuple[str, str]]]:
    """(word, tag): `good` begins an entity, and the word after it belongs to it; `bad` is one by itself."""
    rng, made = random.Random(seed), []
    for _ in range(count):
        rows: list[tuple[str, str]] = []
        for _ in range(rng.randrange(1, longest)):
            kind, word = rng.random(), f"w{rng.randrange(20)}"
            if kind < 0.2:
                rows += [("good", "B-A"), (word, "I-A")]
            else:
                rows.append(("bad", "B-B") if kind < 0.4 else (word, "O"))
        made.append(rows)
    return made


def columns(path: Path, made: list[list[tuple[str, str]]]) -> Path:
    path.write_text("".join("".join(f"{word} x {tag}\n" for word, tag in rows) + "\n" for rows in made))
    return path


def predicted(directory: Path, path: Path, **changes: Any) -> list[str]:
    files = {name: changes.pop(name) for name in list(changes) if name in Files.__dataclass_fields__}
    made = Predictor(bundle.load(directory), Backend.detect(FP32), Predict(**changes), Files(**files))
    return [line for some in made.lines([str(path)]) for line in some]


def test_spans_are_learnt_and_written_back(tmp_path: Path) -> None:
    encoder(tmp_path / "encoder", max_position_embeddings=128)
    path = columns(tmp_path / "a.txt", sentences(400))
    valid = columns(tmp_path / "b.txt", sentences(40, 1))
    done = train(tmp_path, path, valid, task="tag", epochs=6.0)
    assert done.metrics["valid_f1"] > 0.97 and list(done.metrics)[-1] == "valid_f1" and "words" in done.metrics
    config = bundle.load(tmp_path / "out").config
    assert config["architectures"] == ["BertForTokenClassification"]
    assert config["id2label"] == {"0": "B-A", "1": "B-B", "2": "I-A", "3": "O"}
    assert config["nlptools"]["task"]["scheme"] == "iob2"
    new = sentences(30, 2)
    test = columns(tmp_path / "c.txt", new)
    given = test.read_text().split("\n")
    lines = predicted(tmp_path / "out", test, columns=True, window=7)
    assert [line.rsplit(" ", 1)[0] if line else "" for line in lines] == given[:-1]
    plain = predicted(tmp_path / "out", test)
    assert [len(line.split(" ")) for line in plain] == list(map(len, new))
    assert [line.rsplit(" ", 1)[1] for line in lines if line] == " ".join(plain).split(" ")
    right = sum(
        a == tag
        for line, rows in zip(plain, new, strict=True)
        for a, (_, tag) in zip(line.split(" "), rows, strict=True)
    )
    assert right > 0.95 * sum(map(len, new))
    assert not any(line.startswith("I-") or "O I-" in line for line in plain)
    # words between spaces, an empty line among them
    (tmp_path / "d.txt").write_text("w1 good w2\n\nbad\n")
    assert [len(line.split()) for line in predicted(tmp_path / "out", tmp_path / "d.txt", layout="lines")] == [3, 0, 1]


def test_no_word_of_a_long_sentence_is_lost(tmp_path: Path) -> None:
    path = columns(tmp_path / "a.txt", sentences(200, longest=12))
    train(tmp_path, path, task="tag", epochs=1.0)
    long = columns(tmp_path / "b.txt", [sentences(1, 5, 3)[0] * 60, sentences(1, 6)[0]])
    lines = predicted(tmp_path / "out", long, columns=True)
    assert [line.rsplit(" ", 1)[0] for line in lines if line] == [line for line in long.read_text().split("\n") if line]


def test_tags_of_words_need_no_scheme(tmp_path: Path) -> None:
    encoder(tmp_path / "encoder", max_position_embeddings=128)
    names = {"B-A": "JJ", "I-A": "NN", "B-B": "RB", "O": "VB"}
    made = [[(word, names[tag]) for word, tag in rows] for rows in sentences(300)]
    path = columns(tmp_path / "a.txt", made)
    done = train(tmp_path, path, path, task="tag", epochs=12.0)
    assert done.metrics["valid_accuracy"] > 0.97 and "valid_f1" not in done.metrics
    with pytest.raises(UsageError, match="stand for words"):
        train(tmp_path, path, task="tag", best="f1", force=True)


def test_a_tag_unseen_in_training_is_named_with_file_and_line(tmp_path: Path) -> None:
    path = columns(tmp_path / "a.txt", sentences(20))
    valid = columns(tmp_path / "b.txt", [[("w1", "O")], [("w1", "O"), ("w2", "B-C")]])
    with pytest.raises(DataError, match=r"b\.txt:4: the tag 'B-C' was not seen in training"):
        train(tmp_path, path, valid, task="tag")
    with pytest.raises(DataError, match="only one class: every tag is 'O'"):
        train(tmp_path, columns(tmp_path / "c.txt", [[("w1", "O")]]), task="tag", force=True)
