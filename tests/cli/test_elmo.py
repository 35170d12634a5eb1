"""ELMo on the command line: training, stopping, scoring, generating, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from conftest import Run

from nlptools import bundle
from nlptools.files import artifacts

WORDS = [f"w{i}" for i in range(20)]
TRAIN = ("train-lm", "--arch", "elmo", "-t", "vocab.tsv", "--hidden", 16, "--cells", 24, "--filters", "1:8,3:16",
         "--highways", 0, "--context", 8,
         "--batch-size", 8, "--lr", 0.01, "--steps", 30, "--dropout", 0.1, "--threads", 1, "-q", "-o")  # fmt: skip
VALID = ("--valid", "valid.txt", "train.txt")


@pytest.fixture
def text(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    for name, count in (("train.txt", 60), ("valid.txt", 10)):
        lines = [" ".join(WORDS[i] for i in (np.arange(6) + rng.integers(0, 20)) % 20) for _ in range(count)]
        (tmp_path / name).write_text("\n".join([*lines, "", "w1 rare" + "x" * 60]) + "\n")
    (tmp_path / "vocab.tsv").write_text("<unk>\t0\n</s>\t0\n" + "".join(f"{word}\t1\n" for word in WORDS))
    return tmp_path


def test_it_trains_stops_continues_scores_and_generates(call: Run, text: Path) -> None:
    done = call(*TRAIN, "whole", *VALID)
    assert done.code == 0, done.err
    assert call(*TRAIN, "parts", *VALID, "--max-time", "0.01").code == 75
    assert call(*TRAIN, "parts", *VALID).code == 0
    weights = [artifacts.load_weights(text / name) for name in ("whole", "parts")]
    assert all(bool((tensor == weights[1][name]).all()) for name, tensor in weights[0].items())

    total = json.loads(call("score", "whole", "--per", "total", "valid.txt").text)
    metrics = json.loads((text / "whole/training.json").read_text())["metrics"]
    assert total["loss"] == pytest.approx(metrics["valid_loss"], rel=1e-4) and total["perplexity"] < 18
    both = total["forward_perplexity"] * total["backward_perplexity"]
    assert total["perplexity"] ** 2 == pytest.approx(both, rel=1e-5)

    rows = np.array([line.split("\t") for line in call("score", "whole", "valid.txt").lines], float)
    assert rows.shape == (12, 4) and rows[10, 1] == 1, "an empty line has its boundary"
    assert rows[:, 0].sum() == pytest.approx(total["log_probability"], rel=1e-4)
    assert np.allclose(rows[:, 0], rows[:, 2:].mean(1), atol=1e-3)
    objects = [json.loads(line) for line in call("score", "whole", "--to", "jsonl", "valid.txt").lines]
    assert [each["forward"] for each in objects] == pytest.approx(rows[:, 2].tolist(), abs=1e-3)
    tokens = call("score", "whole", "--per", "token", stdin="w1 never w2\n").lines
    assert [line.split("\t")[0] for line in tokens] == ["w1", "<unk>", "w2", "</s>", ""]
    by_field = call("score", "whole", "--text-column", 2, stdin="x\tw1 w2\n").lines
    assert len(by_field[0].split("\t")) == 6

    for options in (("--temperature", 0), ("--beam", 3)):
        generated = call("generate", "whole", "--max-new-tokens", 3, *options, stdin="w1 w2\nw7\n")
        assert generated.code == 0 and len(generated.lines) == 2, generated.err
    assert "elmo" in call("describe", "whole").text
    assert call(*TRAIN, "more", *VALID, "--init", "whole", "--lr", 0, "--steps", 1).code == 0


def test_words_outside_the_vocabulary_are_read_as_they_are_spelled(call: Run, text: Path) -> None:
    """They have one probability as the unknown token, but the words around them depend on their spelling."""
    assert call(*TRAIN, "lm", "--steps", 3, "train.txt").code == 0
    one, two = (np.array(call("score", "lm", stdin=f"w1 {word} w2\n").text.split(), float) for word in ("new", "xyz"))
    assert not np.allclose(one[2:], two[2:], atol=1e-3)
    again = np.array([line.split("\t") for line in call("score", "lm", stdin="a b\nw1 xyz w2\n").lines], float)
    assert np.allclose(again[1], two, atol=1e-3), "whatever unknown words came before"


def test_long_words_are_cut_with_a_count(call: Run, text: Path) -> None:
    done = call(*(arg for arg in TRAIN if arg != "-q"), "lm", "--steps", 1, "train.txt")
    assert done.code == 0 and "1 word is longer than 48 bytes" in done.err, done.err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--carry", *VALID), "--carry applies to every --arch but elmo, ngram"),
        (("--vectors", "v.txt", "train.txt"), "--vectors applies to every --arch but elmo, ngram"),
        (("--sampled", 5, "--adaptive", "4,8", "train.txt"), "--sampled cannot be combined with --adaptive"),
        (("--heads", 2, "train.txt"), "--heads applies to --arch transformer, modern, transformer-xl only"),
        (("--filters", "1:8,60:2", "train.txt"), "not filters: '1:8,60:2', expected something like 1:32,2:64"),
        (("-t", "bytes", "train.txt"), "does not split text into words"),
    ],
)
def test_options_that_do_not_fit_are_refused(call: Run, text: Path, options: tuple[object, ...], message: str) -> None:
    (text / "v.txt").write_text("1 16\nw1 " + " ".join("1" * 16) + "\n")
    done = call(*TRAIN, "lm", *options)
    assert done.code == 2 and message in done.err, done.err


def test_scores_that_one_direction_has_are_refused(call: Run, text: Path) -> None:
    assert call(*TRAIN, "lm", "--steps", 1, "train.txt").code == 0
    for options in (("--per", "word"), ("--carry",), ("--dynamic", 0.1)):
        done = call("score", "lm", *options, stdin="w1\n")
        assert done.code == 2 and done.err.count("\n") <= 2, done.err


def test_files_that_do_not_belong_together_are_refused(call: Run, text: Path) -> None:
    assert call(*TRAIN, "lm", "--steps", 1, "train.txt").code == 0
    (text / "lm/manifest.json").unlink()
    config = json.loads((text / "lm/config.json").read_text())
    for change in ({"cell_size": 25}, {"filters": [[1, 2]]}, {"filters": 3}, {"hidden_size": "a"}, {"cell_clip": -1}):
        (text / "lm/config.json").write_text(json.dumps({**config, **change}))
        done = call("score", "lm", stdin="w1\n")
        assert done.code == 78 and done.err.count("\n") == 1, done.err
    (text / "lm/config.json").write_text(json.dumps(config))
    assert bundle.load(text / "lm").arch == "elmo"
    (text / "lm/config.json").unlink()
    assert call("score", "lm", stdin="w1\n").code == 78
