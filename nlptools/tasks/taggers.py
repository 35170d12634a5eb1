"""Taggers of words without a pretrained model: rows of words, and logits of rows, for validation and prediction."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from nlptools import bundle
from nlptools.batches.features import Features
from nlptools.batches.spelled_words import MAX_LENGTH, WordEncoding, word_input
from nlptools.compute.backend import Backend
from nlptools.errors import BundleError, display
from nlptools.models.tasks.word_tagger import WordTagger


def encoding(loaded: bundle.Bundle[WordTagger], max_length: int, threads: int) -> WordEncoding:
    """How sentences become rows for the tagger of a directory; `max_length` 0: the usual one. Raises BundleError."""
    model = loaded.model
    vocab = loaded.tokenizer.vocab
    if vocab is None or vocab.unk != model.config.unk:
        raise BundleError(f"{display(str(loaded.path))}: the vocabulary has another unknown word than config.json")
    return WordEncoding(loaded.tokenizer, model.config.spelled_with, max_length or MAX_LENGTH, threads)


def row_logits(model: WordTagger, features: Features, backend: Backend) -> Callable[[np.ndarray], list[np.ndarray]]:
    """A function from the numbers of rows (B,) to the logits of each row, (T, K) of its T words, float32."""

    def logits(rows: np.ndarray) -> list[np.ndarray]:
        arrays = word_input(features, rows)
        values: np.ndarray = model(*map(backend.put, arrays)).float().cpu().numpy()
        return [row[real] for row, real in zip(values, arrays.mask, strict=True)]

    return logits
