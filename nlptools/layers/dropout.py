"""Dropout that is cheap on a CPU.

Srivastava et al. 2014, "Dropout: a simple way to prevent neural networks from overfitting".
Departure: the probability is rounded to a multiple of 1/65536 and each 64-bit draw of the generator decides four
elements; kept values are scaled by the exact inverse of the rounded probability, so the expectation is right. PyTorch's
own CPU kernel draws a float per element, which costs more than the matrix products around it in small models.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Dropout(nn.Module):
    """Zero each element with probability `p` while training, and scale the rest by 1 / (1 - p)."""

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.p == 0.0:
            return x
        if x.device.type != "cpu":
            return F.dropout(x, self.p)
        kept, scale = keep_mask(x.shape, self.p)
        return x * kept.to(x.dtype).mul_(scale)

    def add(self, residual: Tensor, x: Tensor) -> Tensor:
        """`residual` plus dropout of `x`, in one pass over memory."""
        if not self.training or self.p == 0.0:
            return residual + x
        if x.device.type != "cpu":
            return residual + F.dropout(x, self.p)
        kept, scale = keep_mask(x.shape, self.p)
        return torch.addcmul(residual, x, kept.to(x.dtype), value=scale)

    def extra_repr(self) -> str:
        return f"p={self.p}"


def keep_mask(shape: torch.Size, p: float) -> tuple[Tensor, float]:
    """(CPU tensor of bools, False with probability `p` rounded to 1/65536; 1 / (1 - that probability))."""
    count = shape.numel()
    words = torch.empty((count + 3) // 4, dtype=torch.int64).random_(-(2**63), None)
    draws = words.view(torch.int16)[:count]  # uniform over -32768 .. 32767
    threshold = min(round(p * 65536), 65535)
    return (draws >= threshold - 32768).view(shape), 65536 / (65536 - threshold)
