"""The positions of a batch that the last block is computed for.

The others are attended to, so they need keys and values there, but no queries and nothing that follows attention. When 15%
of the tokens are masked this saves 70% of the last block.
Dimensions: Q queries of each sequence, M wanted positions of the batch.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from nlptools.arrays import places_in_rows


@dataclass(frozen=True)
class QueryPositions:
    """Wanted positions, the same number of queries in each sequence."""

    positions: Tensor  # (B, Q) int64 within the sequence; 0 where fewer than Q are wanted
    wanted: Tensor  # (M,) int64, flat indexes into B*Q

    @classmethod
    def first(cls, batch_size: int, device: torch.device) -> QueryPositions:
        """The first position of each sequence."""
        positions = torch.zeros(batch_size, 1, dtype=torch.int64, device=device)
        return cls(positions, torch.arange(batch_size, device=device))

    def queries(self, x: Tensor) -> Tensor:
        """(B, T, ...) -> (B, Q, ...)."""
        B, T = x.shape[:2]
        rows: Tensor = x.reshape(B * T, *x.shape[2:]).index_select(0, self._flat(B, T))
        return rows.view(*self.positions.shape, *x.shape[2:])

    def select(self, x: Tensor) -> Tensor:
        """(B, T, D) -> (M, D)."""
        B, T, D = x.shape
        return x.reshape(B * T, D).index_select(0, self._flat(B, T)[self.wanted])

    def _flat(self, B: int, T: int) -> Tensor:
        return (self.positions + T * torch.arange(B, device=self.positions.device)[:, None]).flatten()


def position_arrays(wanted: np.ndarray, batch_size: int, length: int) -> tuple[np.ndarray, np.ndarray]:
    """The two arrays of `QueryPositions`, given M flat indexes into batch_size * length, in any order."""
    row, position = np.divmod(wanted, length)
    counts = np.bincount(row, minlength=batch_size)
    size = max(1, int(counts.max()))
    order = np.argsort(row, kind="stable")
    slots = np.empty_like(wanted)  # the number of each within its sequence
    slots[order] = places_in_rows(counts)
    flat = row * size + slots
    positions = np.zeros(batch_size * size, np.int64)
    positions[flat] = position
    return positions.reshape(batch_size, size), flat
