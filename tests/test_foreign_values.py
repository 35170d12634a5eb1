"""Model directories with values of the wrong type in their JSON: one plain error, or a model that works."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import tiny_encoders
import torch
from conftest import this_month
from tiny_bundles import words_bundle
from tiny_encoder_decoders import tiny

from nlptools import bundle
from nlptools.configs import Compute
from nlptools.configs.generation import Generate
from nlptools.errors import BundleError
from nlptools.inference import loading
from nlptools.models.encoders.bert import EncoderConfig
from nlptools.models.encoders.bert_with_heads import BertWithHeads
from nlptools.text import tokenizer as tokenizers
from nlptools.text.builtin import NamedTokenizer
from nlptools.text.vocab import Vocab

FP32 = Compute(device="cpu", precision="fp32", threads=1)
WRONG: tuple[Any, ...] = (None, True, 1.5, -1, 10**30, "x", [1], {"0": "x"})
WORDS = tiny_encoders.WORDS


def task(path: Path, head: str, name: str, more: dict[str, Any]) -> None:
    """The directory of an encoder with the head of a task, as finetune writes it."""
    config = EncoderConfig(len(WORDS), 8, 1, 2, 12, max_position_embeddings=12)
    model = BertWithHeads(config, ("pooler", head), 2)
    model.initialize()
    noted = {"nlptools": {"task": {"name": name, "layers": "last", "max_length": 12, **more}}}
    labels = {"id2label": {"0": "O", "1": "B-A"}, "label2id": {"O": 0, "B-A": 1}}
    path.mkdir()
    tokenizer = NamedTokenizer("whitespace", Vocab(WORDS))
    bundle.save_encoder(path, model, model.state_dict(), tokenizer, training={}, more={**labels, **noted})


def pair(path: Path) -> None:
    words = ["</s>", "<unk>", *(f"w{i}" for i in range(27)), "<pad>"]
    tokenizer = tokenizers.load("words", vocab=Vocab(words))
    model = tiny("transformer", size=len(words))
    path.mkdir()
    bundle.save_pair(path, "seq2seq-transformer", model, model.state_dict(), tokenizer, training={})


MAKERS: dict[str, Callable[[Path], Any]] = {
    "gpt": lambda path: words_bundle(path, num_hidden_layers=1),
    "lstm": lambda path: words_bundle(path, "lstm", num_hidden_layers=1),
    "encoder": tiny_encoders.encoder_bundle,
    "classify": lambda path: task(path, "sequence", "classify", {"labels": "one"}),
    "tag": lambda path: task(path, "tokens", "tag", {"scheme": "BIO"}),
    "pair": pair,
}


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of each value inside a JSON value."""
    if path:
        yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from places(inner, (*path, key))


def replaced(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    """A copy of a JSON value with another value at `path`."""
    copy = json.loads(json.dumps(value))
    inner = copy
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = new
    return copy


def use(path: Path) -> None:
    """Do with the model what commands do."""
    model: Any = loading.load(path, compute=FP32)
    if hasattr(model, "predictions"):
        texts = model.task.read([str(path.parent / "in")], False, "strict")
        for examples, found in model.predictions(texts):
            model.task.lines(found, examples, model.settings, True)
    elif hasattr(model, "generate_batch"):
        model.generate_batch(["w1 w2"], Generate(max_new_tokens=2))
    elif hasattr(model, "translate_batch"):
        model.translate_batch(["w1 w2"], Generate(max_new_tokens=2, beam=2))
    else:
        model.embed(["the cat"])


FILES = [(kind, "config.json") for kind in MAKERS]
FILES += [("pair", "training.json"), ("classify", "nlptools_tokenizer.json"), ("pair", "generation_config.json")]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("kind", "file"), FILES)
def test_values_of_the_wrong_type(tmp_path: Path, kind: str, file: str) -> None:
    torch.manual_seed(0)
    model = tmp_path / "model"
    MAKERS[kind](model)
    (model / "manifest.json").unlink()
    (tmp_path / "in").write_text("the cat\n\n")
    use(model)
    data = json.loads((model / file).read_text())
    refused, wrong = 0, []
    cells = [(path, value) for path in places(data) for value in WRONG]
    for path, value in this_month(cells, max(20, len(cells) // 4)):
        (model / file).write_text(json.dumps(replaced(data, path, value)))
        try:
            use(model)
        except BundleError as error:
            assert "\n" not in str(error)
            refused += 1
        except Exception as error:
            wrong.append(f"{'.'.join(map(str, path))} = {value!r}: {error!r}")
    assert not wrong, "\n".join(wrong)
    assert refused or file != "config.json"


def tokenizer_json(model: dict[str, Any]) -> str:
    return json.dumps({"version": "1.0", "pre_tokenizer": {"type": "Whitespace"}, "model": model})


TOKENIZERS = {
    "WordPiece": {"unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100},
    "WordLevel": {"unk_token": "[UNK]"},
    "BPE": {"unk_token": "[UNK]", "merges": [], "fuse_unk": False},
}


@pytest.mark.parametrize("kind", list(TOKENIZERS))
def test_a_missing_unknown_token(call: Any, tmp_path: Path, kind: str) -> None:
    model = {"type": kind, "vocab": {"the": 0, "t": 1, "h": 2}, **TOKENIZERS[kind]}
    (tmp_path / "tokenizer.json").write_text(tokenizer_json(model))
    for to in ("pieces", "ids"):
        done = call("tokenize", "-t", "tokenizer.json", "--to", to, stdin="the t\nzebra\n")
        assert done.code == 78, done.err
        assert done.err.count("\n") == 1 and "tokenizer.json: cannot be read" in done.err


@pytest.mark.parametrize("value", [1.5, True, ["A"], "AB"])
def test_labels_that_are_no_object(call: Any, tmp_path: Path, value: Any) -> None:
    task(tmp_path / "model", "sequence", "classify", {})
    config = json.loads((tmp_path / "model" / "config.json").read_text())
    (tmp_path / "model" / "config.json").write_text(json.dumps({**config, "id2label": value}))
    (tmp_path / "model" / "manifest.json").unlink()
    done = call("predict", "model", stdin="the cat\n")
    assert (done.code, done.out) == (78, b"")
    assert "config.json: id2label is " in done.err and done.err.count("\n") == 1
