"""Text classifiers without a pretrained model: rows of texts, and logits of rows, for validation and prediction."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from nlptools import bundle
from nlptools.batches.bags import bag_rows, text_lengths
from nlptools.batches.features import Features
from nlptools.batches.text_rows import TextEncoding, TextNGrams
from nlptools.compute.backend import Backend
from nlptools.configs.word_vectors import lengths
from nlptools.models.tasks.text_classifiers import TextClassifier

PAD = 0


def encoding(loaded: bundle.Bundle[TextClassifier], max_length: int, threads: int) -> TextEncoding:
    """How texts become rows for the classifier of a directory; `max_length` 0: no limit."""
    model = loaded.model
    config, ngrams = model.config, None
    if model.is_bag:
        characters = None if config.char_ngrams is None else lengths(config.char_ngrams)
        known = model.buckets.numpy()
        ngrams = TextNGrams(config.word_ngrams, characters, config.buckets, config.vocab_size, known)
    return TextEncoding(loaded.tokenizer, config.unk, max_length, ngrams, threads)


def row_logits(model: TextClassifier, features: Features, backend: Backend) -> Callable[[np.ndarray], np.ndarray]:
    """A function from the numbers of rows (B,) to their logits (B, K), float32."""
    each = text_lengths(features, model.config.texts) if model.is_bag else None

    def logits(rows: np.ndarray) -> np.ndarray:
        arrays = features.rows.batch(rows, PAD) if each is None else bag_rows(features, each, rows)
        values: np.ndarray = model(*map(backend.put, arrays)).float().cpu().numpy()
        return values

    return logits
