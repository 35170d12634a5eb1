"""Negative samples: words drawn in proportion to a power of their counts.

Mikolov et al. 2013 (arXiv:1310.4546) draw in proportion to count^0.75. Departure: many words are drawn at once by
systematic sampling (Madow and Madow 1944): a word that is expected x times among n is drawn floor(x) or ceil(x) times, and
the order is random. This keeps the proportions exact and removes the variance of the counts.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor


class Negatives:
    """Draws negative samples.

    Args:
        counts: (V,) how often each word occurs.
        exponent: exponent of the counts.
    """

    def __init__(self, counts: np.ndarray, exponent: float, device: torch.device) -> None:
        weights = np.asarray(counts, np.float64) ** exponent * (np.asarray(counts) > 0)
        self.shares = torch.from_numpy(weights / weights.sum()).to(device)  # (V,) float64
        self._ends = self.shares.cumsum(0)
        self._ends[-1] = 1.0

    def draw(self, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
        """int64 words of the given shape."""
        n, device = math.prod(shape), self._ends.device
        offset = torch.rand(1, generator=generator, device=device, dtype=torch.float64)
        ends = (self._ends * n + offset).floor().long().clamp_(max=n)
        ends[-1] = n
        numbers = ends.diff(prepend=ends.new_zeros(1))
        words = torch.arange(len(ends), device=device).repeat_interleave(numbers, output_size=n)
        return words[torch.randperm(n, generator=generator, device=device)].view(shape)
