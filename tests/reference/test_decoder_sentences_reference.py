"""Decoders in sentence-transformers folders give the vectors that their steps give with transformers: Qwen3-Embedding (the last
token, an instruction before queries) and EmbeddingGemma (both directions, the mean, dense layers).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional as F

pytest.importorskip("transformers")
import transformers
from llama_folders import TEXTS, tokenizer
from tokenizers.processors import TemplateProcessing

import nlptools
from nlptools import bundle
from nlptools.configs import Compute
from nlptools.configs.embed import Embed
from nlptools.configs.finetuning import Predict
from nlptools.configs.generation import Generate
from nlptools.configs.scoring import Score
from nlptools.errors import UsageError
from nlptools.files import artifacts
from nlptools.models.huggingface import directories
from tests.reference.decoder_families import FAMILIES

pytestmark = [pytest.mark.reference, pytest.mark.filterwarnings("ignore")]
FP32 = Compute(device="cpu", precision="fp32", threads=1)
LINES = [*TEXTS, "on the log", "the dog " * 30, "Naïve café: 日本語"]
PROMPTS = {"query": "sat on: ", "document": ""}


def folder(path: Path, name: str, pooling: str, template: tuple[str, ...], dense: tuple[int, ...], **more: Any) -> Any:
    """A sentence-transformers folder as these models have it; returns the model of its transformer."""
    model = FAMILIES[name].model("Model", **more)
    model.save_pretrained(path)
    fast = tokenizer()
    special = [(token, fast.convert_tokens_to_ids(token)) for token in template if token != "$A"]
    fast._tokenizer.post_processor = TemplateProcessing(single=" ".join(template), special_tokens=special)
    fast.save_pretrained(path)
    kinds = [("Transformer", ""), ("Pooling", "1_Pooling"), *[("Dense", f"{i}_Dense") for i in range(2, 2 + len(dense))],
             ("Normalize", "4_Normalize")]  # fmt: skip
    steps = [{"idx": i, "name": str(i), "path": at, "type": f"sentence_transformers.models.{kind}"}
             for i, (kind, at) in enumerate(kinds)]  # fmt: skip
    (path / "modules.json").write_text(json.dumps(steps))
    settings = {"prompts": PROMPTS, "default_prompt_name": None, "similarity_fn_name": "cosine"}
    (path / "config_sentence_transformers.json").write_text(json.dumps(settings))
    (path / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 24, "do_lower_case": False}))
    (path / "1_Pooling").mkdir()
    (path / "1_Pooling/config.json").write_text(json.dumps({"word_embedding_dimension": 32, f"pooling_mode_{pooling}": True,
                                                            "include_prompt": True}))  # fmt: skip
    width = 32
    for i, size in enumerate(dense, 2):
        (path / f"{i}_Dense").mkdir()
        weight = torch.randn(size, width, generator=torch.Generator().manual_seed(i))
        artifacts.save_tensors(path / f"{i}_Dense/model.safetensors", {"linear.weight": weight})
        (path / f"{i}_Dense/config.json").write_text(json.dumps({"in_features": width, "out_features": size, "bias": False,
            "activation_function": "torch.nn.modules.linear.Identity"}))  # fmt: skip
        width = size
    return model


@torch.inference_mode()
def expected(path: Path, model: Any, lines: list[str], pooling: str, dense: int) -> np.ndarray:
    """The steps by hand, a line at a time."""
    fast = transformers.AutoTokenizer.from_pretrained(path)
    rows = []
    for line in lines:
        states = model(**fast(line, return_tensors="pt", truncation=True, max_length=24)).last_hidden_state[0]
        row = states[-1] if pooling == "lasttoken" else states.mean(0)
        for i in range(2, 2 + dense):
            row = artifacts.load_tensors(path / f"{i}_Dense/model.safetensors")["linear.weight"] @ row
        rows.append(F.normalize(row, dim=0).numpy())
    return np.stack(rows)


def test_the_last_token_and_the_prompt_of_a_query_as_in_qwen3_embedding(tmp_path: Path) -> None:
    model = folder(tmp_path, "qwen3", "lasttoken", ("$A", "</s>"), (), head_dim=12)
    for prompt, before in ((None, ""), ("query", PROMPTS["query"]), ("document", ""), ("cat: ", "cat: ")):
        embedder: Any = nlptools.load(tmp_path, compute=FP32, settings=Embed(prompt=prompt))
        found = embedder.embed(LINES)
        np.testing.assert_allclose(
            found, expected(tmp_path, model, [before + line for line in LINES], "lasttoken", 0), atol=1e-5
        )
        alone = np.concatenate([embedder.embed([line]) for line in LINES])
        np.testing.assert_allclose(found, alone, atol=1e-6)
    assert nlptools.load(tmp_path, compute=FP32, settings=Embed(truncate_dim=8)).embed([""]).shape == (1, 8)


def test_both_directions_windows_and_dense_layers_as_in_embedding_gemma(tmp_path: Path) -> None:
    kinds = ["sliding_attention", "full_attention", "sliding_attention"]
    for number, window in enumerate((6, 5)):
        path = tmp_path / str(number)
        model = folder(path, "gemma3_text", "mean_tokens", ("<s>", "$A", "</s>"), (48, 32), layer_types=kinds,
                       sliding_window=window, use_bidirectional_attention=True)  # fmt: skip
        for prompt in (None, "query"):
            embedder: Any = nlptools.load(path, compute=FP32, settings=Embed(prompt=prompt))
            lines = [PROMPTS[prompt or "document"] + line for line in LINES]
            np.testing.assert_allclose(embedder.embed(LINES), expected(path, model, lines, "mean_tokens", 2), atol=1e-5)
        loaded = bundle.load(path)
        assert loaded.arch == "modern-reader"
        config = json.loads(json.dumps(directories.config_to_hf(loaded.arch, loaded.model.config)))
        assert directories.config_from_hf(config) == (loaded.arch, loaded.model.config)
        x = torch.randint(3, 200, (2, 15), generator=torch.Generator().manual_seed(1))
        with torch.inference_mode():
            layers = model(x, output_hidden_states=True).hidden_states
            for mine, theirs in zip(loaded.model.states(x).layers, layers, strict=True):
                torch.testing.assert_close(mine, theirs, atol=1e-5, rtol=1e-5)
    for settings, name in ((Score(), "score"), (Generate(), "generate"), (Predict(), "predict")):
        with pytest.raises(UsageError, match=f"is a decoder without an output matrix, which {name} cannot take"):
            nlptools.load(path, compute=FP32, settings=settings)
