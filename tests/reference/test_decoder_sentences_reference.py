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

pytest.importorskip("transformers")
from llama_folders import TEXTS

import nlptools
from nlptools import bundle
from nlptools.configs import Compute
from nlptools.configs.embed import Embed
from nlptools.configs.finetuning import Predict
from nlptools.configs.generation import Generate
from nlptools.configs.scoring import Score
from nlptools.errors import UsageError
from nlptools.models.huggingface import directories
from tests.reference.sentence_folders import PROMPTS, expected, folder

pytestmark = [pytest.mark.reference, pytest.mark.filterwarnings("ignore")]
FP32 = Compute(device="cpu", precision="fp32", threads=1)
LINES = [*TEXTS, "on the log", "the dog " * 30, "Naïve café: 日本語"]


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
