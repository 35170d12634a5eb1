"""--task seq2seq does what train-seq2seq --init does, and predict says what generate says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
from tiny_encoder_decoders import tiny

from nlptools import bundle
from nlptools.text.builtin import NamedTokenizer
from nlptools.text.vocab import Vocab
from tests.tasks.tiny_tasks import encoder

HOW: tuple[Any, ...] = (
    "--epochs",
    1,
    "--lr",
    1e-2,
    "--threads",
    1,
    "--save-every",
    "never",
    "--valid",
    "valid.tsv",
    "-q",
)


def weights(path: Path) -> dict[str, Any]:
    return {name: tensor.tolist() for name, tensor in safetensors.torch.load_file(path / "model.safetensors").items()}


@pytest.fixture
def text(tmp_path: Path) -> Path:
    """Pairs, and encoder-decoders with one tokenizer and with two."""
    words = [f"w{i}" for i in range(27)]
    source = NamedTokenizer("whitespace", Vocab(["</s>", "<unk>", *words]))
    target = NamedTokenizer("whitespace", Vocab(["</s>", "<unk>", *reversed(words)]))
    for name, other, form in (("one", None, "transformer-pre"), ("two", target, "rnn")):
        model = tiny(form, share_embeddings=False)
        (tmp_path / name).mkdir()
        bundle.save_pair(
            tmp_path / name, f"seq2seq-{form[:11].split('-')[0]}", model, model.state_dict(), source, other, training={}
        )
    rows = [f"w{i % 9} w{i % 7}\tw{i % 7} w{i % 9}\n" for i in range(64)]
    (tmp_path / "train.tsv").write_text("".join(rows))
    (tmp_path / "valid.tsv").write_text("".join(rows[:8]))
    return tmp_path


def test_it_is_training_of_encoder_decoders_that_goes_on(text: Path, call: Any) -> None:
    assert call("finetune", "--task", "seq2seq", "-m", "one", *HOW, "-o", "a", "train.tsv").code == 0
    same = ("-t", "one", "--init", "one", "--dropout", 0, "--batch-size", 32, "--batch-tokens", 0, "--min-lr", 0)
    schedule = ("--warmup", 0.1, "--schedule", "linear", "--weight-decay", 0.01, "--beta2", 0.999)
    done = call("train-seq2seq", *HOW, *same, *schedule, "-o", "b", "train.tsv")
    assert done.code == 0, done.err
    assert weights(text / "a") == weights(text / "b") != weights(text / "one")
    said = call("generate", "a", stdin="w1 w2\n\nw3\n").lines
    assert call("predict", "a", stdin="w1 w2\n\nw3\tw4\n").lines == said and len(said) == 3
    assert call("predict", "a", "--columns", stdin="w3\tw4\n").lines == [f"w3\tw4\t{said[2]}"]


def test_a_model_with_two_tokenizers_keeps_them(text: Path, call: Any) -> None:
    done = call("finetune", "--task", "seq2seq", "-m", "two", *HOW, "--steps", 1, "-o", "a", "train.tsv")
    assert done.code == 0, done.err
    found = bundle.load(text / "a")
    assert found.tokenizer.encode("w1 w2") == [3, 4]
    assert found.target_tokenizer is not None and found.target_tokenizer.encode("w1 w2") == [27, 26]


def test_what_has_no_meaning_is_refused(text: Path, call: Any) -> None:
    encoder(text / "encoder")
    task = ("finetune", "--task", "seq2seq", "-o", "x", "train.tsv")
    for arguments, told in (
        (("-m", "one", "--freeze", "1"), "--freeze applies to --task classify"),
        (("-m", "one", "--layout", "table"), "--layout applies to --task classify"),
        (("-m", "one", "--best", "f1"), "'f1' is not one of auto, loss"),
        (("-m", "encoder"), "encoder is not an encoder-decoder"),
    ):
        done = call(*task, *arguments)
        assert done.code == 2 and told in done.err
    done = call("predict", "one", "--top-k", 2, stdin="w1\n")
    assert done.code == 2 and "--top-k does not apply to --task seq2seq" in done.err
