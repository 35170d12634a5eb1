"""Exported graphs give what the model gives, for batches and lengths that were not traced; what goes wrong writes nothing."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny_bundles import words_bundle
from tiny_encoders import WORDS, encoder_bundle

import nlptools
from nlptools import bundle
from nlptools.batches.features import Features
from nlptools.compute.backend import Backend
from nlptools.configs import Compute
from nlptools.configs.embed import Embed
from nlptools.configs.export import Export
from nlptools.configs.layers import layers
from nlptools.converters import onnx_export
from nlptools.errors import CheckFailed, OutputError, Unavailable, UsageError
from nlptools.models.encoders.bert import EncoderConfig
from nlptools.models.encoders.bert_with_heads import BertWithHeads
from nlptools.tasks import outputs
from nlptools.tasks import task as tasks
from nlptools.text.builtin import NamedTokenizer
from nlptools.text.vocab import Vocab

FP32 = Compute(device="cpu", precision="fp32", threads=1)
TEXTS = [("the cat",), ("sat on a mat", "and it ate"), ("cat",), ("a a a a a", "the")]


def fine_tuned(path: Path, *heads: str, family: str = "bert", seed: int = 1, **task: Any) -> Path:
    """A small encoder with these heads and random weights, wide enough for outputs that differ."""
    config = EncoderConfig(len(WORDS), 8, 2, 2, 12, family, 4 if family == "electra" else 0, max_position_embeddings=20)
    torch.manual_seed(seed)
    model = BertWithHeads(config, heads, 3, concatenated=2 if "layer_concat" in heads else 1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape)).mul_(0.5)
    path.mkdir()
    tokenizer = NamedTokenizer("whitespace", Vocab(WORDS))
    more = {"id2label": {"0": "a", "1": "b", "2": "c"}, "nlptools": {"task": task}}
    bundle.save_encoder(path, model, model.state_dict(), tokenizer, training={}, more=more)
    return path


def answers(file: Path, features: Features, choices: bool = False) -> list[np.ndarray]:
    """What onnxruntime gives for rows that are padded to the longest."""
    runtime = pytest.importorskip("onnxruntime")
    rows = features.rows
    mask = np.arange(features.lengths.max()) < features.lengths[:, None]
    ids, types = (np.zeros(mask.shape, np.int64) for _ in range(2))
    ids[mask], types[mask] = rows.ids, rows.types
    given = dict(zip(onnx_export.INPUTS, (ids, mask.astype(np.int64), types), strict=True))
    if choices:
        given = {name: array[None] for name, array in given.items()}
    found: list[np.ndarray] = runtime.InferenceSession(file).run(None, given)
    return found


def ours(path: Path, head: str, which: str = "last") -> tuple[Features, list[Any]]:
    """Rows of TEXTS, and what `predict` computes for them."""
    found = bundle.load(path)
    features = tasks.encoding(found, 0, 1).rows(TEXTS)
    backend = Backend.detect(FP32)
    made = outputs.logits(backend.for_inference(found.model), head, features, backend, layers(which))
    assert made is not None
    return features, made


def exported(path: Path, **settings: Any) -> onnx_export.Exported:
    """Export to `path`.onnx."""
    pytest.importorskip("onnxscript")
    return onnx_export.export(path, Export(output=f"{path}.onnx", **settings))


@pytest.mark.sampled(law="a graph computes what the model computes")
def test_logits_of_a_text_and_a_graph_that_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = fine_tuned(tmp_path / "m", "pooler", "sequence")
    pytest.importorskip("onnxruntime")
    told = exported(path)
    assert (told.result, told.outputs) == ("logits", ("logits",))
    assert told.difference is not None and told.difference < 1e-4
    features, wanted = ours(path, "sequence")
    np.testing.assert_allclose(answers(tmp_path / "m.onnx", features)[0], np.array(wanted), atol=1e-4)
    said = (tmp_path / "m.onnx").read_bytes()
    assert b".py" not in said and str(Path.cwd()).encode() not in said  # nothing of this machine
    fine_tuned(tmp_path / "other", "pooler", "sequence", seed=2)
    monkeypatch.setattr(onnx_export, "_traced", lambda *_: said)
    with pytest.raises(CheckFailed, match=r"logits of the graph differs from the model by"):
        exported(tmp_path / "other")
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["m", "m.onnx", "other"]


def tokens_of_several_layers(tmp_path: Path, layers: str) -> None:
    head = layers.partition(":")[0]
    more = () if head == "mean" else (f"layer_{head}",)
    path = fine_tuned(tmp_path / "m", "tokens", *more, family="electra", layers=layers)
    exported(path)
    features, wanted = ours(path, "tokens", layers)
    (found,) = answers(tmp_path / "m.onnx", features)
    for row, expected in zip(found, wanted, strict=True):
        np.testing.assert_allclose(row[: len(expected)], expected, atol=1e-4)


def beginnings_and_ends(tmp_path: Path) -> None:
    path = fine_tuned(tmp_path / "m", "spans", "yes_no")
    assert exported(path).outputs == ("start_logits", "end_logits", "yes_no_logits")
    features, wanted = ours(path, "spans")
    start, end, kinds = answers(tmp_path / "m.onnx", features)
    for i, expected in enumerate(wanted):
        found = np.stack([start[i], end[i]], 1)[: len(expected)]
        np.testing.assert_allclose(found, expected[:, :2], atol=1e-4)
        np.testing.assert_allclose(kinds[i], expected[0, 2:], atol=1e-4)


def choices_stand_side_by_side(tmp_path: Path) -> None:
    path = fine_tuned(tmp_path / "m", "pooler", "choice")
    exported(path)
    features, wanted = ours(path, "choice")
    (found,) = answers(tmp_path / "m.onnx", features, choices=True)
    np.testing.assert_allclose(found, np.array(wanted)[None], atol=1e-4)


def vectors_of_sentences(tmp_path: Path) -> None:
    path = encoder_bundle(tmp_path / "m")
    steps = [
        {"path": name, "type": f"x.{kind}"}
        for name, kind in (("", "Transformer"), ("1", "Pooling"), ("2", "Normalize"))
    ]
    (path / "modules.json").write_text(json.dumps(steps))
    (path / "1").mkdir()
    (path / "1" / "config.json").write_text('{"pooling_mode": ["mean", "max", "lasttoken"]}')
    assert exported(path).outputs == ("sentence_embedding",)
    lines = ["the cat sat", "", "a mat and the cat ate it up", "it"]
    features = tasks.encoding(bundle.load(path), 0, 1).rows([(line,) for line in lines])
    embedder = nlptools.load(path, compute=FP32, settings=Embed())
    np.testing.assert_allclose(answers(tmp_path / "m.onnx", features)[0], embedder.embed(lines), atol=1e-4)


OTHERS: dict[str, Callable[[Path], None]] = {
    "sentences": vectors_of_sentences,
    "spans": beginnings_and_ends,
    "choice": choices_stand_side_by_side,
    **{how: partial(tokens_of_several_layers, layers=how) for how in ("mean:1:3", "mix", "concat:1:3")},
}


@pytest.mark.sampled(law="a graph computes what the model computes")
@pytest.mark.parametrize("result", OTHERS)
def test_other_results(tmp_path: Path, result: str) -> None:
    OTHERS[result](tmp_path)


def test_without_the_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "onnxscript" else find(name))
    with pytest.raises(Unavailable, match="needs the package onnxscript") as told:
        onnx_export.export(tmp_path, Export(output=str(tmp_path / "x.onnx")))
    assert told.value.hint == "in the checkout of nlptools: pip install '.[onnx]'"


def test_what_cannot_be_exported(tmp_path: Path) -> None:
    plain, named = encoder_bundle(tmp_path / "plain"), fine_tuned(tmp_path / "named", "mentions")
    for path, settings, told in (
        (plain, {"result": "logits"}, "has no head of a task"),
        (plain, {"result": "sentence"}, "is not a sentence-transformers directory"),
        (named, {}, "classifies names at given positions"),
        (words_bundle(tmp_path / "lm"), {}, "export needs a BERT or an ELECTRA"),
    ):
        with pytest.raises(UsageError, match=told):
            exported(path, **settings)
    (tmp_path / "plain.onnx").write_text("mine")
    with pytest.raises(OutputError, match="exists"):
        exported(plain)
    assert (tmp_path / "plain.onnx").read_text() == "mine"


@pytest.mark.sampled(law="a graph computes what the model computes")
def test_the_command_and_hidden_states(tmp_path: Path, call: Any) -> None:
    pytest.importorskip("onnxruntime")
    path = fine_tuned(tmp_path / "m", "tokens", "crf")
    done = call("export", "m", "-o", "m.onnx", "--result", "hidden")
    assert done.code == 0 and not done.out
    assert done.err.startswith("compared with the model: the largest difference is") and "random field" not in done.err
    features, _ = ours(path, "tokens")
    (states,) = answers(tmp_path / "m.onnx", features)
    model: Any = bundle.load(path).model
    with torch.inference_mode():
        wanted = model.encoder(torch.tensor([[2, 5, 6, 3]])).last[0]  # the cat
    np.testing.assert_allclose(states[0, :4], wanted, atol=1e-4)
    done = call("export", "m", "-o", "m.onnx")
    assert done.code == 73 and "--force replaces it" in done.err
