"""An architecture that is one file and one row works with every command for language models."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from conftest import Run

from nlptools import bundle
from nlptools.files import artifacts

WORDS = [f"w{i}" for i in range(20)]
TRAIN = ("train-lm", "--arch", "toy", "-t", "vocab.tsv", "--hidden", 16, "--context", 8, "--batch-size", 2, "--lr", 0.03,
         "--steps", 40, "--dropout", 0.1, "--threads", 1, "-q", "--valid", "valid.txt", "train.txt", "-o")  # fmt: skip


@pytest.fixture
def text(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    for name, count in (("train.txt", 60), ("valid.txt", 10)):
        lines = [" ".join(WORDS[i] for i in (np.arange(6) + rng.integers(0, 20)) % 20) for _ in range(count)]
        (tmp_path / name).write_text("\n".join(lines) + "\n")
    (tmp_path / "vocab.tsv").write_text("<unk>\t0\n</s>\t0\n" + "".join(f"{word}\t1\n" for word in WORDS))
    return tmp_path


@pytest.fixture(autouse=True)
def train_lm_reads_the_registry_again() -> Iterator[None]:
    """Commands read the names of architectures when they are imported."""
    sys.modules.pop("nlptools.cli.train_lm", None)
    yield
    sys.modules.pop("nlptools.cli.train_lm", None)


def test_it_trains_stops_continues_scores_generates_and_embeds(call: Run, text: Path) -> None:
    assert "transformer|lstm|transformer-xl|convolution|ngram|toy" in call("train-lm", "--help").text
    assert call(*TRAIN, "whole").code == 0
    stopped = call(*TRAIN, "parts", "--max-time", "0.01")
    assert stopped.code == 75, stopped.err
    assert call(*TRAIN, "parts").code == 0
    weights = [artifacts.load_weights(text / name) for name in ("whole", "parts")]
    assert all(bool((tensor == weights[1][name]).all()) for name, tensor in weights[0].items())

    config = json.loads((text / "whole/config.json").read_text())
    assert (config["model_type"], config["architectures"], config["hidden_size"]) == ("nlptools-toy", ["Toy"], 16)
    assert bundle.load(text / "whole").arch == "toy"

    total = json.loads(call("score", "whole", "--per", "total", "valid.txt").text)
    record = json.loads((text / "whole/training.json").read_text())
    assert total["loss"] == pytest.approx(record["metrics"]["valid_loss"], rel=1e-5) and total["loss"] < 2.6
    lines = call("score", "whole", "valid.txt").lines
    assert sum(float(line.split("\t")[0]) for line in lines) == pytest.approx(total["log_probability"], rel=1e-4)

    for options in (("--temperature", 0), ("--beam", 3), ("--top-p", 0.9)):
        generated = call("generate", "whole", "--max-new-tokens", 3, *options, stdin="w1 w2\nw7\n")
        assert generated.code == 0 and len(generated.lines) == 2, generated.err
    vectors = call("embed", "whole", "--to", "tsv", "--layers", "concat:all", stdin="w1 w2\nw7\n")
    assert vectors.code == 0, vectors.err
    assert np.array([line.split("\t")[1:] for line in vectors.lines], np.float32).shape == (2, 32)
    assert "toy" in call("describe", "whole").text
    assert call(*TRAIN, "more", "--init", "whole", "--lr", 0).code == 0
