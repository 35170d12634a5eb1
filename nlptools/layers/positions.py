"""Schemes of positions: what a model adds to its embeddings, and how attention changes queries and keys.

A new scheme is a class and a row in `POSITIONS`. Shapes: B batch, T length, D hidden size, H heads, K head size.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

Turn = Callable[[Tensor], Tensor]  # queries and keys (B, T, 2, H, K) -> the same, as they are compared


class Positions:
    """No positions: causal attention alone tells them apart (Haviv et al. 2022, arXiv:2203.16634)."""

    def __init__(self, length: int, hidden_size: int, head_size: int = 0) -> None:
        """`length`: number of positions."""

    def add_to(self, x: Tensor, positions: Tensor) -> Tensor:
        """Embeddings (..., T, D) with what stands for `positions` (..., T), int64, added."""
        return x

    def turn(self, positions: Tensor) -> Turn | None:
        """How attention changes queries and keys at `positions` (..., T); None: not at all."""
        return None


class LearnedPositions(nn.Embedding, Positions):
    """A learned vector for each position (Gehring et al. 2017, arXiv:1705.03122)."""

    def __init__(self, length: int, hidden_size: int, head_size: int = 0) -> None:
        """See `Positions`."""
        super().__init__(length, hidden_size)

    def add_to(self, x: Tensor, positions: Tensor) -> Tensor:
        """See `Positions`."""
        added: Tensor = x + self(positions)
        return added


class Sinusoids(Positions):
    """Sines and cosines (Vaswani et al. 2017, arXiv:1706.03762, section 3.5), in a table that grows on demand.

    It has no weights, so nothing is saved. Departure: the sines fill the first half and the cosines the second, as in Marian,
    instead of alternating. This only changes the order of the dimensions.
    """

    def __init__(self, length: int, hidden_size: int, head_size: int = 0) -> None:
        """`length`: for `add_to`; `rows` has no limit."""
        self.length, self.size = length, hidden_size
        self._table = torch.empty(0, hidden_size)

    def rows(self, begin: int, end: int, like: Tensor) -> Tensor:
        """(end - begin, D): the positions from `begin` to `end`, in the type and on the device of `like`."""
        if end > len(self._table) or self._table.dtype != like.dtype or self._table.device != like.device:
            length = max(256, 1 << (end - 1).bit_length())
            self._table = sinusoids(length, self.size).to(like)
        return self._table[begin:end]

    def add_to(self, x: Tensor, positions: Tensor) -> Tensor:
        """See `Positions`."""
        return x + self.rows(0, self.length, x)[positions]


POSITIONS: dict[str, type[Positions]] = {"learned": LearnedPositions, "sinusoidal": Sinusoids, "none": Positions}


def sinusoids(length: int, size: int) -> Tensor:
    """(length, D) float32; row p holds sin(p / 10000^(2i/D)) for each i, then the cosines of the same angles."""
    rates = 10000.0 ** (-2 * torch.arange(size // 2, dtype=torch.float64) / size)
    angles = torch.arange(length, dtype=torch.float64)[:, None] * rates
    return torch.cat([angles.sin(), angles.cos()], 1).float()
