"""Which positions of a batch the last block is computed for.

The others are attended to: they need keys and values there, but no queries and nothing of what comes after attention. With a
mask on 15% of the tokens that saves 70% of the last block.
Shapes: B rows, T positions of a row, Q places of a row, M places that are wanted, D hidden.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True)
class Places:
    """Positions that are wanted, as many in each row as attention takes queries."""

    positions: Tensor  # (B, Q) int64 within the row; 0 where fewer than Q are wanted
    wanted: Tensor  # (M,) int64, flat indexes into B*Q

    @classmethod
    def first(cls, rows: int, device: torch.device) -> Places:
        """The first position of each row."""
        return cls(torch.zeros(rows, 1, dtype=torch.int64, device=device), torch.arange(rows, device=device))

    def queries(self, x: Tensor) -> Tensor:
        """(B, T, ...) -> (B, Q, ...)."""
        B, T = x.shape[:2]
        found: Tensor = x.reshape(B * T, *x.shape[2:]).index_select(0, self._flat(B, T))
        return found.view(*self.positions.shape, *x.shape[2:])

    def select(self, x: Tensor) -> Tensor:
        """(B, T, D) -> (M, D)."""
        B, T, D = x.shape
        return x.reshape(B * T, D).index_select(0, self._flat(B, T)[self.wanted])

    def _flat(self, B: int, T: int) -> Tensor:
        return (self.positions + T * torch.arange(B, device=self.positions.device)[:, None]).flatten()


def in_rows(wanted: np.ndarray, rows: int, length: int) -> tuple[np.ndarray, np.ndarray]:
    """The arrays of `Places`, given M flat indexes into rows * length, in any order."""
    row, position = np.divmod(wanted, length)
    counts = np.bincount(row, minlength=rows)
    size = max(1, int(counts.max()))
    order = np.argsort(row, kind="stable")
    slots = np.empty_like(wanted)  # which of its row each is
    slots[order] = np.arange(len(wanted)) - np.repeat(np.cumsum(counts) - counts, counts)
    flat = row * size + slots
    positions = np.zeros(rows * size, np.int64)
    positions[flat] = position
    return positions.reshape(rows, size), flat
