"""Positions as sines and cosines.

Vaswani et al. 2017 (arXiv:1706.03762), section 3.5. Departure: the sines fill the first half and the cosines the second,
as in Marian, instead of alternating. This only changes the order of the dimensions.
"""

from __future__ import annotations

import torch
from torch import Tensor


class Sinusoids:
    """A table of positions that grows on demand. It has no weights, so nothing is saved."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._table = torch.empty(0, size)

    def __call__(self, begin: int, end: int, like: Tensor) -> Tensor:
        """(end - begin, D): the positions from `begin` to `end`, in the type and on the device of `like`."""
        if end > len(self._table) or self._table.dtype != like.dtype or self._table.device != like.device:
            length = max(256, 1 << (end - 1).bit_length())
            self._table = sinusoids(length, self.size).to(like)
        return self._table[begin:end]


def sinusoids(length: int, size: int) -> Tensor:
    """(length, D) float32; row p holds sin(p / 10000^(2i/D)) for each i, then the cosines of the same angles."""
    rates = 10000.0 ** (-2 * torch.arange(size // 2, dtype=torch.float64) / size)
    angles = torch.arange(length, dtype=torch.float64)[:, None] * rates
    return torch.cat([angles.sin(), angles.cos()], 1).float()
