"""Model directories with tiny models, written in milliseconds: what commands read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from tiny_models import tiny

from nlptools import bundle
from nlptools.text import tokenizer as tokenizers
from nlptools.text.vocab import Vocab

WORDS = ["<unk>", "</s>", "<pad>", ",", ".", '"', *(f"w{i}" for i in range(44))]
BYTES_EOS = 256  # one more than the bytes


def words_bundle(directory: Path, arch: str = "transformer", document: str = "line", **changes: Any) -> Path:
    """A model of words with an unknown word; ids are places in WORDS."""
    tokenizer = tokenizers.load("words", vocab=Vocab(WORDS))
    return _save(directory, arch, tiny(arch, vocab_size=len(WORDS), **changes), tokenizer, 1, document)


def bytes_bundle(directory: Path, likely: str | bytes = b"", **changes: Any) -> Path:
    """A model of bytes. With `likely`: bytes it takes for equally likely whatever came before, and no others."""
    sizes = {"vocab_size": 257, "max_position_embeddings": 256, **changes}
    model = tiny("transformer", **sizes)
    if likely:
        with torch.no_grad():
            model.token_embedding.weight.zero_()
            for value in likely if isinstance(likely, bytes) else likely.encode():
                model.token_embedding.weight[value, 0] = 50.0
            model.norm.weight.zero_()
            model.norm.bias.zero_()
            model.norm.bias[0] = 1.0
    return _save(directory, "transformer", model, tokenizers.load("bytes"), BYTES_EOS, "file")


def _save(directory: Path, arch: str, model: Any, tokenizer: Any, eos: int, document: str) -> Path:
    directory.mkdir()
    bundle.save(directory, arch, model, model.state_dict(), tokenizer, eos=eos, document=document, training={})
    return directory
