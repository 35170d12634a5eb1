"""How every command begins, ends, is stopped, and is given again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import Run

SIZES = ("--layers", "1", "--hidden", "8", "--heads", "1")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A folder with a text, a table of labels, pairs, and their vocabularies."""
    (tmp_path / "text").write_text("one two three\ntwo three one four\n" * 30)
    (tmp_path / "labels.tsv").write_text("one two\tyes\nthree four\tno\n" * 6)
    (tmp_path / "pairs.tsv").write_text("one two\teins zwei\nthree\tdrei\n" * 6)
    words = ("one", "two", "three", "four", "eins", "zwei", "drei")
    (tmp_path / "words.tsv").write_text("<unk>\n<s>\n</s>\n" + "".join(f"{word}\n" for word in words))
    return tmp_path


def test_no_epochs_are_no_steps_in_every_training_command(call: Run, data: Path) -> None:
    words = ("-t", "whitespace", "--vocab", "words.tsv", *SIZES)
    for command in (
        ("train-lm", *words, "text"),
        ("train-seq2seq", *words, "pairs.tsv"),
        ("finetune", "--task", "classify", "--scratch", "bag", "labels.tsv"),
        ("train-w2v", "--min-count", "1", "text"),
    ):
        name = command[0]
        done = call(*command, "--epochs", 0, "-o", name)
        assert done.code == 0, done.err
        metrics = json.loads((data / name / "training.json").read_text())["metrics"]
        assert metrics.get("steps", metrics.get("chunk")) == 0
