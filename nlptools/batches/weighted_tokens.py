"""Rows of a linear model: features by number, each with a value. Counts of words: each word has the value 1. Numbers: feature i
of every row is its i-th number.

Shapes: N examples, F numbers of each, B rows of a batch, T features of the longest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nlptools.batches.encoder_rows import EncoderRows, padded, ranges
from nlptools.batches.features import FeatureBatch, FeatureBatches, Features
from nlptools.errors import InvalidText, shown
from nlptools.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class NumberEncoding:
    """How texts of `count` numbers, separated by spaces, become rows. The tokenizer numbers the columns."""

    tokenizer: Tokenizer
    count: int

    def rows(self, texts: Sequence[Sequence[str]]) -> Features:
        """One row for each element, which is one text. Raises InvalidText for a text that is not `count` finite numbers."""
        N, F = len(texts), self.count
        ids = np.tile(np.arange(F, dtype=np.int32), N)
        rows = EncoderRows(ids, np.zeros(N * F, np.uint8), np.arange(N + 1, dtype=np.int64) * F)
        return Features(rows, tables={"values": self.values(texts).reshape(-1)})

    def values(self, texts: Sequence[Sequence[str]]) -> np.ndarray:
        """(N, F) float32. Raises InvalidText."""
        out = np.empty((len(texts), self.count), np.float32)
        for row, (text, *_) in enumerate(texts):
            try:
                out[row] = [float(field) for field in text.split()]
                valid = bool(np.isfinite(out[row]).all()) and len(text.split()) == self.count
            except ValueError:
                valid = False
            if not valid:
                expected = "a finite number" if self.count == 1 else f"{self.count} finite numbers separated by spaces"
                raise InvalidText(f"expected {expected}, found {shown(text)}", row)
        return out


def weighted_rows(features: Features, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Some rows: the numbers of their features (B, T), and their values (B, T) float32, 0 at padding."""
    bounds, lengths = features.rows.bounds, features.lengths[rows]
    ids = padded(features.rows.ids, bounds, rows, 0)
    values = (np.arange(ids.shape[1]) < lengths[:, None]).astype(np.float32)
    if "values" in features.tables:
        values[values > 0] = features.tables["values"][ranges(bounds[rows], lengths)]
    return ids, values


@dataclass(frozen=True)
class WeightedBatch(FeatureBatch):
    """A batch with the values (B, T) of its features."""

    values: np.ndarray

    @property
    def inputs(self) -> tuple[np.ndarray, ...]:
        """The arguments of the model: ids and values."""
        return self.ids, self.values


class WeightedBatches(FeatureBatches):
    """See `FeatureBatches`; the batches are `WeightedBatch`es."""

    def _batch(self, plan: list[np.ndarray], position: int, mine: slice) -> WeightedBatch:
        batch = super()._batch(plan, position, mine)
        ids, values = weighted_rows(self.features, batch.rows)
        return WeightedBatch(batch.rows, ids, batch.mask, batch.types, batch.targets, batch.weight, values)
