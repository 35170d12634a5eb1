"""A tiny encoder of words and tasks that it learns in seconds: the label is a word that stands in the text."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch

from nlptools import bundle
from nlptools.configs import Compute
from nlptools.configs.finetuning import Finetune, FinetuneTraining
from nlptools.configs.tasks.files import Files
from nlptools.errors import Stopped
from nlptools.models.encoders.bert import EncoderConfig
from nlptools.models.encoders.bert_with_heads import BertWithHeads
from nlptools.models.language.gpt import GPT, GPTConfig
from nlptools.text.builtin import NamedTokenizer
from nlptools.text.vocab import Vocab
from nlptools.training.engine import stop
from nlptools.training.engine.job import Trained
from nlptools.training.finetuning.finetune import finetune

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "bad", *(f"w{i}" for i in range(20))]
FP32 = Compute(device="cpu", precision="fp32", threads=1)


def encoder(directory: Path, family: str = "bert", pooler: bool = True, **changes: Any) -> Path:
    """A model directory without any training."""
    sizes: dict[str, Any] = {
        "vocab_size": len(WORDS),
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
    }
    sizes |= {"intermediate_size": 64, "max_position_embeddings": 24, "hidden_dropout": 0.0, "attention_dropout": 0.0}
    config = EncoderConfig(**{**sizes, "layout": family, "initializer_range": 0.1, **changes})
    torch.manual_seed(0)
    model = BertWithHeads(config, ("pooler",) if pooler and family == "bert" else ())
    model.initialize()
    directory.mkdir(parents=True)
    tokenizer = NamedTokenizer("whitespace", Vocab(WORDS))
    bundle.save_encoder(directory, model, model.state_dict(), tokenizer, training={})
    return directory


GPT_WORDS = ["</s>", "<unk>", "good", "bad", *(f"w{i}" for i in range(20))]


def gpt(directory: Path, **changes: Any) -> Path:
    """The directory of a language model without any training."""
    sizes: dict[str, Any] = {"vocab_size": len(GPT_WORDS), "hidden_size": 32, "num_hidden_layers": 2}
    sizes |= {"num_attention_heads": 2, "intermediate_size": 64, "max_position_embeddings": 24}
    config = GPTConfig(**{**sizes, "initializer_range": 0.1, **changes})
    torch.manual_seed(0)
    model = GPT(config)
    model.initialize()
    directory.mkdir(parents=True)
    tokenizer = NamedTokenizer("whitespace", Vocab(GPT_WORDS))
    bundle.save(directory, "transformer", model, model.state_dict(), tokenizer, eos=0, document="line", training={})
    return directory


def texts(count: int, seed: int = 0, words: tuple[str, ...] = ("good", "bad")) -> list[tuple[str, str]]:
    """(text, label): which of `words` stands in the text."""
    rng, made = random.Random(seed), []
    for _ in range(count):
        label = rng.choice(words)
        rest = [f"w{rng.randrange(20)}" for _ in range(rng.randrange(1, 8))]
        rest.insert(rng.randrange(len(rest) + 1), label)
        made.append((" ".join(rest), label))
    return made


def table(path: Path, rows: Sequence[tuple[str, ...]]) -> Path:
    """A file of these rows, fields between tabs."""
    path.write_text("".join("\t".join(row) + "\n" for row in rows), encoding="utf-8")
    return path


def train(tmp_path: Path, train: Path, valid: Path | None = None, task: str = "classify", **changes: Any) -> Trained:
    """Fine-tune the tiny encoder `tmp_path`/encoder, made if need be, into `tmp_path`/out."""
    if not (tmp_path / "encoder").is_dir():
        encoder(tmp_path / "encoder")
    names = {name for name in changes if name in FinetuneTraining.__dataclass_fields__}
    how = {"lr": 3e-3, "epochs": 4.0, "output": str(tmp_path / "out"), "save_every": "never", "batch_size": 16}
    run = FinetuneTraining(**{**how, "valid": valid and str(valid), **{name: changes.pop(name) for name in names}})
    files = Files(**{name: changes.pop(name) for name in list(changes) if name in Files.__dataclass_fields__})
    settings = Finetune(**{"task": task, "model": str(tmp_path / "encoder"), **changes})
    return finetune([str(train)], settings, run, FP32, files)


@contextmanager
def stopped_at(call: int) -> Iterator[None]:
    """The body trains, and is stopped when it asks for the `call`th time whether it is to stop."""
    asked = itertools.count(1)
    requested = property(lambda self: next(asked) == call)
    with mock.patch.object(stop.Stop, "requested", requested), pytest.raises(Stopped):
        yield


def stop_and_go_on(tmp_path: Path) -> None:
    """A run with the encoder in `tmp_path` that is stopped and continued ends with the weights of one that is not."""
    path, valid = table(tmp_path / "a.tsv", texts(100)), table(tmp_path / "b.tsv", texts(30, 1))
    more: dict[str, Any] = {"epochs": 2.0, "layer_decay": 0.7, "unfreeze": 0.5}
    whole = train(tmp_path, path, valid, output=str(tmp_path / "whole"), **more)
    with stopped_at(6):
        train(tmp_path, path, valid, **more)
    again = train(tmp_path, path, valid, **more)
    assert again.steps == whole.steps == 14
    assert again.metrics["valid_loss"] == whole.metrics["valid_loss"]
    one, other = (dict(bundle.load(tmp_path / name).weights()) for name in ("whole", "out"))
    assert all(torch.equal(tensor, other[name]) for name, tensor in one.items())
