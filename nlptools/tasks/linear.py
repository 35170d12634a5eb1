"""Logistic regressions: rows of counts or numbers, and logits of rows, for validation and prediction."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from nlptools import bundle
from nlptools.batches.features import Features
from nlptools.batches.text_rows import TextEncoding
from nlptools.batches.weighted_tokens import NumberEncoding, weighted_rows
from nlptools.compute.backend import Backend
from nlptools.models.tasks.logistic import Logistic


def encoding(loaded: bundle.Bundle[Logistic], max_length: int, threads: int) -> TextEncoding | NumberEncoding:
    """How texts become rows for the model of a directory; `max_length` 0: no limit."""
    config = loaded.model.config
    if config.has_numbers:
        return NumberEncoding(loaded.tokenizer, config.vocab_size)
    return TextEncoding(loaded.tokenizer, config.unk, max_length, None, threads)


def row_logits(model: Logistic, features: Features, backend: Backend) -> Callable[[np.ndarray], np.ndarray]:
    """A function from the numbers of rows (B,) to their logits (B, K), float32."""

    def logits(rows: np.ndarray) -> np.ndarray:
        values: np.ndarray = model(*map(backend.put, weighted_rows(features, rows))).float().cpu().numpy()
        return values

    return logits
