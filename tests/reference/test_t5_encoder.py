"""Encoders of T5 and mT5 without a decoder, and Sentence-T5: states, vectors and labels are equal to transformers'."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from torch.nn import functional as F

import nlptools
from nlptools import bundle
from nlptools.configs import Compute
from nlptools.configs.embed import Embed
from nlptools.inference import description
from tests.reference import t5_folders
from tests.reference.t5_folders import TEXT
from tests.reference.test_encoder_families_reference import check_ways_to_read

pytestmark = [pytest.mark.reference, pytest.mark.filterwarnings("ignore")]
FP32 = Compute(device="cpu", precision="fp32", threads=1)
VARIANTS: list[tuple[str, dict[str, Any]]] = [
    ("T5EncoderModel", {}),
    ("T5EncoderModel", {"feed_forward_proj": "gated-gelu", "num_heads": 3, "relative_attention_max_distance": 6,
                        "relative_attention_num_buckets": 8}),
    ("MT5EncoderModel", {"feed_forward_proj": "gated-silu", "d_kv": 16}),
]  # fmt: skip


@torch.inference_mode()
def test_hidden_states_are_theirs_and_folders_open_there(tmp_path: Path) -> None:
    for number, (kind, more) in enumerate(VARIANTS):
        path, again = tmp_path / str(number), tmp_path / f"{number}-again"
        model = t5_folders.saved(path, kind, **more)
        loaded = bundle.load(path)
        torch.manual_seed(0)
        mask = torch.arange(13) < torch.tensor([[13], [7], [4], [13]])
        ids = torch.randint(3, 90, (4, 13)).masked_fill(~mask, 0)
        expected = model(input_ids=ids, attention_mask=mask.long(), output_hidden_states=True).hidden_states
        hidden = loaded.model.encoder(ids, mask)
        for mine, other in zip(hidden.layers, expected, strict=True):
            torch.testing.assert_close(mine[mask], other[mask], atol=1e-5, rtol=1e-5)
        check_ways_to_read(loaded.model.encoder, ids, mask, None)
        weights = list(loaded.model.encoder.attention_weights(ids[:1]))
        there = type(model).from_pretrained(path, attn_implementation="eager")(ids[:1], output_attentions=True)
        for mine, other in zip(weights, there.attentions, strict=True):
            torch.testing.assert_close(mine, other, atol=1e-5, rtol=1e-5)
        again.mkdir()
        bundle.save_encoder(again, loaded.model, loaded.weights(), loaded.tokenizer, arch=loaded.arch, training={})
        opened, report = type(model).from_pretrained(again, output_loading_info=True)
        assert not any(report[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys")), report
        torch.testing.assert_close(opened.eval()(ids).last_hidden_state, model(ids).last_hidden_state)
        described = description.describe(str(path))["model"]
        assert described["family"] == model.config.model_type


def _sentence_folder(path: Path) -> Any:
    """A Sentence-T5: means, a dense layer, length 1."""
    model = t5_folders.saved(path, "T5EncoderModel")
    kinds = ("Transformer", "Pooling", "Dense", "Normalize")
    places = ["", *(f"{number}_{kind}" for number, kind in enumerate(kinds) if number)]
    modules = [
        {"idx": number, "name": str(number), "path": place, "type": f"sentence_transformers.models.{kind}"}
        for number, (place, kind) in enumerate(zip(places, kinds, strict=True))
    ]
    (path / "modules.json").write_text(json.dumps(modules))
    (path / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 12, "do_lower_case": False}))
    for place in places[1:]:
        (path / place).mkdir()
    pooling = {"word_embedding_dimension": 32, "pooling_mode_mean_tokens": True}
    (path / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    dense = {
        "in_features": 32,
        "out_features": 20,
        "bias": False,
        "activation_function": "torch.nn.modules.linear.Identity",
    }
    (path / "2_Dense" / "config.json").write_text(json.dumps(dense))
    save_file({"linear.weight": torch.randn(20, 32)}, path / "2_Dense" / "model.safetensors")
    return model


def test_vectors_of_a_sentence_t5_are_theirs(tmp_path: Path) -> None:
    model = _sentence_folder(tmp_path / "m")
    lines = [*TEXT[:9], "", TEXT[0] + " " + TEXT[1]]
    there = transformers.AutoTokenizer.from_pretrained(tmp_path / "m")
    batch = there(lines, return_tensors="pt", padding=True, truncation=True, max_length=12)
    assert batch.attention_mask.sum(1).max() == 12
    mask = batch["attention_mask"][..., None]
    with torch.inference_mode():
        means = (model(**batch).last_hidden_state * mask).sum(1) / mask.sum(1)
    dense = load_file(tmp_path / "m" / "2_Dense" / "model.safetensors")["linear.weight"]
    ours = nlptools.load(tmp_path / "m", compute=FP32, settings=Embed()).embed(lines)
    np.testing.assert_allclose(ours, F.normalize(means @ dense.T).numpy(), atol=1e-5)
    plain = nlptools.load(tmp_path / "m", compute=FP32, settings=Embed(pooling="mean"))
    assert plain.embed(lines).shape == (11, 32)


def test_classifiers_are_trained_and_predict(tmp_path: Path, call: Any) -> None:
    t5_folders.saved(tmp_path / "m", "MT5EncoderModel")
    rows = [f"{'first' if number % 2 else 'second'}\t{text}" for number, text in enumerate(TEXT[:16])]
    (tmp_path / "train.tsv").write_text("".join(f"{row}\n" for row in rows))
    out = call(
        "finetune", "--model", tmp_path / "m", "--task", "classify", tmp_path / "train.tsv", "-o", tmp_path / "out",
        "--epochs", 2, "--lr", "3e-3", "--label-column", 1, "--text-column", 2,
    )  # fmt: skip
    assert out.code == 0, out.err
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert config["architectures"] == ["MT5EncoderForSequenceClassification"] and config["model_type"] == "mt5"
    found = call("predict", tmp_path / "out", tmp_path / "train.tsv", "--text-column", 2, "--probabilities")
    assert found.code == 0 and found.lines[0] == "first\tsecond", found.err
    encoder = transformers.MT5EncoderModel.from_pretrained(tmp_path / "out").eval()
    there = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    weights = load_file(tmp_path / "out" / "model.safetensors")
    dense, output = (
        [weights[f"classifier.{part}.{kind}"] for kind in ("weight", "bias")] for part in ("dense", "out_proj")
    )
    for line, row in zip(found.lines[1:], rows, strict=True):
        with torch.inference_mode():
            mean = encoder(**there(row.split("\t")[1], return_tensors="pt")).last_hidden_state.mean(1)
        p = F.linear(F.linear(mean, *dense).tanh(), *output).softmax(-1)[0]
        np.testing.assert_allclose([float(each) for each in line.split("\t")], p.numpy(), atol=2e-4)
