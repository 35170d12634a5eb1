"""Windows over time, laid out side by side, so that a convolution is one matrix product."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def windows(x: Tensor, kernel_size: int) -> Tensor:
    """(B, T + k - 1, D) -> (B, T, k * D): at each position the k inputs from there on, the earliest first."""
    if kernel_size == 1:
        return x
    out: Tensor = _Windows.apply(x, kernel_size)  # type: ignore[no-untyped-call]
    return out


class _Windows(torch.autograd.Function):
    """Backward adds all slices into one tensor; autograd would create a tensor of zeros for each slice and add them up."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, kernel_size: int) -> Tensor:
        ctx.kernel_size = kernel_size
        T = x.shape[1] - kernel_size + 1
        return torch.cat([x[:, i : i + T] for i in range(kernel_size)], -1)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor, None]:
        k = ctx.kernel_size
        B, T, _ = grad_outputs[0].shape
        parts = grad_outputs[0].view(B, T, k, -1)
        gradient = parts.new_zeros(B, T + k - 1, parts.shape[-1])
        for i in range(k):
            gradient[:, i : i + T] += parts[:, :, i]
        return gradient, None
