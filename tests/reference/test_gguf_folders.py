"""Encoders as transformers writes them become GGUF files and are read back: the same weights, ids, pooling and vectors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gguf
import gguf_models
import numpy as np
import pytest
import torch

pytest.importorskip("transformers")
from reference.encoder_families import FAMILIES

from nlptools.configs.embed import Embed
from nlptools.converters.gguf_export import convert
from nlptools.errors import NlptoolsError
from nlptools.files import gguf_file
from nlptools.inference import loading
from nlptools.inference.opening import open_model
from tests.reference import gguf_folders, t5_folders

pytestmark = [pytest.mark.reference, pytest.mark.filterwarnings("ignore")]
TEXTS = ["The quick brown fox", "Быстрая лиса", "", "emoji 😀👍🏽 and more words, so that a window ends before them"]


def vectors(path: Path) -> np.ndarray:
    """Of `TEXTS`."""
    return loading.load(path, settings=Embed(), device="cpu", precision="fp32").embed(TEXTS)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", gguf_folders.FOLDERS)
def test_what_is_read_is_what_was_written(tmp_path: Path, name: str) -> None:
    arch, write = gguf_folders.FOLDERS[name]
    directory, path = tmp_path / "model", tmp_path / "model.gguf"
    write(directory)
    convert(str(directory), str(path))
    file = gguf_file.read(path)
    assert file.metadata["general.architecture"] == arch
    here, there = open_model(directory), open_model(path)
    assert here.steps is not None and there.steps is not None
    assert (here.steps.pooling, here.steps.normalize) == (there.steps.pooling, there.steps.normalize)
    weights = there.bundle.weights()
    for key, tensor in here.bundle.weights().items():
        if key in weights:  # a RoBERTa has rows of positions that no text has
            torch.testing.assert_close(tensor[len(tensor) - len(weights[key]) :], weights[key], atol=1e-6, rtol=0)
        else:
            assert "pooler" in key, key
    lines = gguf_models.lines(200)
    assert here.bundle.tokenizer.encode_lines(lines) == there.bundle.tokenizer.encode_lines(lines)
    np.testing.assert_allclose(vectors(path), vectors(directory), atol=1e-5)
    known = {gguf.TENSOR_NAMES[each] for each in gguf.MODEL_TENSORS[_ARCHITECTURES[arch]]}
    blocks = {
        name.removesuffix(".weight").removesuffix(".bias").replace("blk.1.", "blk.{bid}.") for name in file.tensors
    }
    assert {name for name in blocks if "{bid}" in name or "blk." not in name} <= known


_ARCHITECTURES = {name: arch for arch, name in gguf.MODEL_ARCH_NAMES.items()}


def test_variants_that_llama_cpp_does_not_have(tmp_path: Path) -> None:
    kinds = ["full_attention", "full_attention", "sliding_attention"]
    scaled = {"rope_type": "linear", "factor": 2.0, "rope_theta": 1000.0}
    refused: dict[str, tuple[str, dict[str, Any]]] = {
        "scores of distances in an encoder like BERT": ("mpnet", {}),
        "shared layers": ("albert", {}),
        "disentangled attention": ("deberta-v2", {}),
        "no attention_bias True in modern-bert": ("modernbert", {"attention_bias": True}),
        "one layer without a window": ("modernbert", {"layer_types": kinds, "local_attention": 8}),
        "no scaled rotary positions in this family, found 'linear'": ("nomic_bert", {"rope_parameters": scaled}),
        "no hidden_act 'gelu' in nomic-bert": ("nomic_bert", {"hidden_act": "gelu"}),
    }
    for words, (name, more) in refused.items():
        FAMILIES[name].folder(tmp_path / words, "Model", **more)
        with pytest.raises(NlptoolsError, match=words):
            convert(str(tmp_path / words), str(tmp_path / "out.gguf"))
    t5_folders.saved(tmp_path / "t5", "T5EncoderModel", feed_forward_proj="gated-silu")
    with pytest.raises(NlptoolsError, match="no feed_forward_proj 'gated-silu' in t5encoder"):
        convert(str(tmp_path / "t5"), str(tmp_path / "out.gguf"))
