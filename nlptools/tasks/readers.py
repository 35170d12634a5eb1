"""Bidirectional LSTMs over words with heads of tasks: rows of words, and logits of rows, for validation and prediction.

Shapes: B batch, T length, L layers of an ELMo, P its projection, N words and marks of all rows.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from nlptools import bundle
from nlptools.batches.encoder_rows import Marks, ranges
from nlptools.batches.features import Encoding, Features
from nlptools.batches.pairs import cut_batches
from nlptools.batches.spelled_words import MAX_LENGTH
from nlptools.compute.backend import Backend
from nlptools.errors import BundleError, display
from nlptools.models.tasks.heads import OF_TOKENS
from nlptools.models.tasks.word_reader import CLS, MARKS, PAD, SEP, UNK, WordReader
from nlptools.text.builtin import NamedTokenizer
from nlptools.text.lexicon import Lexicon

_MOST_BYTES = 1 << 30  # of features that are kept
_WORDS = 4096  # of a batch that features are computed of


def new_encoding(tokenizer: NamedTokenizer, max_length: int, threads: int) -> tuple[Encoding, Lexicon]:
    """How texts become rows of words, and the words that the rows number. `max_length` 0: the usual one."""
    lexicon = Lexicon(tokenizer, len(MARKS))
    marks = Marks(CLS, SEP, pad=PAD, unk=UNK)
    return Encoding(lexicon, marks, max_length or MAX_LENGTH, 2, threads), lexicon


def encoding(loaded: bundle.Bundle[WordReader], max_length: int, threads: int) -> Encoding:
    """How texts become rows for the model of a directory. Raises BundleError."""
    tokenizer, model = loaded.tokenizer, loaded.model
    vocab = tokenizer.vocab
    if not isinstance(tokenizer, NamedTokenizer) or vocab is None or tuple(vocab.tokens[: len(MARKS)]) != MARKS:
        raise BundleError(f"{display(str(loaded.path))}: the vocabulary does not begin with {' '.join(MARKS)}")
    rows: Encoding
    rows, model.lexicon = new_encoding(tokenizer, max_length, threads)
    return rows


def kept_features(model: WordReader, features: Features, backend: Backend) -> np.ndarray | None:
    """(N, (L + 1) 2 P) float32: the vectors of a frozen ELMo for all rows, end to end; None if it is too large to be kept."""
    assert model.elmo is not None and model.config.elmo is not None
    width = (model.config.num_hidden_layers + 1) * 2 * model.config.elmo.hidden_size
    if 4 * width * len(features.rows.ids) > _MOST_BYTES:
        return None
    model.eval()
    order = np.argsort(-features.lengths, kind="stable")
    bounds = cut_batches(features.lengths[order], _WORDS)
    out = np.empty((len(features.rows.ids), width), np.float32)
    for begin, end in pairwise(bounds):
        rows = order[begin:end]
        batch = features.rows.batch(rows, PAD)
        mask = backend.put(batch.mask)
        with torch.inference_mode():
            states = model.features(backend.put(batch.ids), mask)  # (L + 1, B, T, 2 P)
            places = ranges(features.rows.bounds[rows], features.lengths[rows])
            out[places] = states.permute(1, 2, 0, 3).flatten(2)[mask].float().cpu().numpy()
    return out


def padded_features(kept: np.ndarray, features: Features, rows: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """(B, T, (L + 1) 2 P) the kept features of some rows with this mask (B, T), 0 at padding."""
    out = np.zeros((*mask.shape, kept.shape[1]), np.float32)
    out[mask] = kept[ranges(features.rows.bounds[rows], features.lengths[rows])]
    return out


def by_layer(padded_BTF: Tensor, model: WordReader) -> Tensor:
    """`padded_features` as the model reads them, (L + 1, B, T, 2 P)."""
    B, T, _ = padded_BTF.shape
    return padded_BTF.view(B, T, model.config.num_hidden_layers + 1, -1).permute(2, 0, 1, 3)


def row_logits(model: WordReader, features: Features, backend: Backend) -> Callable[[np.ndarray], list[np.ndarray]]:
    """A function from the numbers of rows (B,) to the logits of each row, float32: (T, K) of its T words, or of the row."""
    kept = None
    if model.keeps_features:  # in training: the same rows come again after the next epoch
        if model.kept is None or model.kept[0] is not features:
            model.kept = features, kept_features(model, features, backend)
        kept = model.kept[1]

    def logits(rows: np.ndarray) -> list[np.ndarray]:
        arrays = features.rows.batch(rows, PAD)
        spans = known = None
        if model.head == "mentions":
            spans = backend.put(features.targets["spans"][rows].reshape(len(rows), -1, 2))
        if kept is not None:
            known = by_layer(backend.put(padded_features(kept, features, rows, arrays.mask)), model)
        put = backend.put(arrays.ids), backend.put(arrays.mask), backend.put(arrays.types)
        values: np.ndarray = model.logits(*put, spans, known).float().cpu().numpy()
        if model.head in OF_TOKENS:
            return [row[real] for row, real in zip(values, arrays.mask, strict=True)]
        return list(values)

    return logits
