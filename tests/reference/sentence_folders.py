"""Sentence-transformers folders of decoders, and what their steps give with transformers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from llama_folders import tokenizer
from tokenizers.processors import TemplateProcessing
from torch.nn import functional as F

from nlptools.files import artifacts
from tests.reference.decoder_families import FAMILIES

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
