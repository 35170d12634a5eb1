"""Random small T5s and mT5s as transformers makes them, with a SentencePiece tokenizer."""

from __future__ import annotations

import io
import json
import random
from pathlib import Path
from typing import Any

import sentencepiece
import torch
import transformers

_RNG = random.Random(2)
WORDS = ["".join(_RNG.choice("abcdefé") for _ in range(_RNG.randint(1, 5))) for _ in range(60)]
TEXT = [" ".join(_RNG.choice(WORDS) for _ in range(8)) for _ in range(200)]
SENTINELS = 5


def saved(path: Path, kind: str, sentinels: bool = True, **more: Any) -> Any:
    """Save a model of the class `kind`, such as T5EncoderModel, with `more` in its configuration; returns it. Its weights are
    large, so that errors show. The sentinel tokens of an mT5 are pieces of its file.
    """
    path.mkdir()
    family = "MT5" if kind.startswith("MT5") else "T5"
    out = io.BytesIO()
    own = [f"▁<extra_id_{number}>" for number in reversed(range(SENTINELS))] if family == "MT5" and sentinels else []
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXT), model_writer=out, vocab_size=90, hard_vocab_limit=False, minloglevel=2,
        pad_id=0, eos_id=1, unk_id=2, bos_id=-1, user_defined_symbols=own,
    )  # fmt: skip
    (path / "spiece.model").write_bytes(out.getvalue())
    extra = SENTINELS if sentinels and not own else 0
    (path / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "T5Tokenizer", "extra_ids": extra}))
    sizes = {"vocab_size": 110, "d_model": 32, "d_ff": 48, "num_layers": 2, "num_heads": 4, "d_kv": 8}
    config = getattr(transformers, f"{family}Config")(**{**sizes, "decoder_start_token_id": 0, **more})
    torch.manual_seed(1)
    model = getattr(transformers, kind)(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
    model.save_pretrained(path)
    return model
