"""Directories of tiny encoders of words, written in milliseconds: what `embed` reads."""

from __future__ import annotations

from pathlib import Path

import torch

from nlptools import bundle
from nlptools.models.encoders.bert import EncoderConfig
from nlptools.models.encoders.bert_with_heads import BertWithHeads
from nlptools.text.builtin import NamedTokenizer
from nlptools.text.vocab import Vocab

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "sat", "on", "a", "mat", "and", "ate", "it", "up"]


def encoder_bundle(
    path: Path, family: str = "bert", words: list[str] | None = None, heads: tuple[str, ...] = ()
) -> Path:
    """A small encoder with random weights that sees 12 tokens; ids are places in `words`."""
    words = words or WORDS
    config = EncoderConfig(len(words), 8, 2, 2, 12, family, 4 if family == "electra" else 0, max_position_embeddings=12)
    torch.manual_seed(0)
    model = BertWithHeads(config, heads)
    model.initialize()
    with torch.no_grad():
        for parameter in model.parameters():  # wider than at initialisation, so that outputs differ
            parameter.add_(torch.randn(parameter.shape), alpha=0.3)
    path.mkdir()
    tokenizer = NamedTokenizer("whitespace", Vocab(words))
    bundle.save_encoder(path, model, model.state_dict(), tokenizer, training={})
    return path
