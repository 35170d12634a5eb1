"""Negative samples: words drawn in proportion to a power of their counts.

Mikolov et al. 2013 (arXiv:1310.4546) draw in proportion to count^0.75. Departure from their C code: the alias method
(Walker 1977) instead of a table of 10^8 entries, so that the proportions are exact.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor


class Negatives:
    """Draws words.

    Args:
        counts: (V,) how often each word occurs.
        exponent: power of the counts.
    """

    def __init__(self, counts: np.ndarray, exponent: float, device: torch.device) -> None:
        weights = np.asarray(counts, np.float64) ** exponent * (np.asarray(counts) > 0)
        self.shares = torch.from_numpy(weights / weights.sum()).to(device)  # (V,) float64
        own, alias = _alias(weights / weights.sum())
        self._own = torch.from_numpy(own.astype(np.float32)).to(device)
        self._alias = torch.from_numpy(alias).to(device)

    def draw(self, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
        """int64 words of this shape."""
        device = self._own.device
        column = torch.randint(len(self._own), shape, generator=generator, device=device)
        stays = torch.rand(shape, generator=generator, device=device) < self._own[column]
        return torch.where(stays, column, self._alias[column])


def _alias(probabilities: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(share of each column that is its own, word that has the rest): columns of equal height from unequal ones."""
    V = len(probabilities)
    heights = probabilities * V
    own, alias = np.ones(V), np.arange(V)
    low = np.flatnonzero(heights < 1).tolist()
    high = np.flatnonzero(heights >= 1).tolist()
    left = heights.tolist()
    while low and high:
        small, large = low.pop(), high[-1]
        own[small], alias[small] = left[small], large
        left[large] -= 1 - left[small]
        if left[large] < 1:
            high.pop()
            low.append(large)
    return own, alias
