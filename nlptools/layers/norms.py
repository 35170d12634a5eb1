"""Norms of hidden states."""

from __future__ import annotations

from torch import Tensor, nn

from nlptools.compute.kernels.rms_norm import rms_norm


class RMSNorm(nn.RMSNorm):
    """Division by the root of the mean square, and a gain for each dimension (Zhang & Sennrich 2019, arXiv:1910.07467)."""

    def __init__(self, size: int, eps: float) -> None:
        super().__init__(size, eps)

    def forward(self, x: Tensor) -> Tensor:
        """(..., D) -> (..., D)."""
        return rms_norm(x, self.weight, self.eps or 0.0)
