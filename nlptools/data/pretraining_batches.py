"""Batches that encoders are pretrained on: masks put in, several sequences packed in each row.

Shapes: B rows, T positions of a row, M positions to be predicted, N sequences.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class PretrainingBatch:
    """Rows of packed sequences, padded on the right. A position attends to those with its number in `sequences`."""

    ids: np.ndarray  # (B, T) int64, with masks and random tokens put in
    types: np.ndarray  # (B, T) int64, 0: [CLS] and the first segment with its [SEP]; 1: the second one
    positions: np.ndarray  # (B, T) int64, from 0 in each sequence
    sequences: np.ndarray  # (B, T) int64, number of the sequence within its row, from 1; 0: padding
    masked: np.ndarray  # (M,) int64, flat indexes into B*T of what is to be predicted, rising
    targets: np.ndarray  # (M,) int64, the tokens that stood there
    firsts: np.ndarray  # (N,) int64, flat indexes of the [CLS] of each sequence, rising
    next_sentence: (
        np.ndarray
    )  # (N,) int64, 0: the second segment goes on with the first, 1: it is a random one; or (0,)

    @property
    def num_targets(self) -> int:
        """Masked positions."""
        return len(self.masked)
