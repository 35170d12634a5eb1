"""Bidirectional LSTMs over words with heads of tasks: rows of words, and logits of rows, for validation and prediction."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from nlptools import bundle
from nlptools.batches.encoder_rows import Marks
from nlptools.batches.features import Encoding, Features
from nlptools.batches.spelled_words import MAX_LENGTH
from nlptools.compute.backend import Backend
from nlptools.errors import BundleError, display
from nlptools.models.tasks.word_reader import CLS, MARKS, PAD, SEP, UNK
from nlptools.text.builtin import NamedTokenizer
from nlptools.text.lexicon import Lexicon


def new_encoding(tokenizer: NamedTokenizer, max_length: int, threads: int) -> tuple[Encoding, Lexicon]:
    """How texts become rows of words, and the words that the rows number. `max_length` 0: the usual one."""
    lexicon = Lexicon(tokenizer, len(MARKS))
    marks = Marks(CLS, SEP, pad=PAD, unk=UNK)
    return Encoding(lexicon, marks, max_length or MAX_LENGTH, 2, threads), lexicon


def encoding(loaded: bundle.Bundle, max_length: int, threads: int) -> Encoding:
    """How texts become rows for the model of a directory. Raises BundleError."""
    tokenizer, model = loaded.tokenizer, loaded.model
    vocab = tokenizer.vocab
    if not isinstance(tokenizer, NamedTokenizer) or vocab is None or tuple(vocab.tokens[: len(MARKS)]) != MARKS:
        raise BundleError(f"{display(str(loaded.path))}: the vocabulary does not begin with {' '.join(MARKS)}")
    rows: Encoding
    rows, model.lexicon = new_encoding(tokenizer, max_length, threads)  # type: ignore[attr-defined]
    return rows


def row_logits(model: Any, features: Features, backend: Backend) -> Callable[[np.ndarray], list[np.ndarray]]:
    """A function from the numbers of rows (B,) to the logits of each row, float32: (T, K) of its T words, or those of the row."""

    def logits(rows: np.ndarray) -> list[np.ndarray]:
        arrays = features.rows.batch(rows, PAD)
        spans = None
        if model.head == "mentions":
            spans = backend.put(features.targets["spans"][rows].reshape(len(rows), -1, 2))
        put = backend.put(arrays.ids), backend.put(arrays.mask), backend.put(arrays.types)
        values: np.ndarray = model.logits(*put, spans).float().cpu().numpy()
        if model.head in ("tokens", "spans"):
            return [row[real] for row, real in zip(values, arrays.mask, strict=True)]
        return list(values)

    return logits
