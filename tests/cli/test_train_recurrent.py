"""train-lm with recurrent models: all their options, stopped and continued, and what goes wrong."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Run

from nlptools import bundle
from nlptools.files import artifacts

SMALL = ("-t", "vocab.tsv", "--layers", 2, "--hidden", 20, "--context", 12, "--batch-size", 4, "--threads", 1,
         "--precision", "fp32", "--lr", "1e-2", "-q")  # fmt: skip
TIED = ("--arch", "lstm", "--embedding", 12, "--output-bias", "--dropout", 0.2, "--input-dropout", 0.1,
        "--layer-dropout", 0.3, "--locked-dropout", "--word-dropout", 0.1, "--weight-dropout", 0.3, "--ar", 2, "--tar", 1,
        "--vary-context", "--first-state", "--initial-range", 0.2)  # fmt: skip
ADAPTIVE = ("--arch", "gru", "--adaptive", "6,12", "--vary-context", "--dropout", 0.1)


@pytest.fixture
def text(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    words = [f"w{min(i, 19)}" for i in rng.geometric(0.2, 3000)]
    lines = [" ".join(words[i : i + 6]) for i in range(0, 3000, 6)]
    (tmp_path / "train.txt").write_text("\n".join(lines[:450]) + "\n")
    (tmp_path / "valid.txt").write_text("\n".join(lines[450:]) + "\n")
    rows = [f"{word}\t{count}\n" for word, count in Counter(words).most_common()]
    (tmp_path / "vocab.tsv").write_text("<unk>\t0\n</s>\t500\n" + "".join(rows))
    return tmp_path


def train(call: Run, *more: Any) -> Any:
    return call("train-lm", *SMALL, *more, "train.txt")


@pytest.mark.sampled(law="a stopped run goes on")
@pytest.mark.parametrize("options", [TIED, ADAPTIVE], ids=["tied", "adaptive"])
def test_a_run_that_is_stopped_ends_as_one_that_is_not(call: Run, text: Path, options: tuple[Any, ...]) -> None:
    args = (*options, "--valid", "valid.txt", "--carry", "--epochs", 1, "-o")
    whole = train(call, *args, "whole")
    assert (whole.code, whole.err) == (0, "")
    stopped = train(call, *args, "parts", "--max-time", "0.01")
    assert stopped.code == 75, stopped.err
    assert train(call, *args, "parts").code == 0
    first, second = (artifacts.load_weights(text / name) for name in ("whole", "parts"))
    assert all(bool((tensor == second[name]).all()) for name, tensor in first.items())

    record = json.loads((text / "whole/training.json").read_text())
    total = json.loads(call("score", "whole", "--carry", "--precision", "fp32", "--per", "total", "valid.txt").text)
    assert total["loss"] == pytest.approx(record["metrics"]["valid_loss"], rel=1e-5) and total["loss"] < 2.7
    assert call("generate", "whole", "--beam", 2, "--max-new-tokens", 3, "--text", "w1 w2").code == 0
    steps = [json.loads(line) for line in (text / "whole/log.jsonl").read_text().split("\n") if line]
    assert len({row["lr"] for row in steps if row["kind"] == "train"}) > 2


def test_options_reach_the_model(call: Run, text: Path) -> None:
    assert train(call, *TIED, "--steps", 1, "-o", "lm").code == 0
    config = bundle.load(text / "lm").model.config
    assert config.layer_sizes == [20, 12] and config.first_state and config.locked_dropout and config.output_bias
    assert (config.hidden_dropout, config.input_dropout, config.layer_dropout) == (0.2, 0.1, 0.3)
    assert (config.word_dropout, config.weight_dropout, config.initializer_range) == (0.1, 0.3, 0.2)
    assert (config.activation_penalty, config.change_penalty) == (2.0, 1.0)
    assert train(call, "--arch", "rnn", "--untied", "--embedding", 8, "--steps", 1, "-o", "rnn").code == 0
    config = bundle.load(text / "rnn").model.config
    assert config.layer_sizes == [20, 20] and config.embedding_size == 8 and not config.tied and config.output_bias


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--arch", "gru", "--adaptive", "6,600"), "--adaptive 6,600: the vocabulary has 21 tokens"),
        (("--arch", "gru", "--adaptive", "6,5"), "not ascending numbers of tokens: '6,5'"),
        (("--weight-dropout", 0.5), "--weight-dropout applies to --arch rnn, lstm, gru only"),
        (("--arch", "transformer", "--ar", 2), "--ar applies to --arch rnn, lstm, gru only"),
    ],
)
def test_options_that_do_not_go_together(call: Run, text: Path, options: tuple[Any, ...], message: str) -> None:
    refused = train(call, *options, "-o", "lm")
    assert refused.code == 2 and message in refused.err and not (text / "lm").exists()


def test_a_vocabulary_in_another_order_is_worth_a_warning(call: Run, text: Path) -> None:
    lines = (text / "vocab.tsv").read_text().splitlines(keepends=True)
    (text / "vocab.tsv").write_text("".join([*lines[:2], *reversed(lines[2:])]))
    done = train(call, *ADAPTIVE, "--steps", 1, "-o", "lm")
    assert done.code == 0 and "the vocabulary is not sorted by frequency" in done.err
