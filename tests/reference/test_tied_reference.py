"""A config.json that ties the output matrix to the embedding, and weights with another one: it is used, as in transformers 5."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import Run
from safetensors.torch import load_file, save_file
from tiny_bundles import words_bundle
from tiny_encoders import encoder_bundle

from nlptools import bundle
from nlptools.errors import BundleError

transformers = pytest.importorskip("transformers", "5")
pytestmark = [pytest.mark.reference, pytest.mark.filterwarnings("ignore")]

FAMILIES: dict[str, dict[str, Any]] = {
    "modern": {},
    "transformer": {},
    "gpt": {"post_norm": True, "intermediate_size": 0, "activation": "gelu_new"},
}


def folder(path: Path, family: str, change: str = "") -> Path:
    """A directory of a tied model, with an output matrix that is `the same`, or `another` one."""
    words_bundle(path, "modern" if family == "modern" else "transformer", num_hidden_layers=1, **FAMILIES[family])
    (path / "manifest.json").unlink()
    weights = load_file(path / "model.safetensors")
    ends = ("embed_tokens.weight", "wte.weight", "tokens_embed.weight")
    (embedding,) = (each for name, each in weights.items() if name.endswith(ends))
    if change:
        torch.manual_seed(1)
        weights["lm_head.weight"] = embedding.clone() + (change == "another") * 0.1 * torch.randn(embedding.shape)
    save_file(weights, path / "model.safetensors", metadata={"format": "pt"})
    assert json.loads((path / "config.json").read_text())["tie_word_embeddings"] is True
    return path


@torch.inference_mode()
@pytest.mark.parametrize("family", FAMILIES)
def test_the_stored_matrix_is_the_output(family: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ids, found = torch.randint(3, 50, (2, 9)), {}
    for change in ("", "the same", "another"):
        path = folder(tmp_path / f"lm {change}", family, change)
        model: Any = bundle.load(path).model
        found[change] = model.output.logits(model(ids)[0])
        said = capsys.readouterr().err
        assert ("ties the output matrix" in said) == (change == "another"), said
        assert said.count("warning") <= 1
        theirs = transformers.AutoModelForCausalLM.from_pretrained(path).eval()
        assert (theirs(ids).logits - found[change]).abs().max() < 1e-4
        assert model.config.tie_word_embeddings == (change != "another")
    assert torch.equal(found[""], found["the same"]) and not torch.allclose(found[""], found["another"], atol=0.01)


@pytest.mark.parametrize("family", ["modern", "transformer"])
def test_training_continues_with_it(call: Run, tmp_path: Path, family: str) -> None:
    folder(tmp_path / "lm", family, "another")
    before: Any = bundle.load(tmp_path / "lm").model
    (tmp_path / "a").write_text("w1 w2 w3 w4\n" * 20)
    args = (
        "-t",
        "lm",
        "--init",
        "lm",
        "--context",
        "24",
        "--steps",
        "1",
        "--lr",
        "1e-9",
        "--threads",
        "1",
        "-o",
        "out",
        "-q",
    )
    done = call("train-lm", "a", "--arch", family, *args)
    assert done.code == 0, done.err
    after: Any = bundle.load(tmp_path / "out").model
    assert torch.allclose(after.output_matrix.weight, before.output_matrix.weight, atol=1e-6)
    theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "out").eval()
    ids = torch.randint(3, 50, (1, 7))
    with torch.inference_mode():
        assert (theirs(ids).logits - after.output.logits(after(ids)[0])).abs().max() < 1e-4


def test_a_masked_head_with_another_matrix_is_refused(tmp_path: Path) -> None:
    path = encoder_bundle(tmp_path / "bert", heads=("masked",))
    (path / "manifest.json").unlink()
    weights = load_file(path / "model.safetensors")
    copy = weights["bert.embeddings.word_embeddings.weight"].clone()
    save_file({**weights, "cls.predictions.decoder.weight": copy}, path / "model.safetensors")
    bundle.load(path)
    save_file({**weights, "cls.predictions.decoder.weight": copy + 1}, path / "model.safetensors")
    with pytest.raises(BundleError, match=r"cls\.predictions\.decoder\.weight is not embeddings\.word_embeddings"):
        bundle.load(path)
