"""Text classifiers without a pretrained model: rows of texts, and logits of rows, for validation and prediction."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import torch

from nlptools import bundle
from nlptools.batches.bags import bag_rows, text_lengths
from nlptools.batches.features import Features
from nlptools.batches.pairs import cut_batches
from nlptools.batches.text_rows import NGrams, TextEncoding
from nlptools.compute.backend import Backend
from nlptools.configs.word_vectors import lengths

PAD = 0


def encoding(loaded: bundle.Bundle, max_length: int, threads: int) -> TextEncoding:
    """How texts become rows for the classifier of a directory; `max_length` 0: no limit."""
    model: Any = loaded.model
    config, ngrams = model.config, None
    if model.is_bag:
        characters = None if config.char_ngrams is None else lengths(config.char_ngrams)
        known = model.buckets.numpy()
        ngrams = NGrams(config.word_ngrams, characters, config.buckets, config.vocab_size, known)
    return TextEncoding(loaded.tokenizer, config.unk, max_length, ngrams, threads)


@torch.inference_mode()
def logits(
    model: Any,
    features: Features,
    backend: Backend,
    *,
    batch_tokens: int = 4096,
    stop: Callable[[], bool] | None = None,
) -> list[np.ndarray] | None:
    """(K,) float32 of each row; None when `stop()` becomes true. A batch has rows of similar length, padded to the longest."""
    each = text_lengths(features, model.config.texts) if model.is_bag else None
    order = np.argsort(-features.lengths, kind="stable")
    bounds = cut_batches(np.maximum(1, features.lengths[order]), batch_tokens)
    out: list[Any] = [None] * len(features)
    for begin, end in pairwise(bounds):
        if stop is not None and stop():
            return None
        rows = order[begin:end]
        arrays = padded(features, rows) if each is None else bag_rows(features, each, rows)
        values = model(*map(backend.put, arrays)).float().cpu().numpy()
        for place, row in zip(rows, values, strict=True):
            out[place] = row
    return out


def padded(features: Features, rows: np.ndarray) -> tuple[np.ndarray, ...]:
    """(B, T) ids, mask and types of some rows: the input of classifiers of word sequences."""
    batch = features.rows.batch(rows, PAD)
    return batch.ids, batch.mask, batch.types
