"""Sentence-transformers folders, as transformers writes them, of every encoder that llama.cpp has and we open."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from reference.encoder_families import FAMILIES

from tests.reference import t5_folders
from tests.reference.sentence_folders import folder

_GEMMA = ["sliding_attention"] * 5 + ["full_attention", "sliding_attention"]
_DENSE = (48, 32)


def pooled(path: Path, mode: str = "mean") -> None:
    """Make a folder of sentence-transformers of an encoder with 32 dimensions."""
    steps = [("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize")]
    rows = [{"idx": i, "name": f"{i}", "path": at, "type": f"x.{kind}"} for i, (at, kind) in enumerate(steps)]
    (path / "modules.json").write_text(json.dumps(rows))
    (path / "1_Pooling").mkdir()
    (path / "1_Pooling/config.json").write_text(json.dumps({"pooling_mode": mode, "embedding_dimension": 32}))


def _encoder(name: str, variant: int, path: Path, **more: Any) -> None:
    family = FAMILIES[name]
    family.folder(path, "Model", **family.variants[variant], **more)
    pooled(path, "cls" if name == "modernbert" else "mean")


def _t5(kind: str, path: Path, **more: Any) -> None:
    t5_folders.saved(path, kind, **more)
    pooled(path)


def _gemma(dense: tuple[int, ...], path: Path) -> None:
    more: dict[str, Any] = {"layer_types": _GEMMA, "num_hidden_layers": 7, "sliding_window": 6}
    more |= {"use_bidirectional_attention": True, "query_pre_attn_scalar": 8}
    folder(path, "gemma3_text", "mean_tokens", ("<s>", "$A", "</s>"), dense, **more)
    (path / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 60}))  # llama.cpp cuts no text


FOLDERS: Mapping[
    str, tuple[str, Callable[[Path], None]]
] = {  # by name: the architecture in the file, and what writes a folder
    "roberta": ("bert", partial(_encoder, "roberta", 0)),
    "xlm-roberta": ("bert", partial(_encoder, "xlm-roberta", 0)),
    "camembert": ("bert", partial(_encoder, "camembert", 0)),
    "electra": ("bert", partial(_encoder, "electra", 1)),
    "modernbert": ("modern-bert", partial(_encoder, "modernbert", 0)),
    "modernbert-silu": ("modern-bert", partial(_encoder, "modernbert", 2)),
    "nomic": ("nomic-bert", partial(_encoder, "nomic_bert", 0)),
    "t5": ("t5encoder", partial(_t5, "T5EncoderModel")),
    "t5-gated": ("t5encoder", partial(_t5, "T5EncoderModel", feed_forward_proj="gated-gelu")),
    "mt5": ("t5encoder", partial(_t5, "MT5EncoderModel", sentinels=False)),
    "embedding-gemma": ("gemma-embedding", partial(_gemma, _DENSE)),
    "gemma-without-dense": ("gemma-embedding", partial(_gemma, ())),
    "qwen3-embedding": (
        "qwen3",
        lambda path: folder(path, "qwen3", "lasttoken", ("$A", "</s>"), (), head_dim=12) and None,
    ),
}
