"""Dropout (Srivastava et al. 2014)."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn

from nlptools.compute.kernels.dropout import dropout


class Dropout(nn.Module):
    """During training, set each element to zero with probability `p` and scale the others by 1 / (1 - p)."""

    __call__: Callable[..., Tensor]

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    @property
    def active(self) -> bool:
        """Whether elements are dropped now."""
        return self.training and self.p > 0.0

    def forward(self, x: Tensor) -> Tensor:
        return dropout(x, self.p) if self.active else x

    def add(self, residual: Tensor, x: Tensor) -> Tensor:
        """`residual` plus dropout of `x`, in one pass over memory."""
        return dropout(x, self.p, residual) if self.active else residual + x

    def extra_repr(self) -> str:
        return f"p={self.p}"
