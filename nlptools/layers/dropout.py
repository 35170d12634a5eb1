"""Dropout that is cheap on a CPU.

Srivastava et al. 2014, "Dropout: a simple way to prevent neural networks from overfitting".
Departure: each element is decided by a byte, which makes probabilities multiples of 1/256. A share of the elements, from a
random place on, is dropped at the multiple above `p` and the others at the one below, so that it is `p` for each of them;
kept values are scaled by the exact inverse for this very number of elements. The bytes come from a generator (SFC64,
Doty-Humphrey 2010, as NumPy has it) that PyTorch's seeds. PyTorch's own CPU kernel draws a float per element, which costs more
than the matrix products around it in small models. For 6 million elements: 31 ms, this 1.4.
Masks are whole numbers, not bools: PyTorch compares into bools, and multiplies by them, without vector instructions.
For 3 million elements, one thread: 1.1 ms to compare and 3.0 to make bfloat16 of that; 0.07 and 0.2 this way.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

_ONE_IN_BFLOAT16 = 0x3F80  # its bits


class Dropout(nn.Module):
    """Zero each element with probability `p` while training, and scale the rest by 1 / (1 - p)."""

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.p == 0.0:
            return x
        if _has_own_kernel(x):
            return F.dropout(x, self.p)
        out: Tensor = _DroppedSum.apply(None, x, self.p)  # type: ignore[no-untyped-call]
        return out

    def add(self, residual: Tensor, x: Tensor) -> Tensor:
        """`residual` plus dropout of `x`, in one pass over memory."""
        if not self.training or self.p == 0.0:
            return residual + x
        if _has_own_kernel(x):
            return residual + F.dropout(x, self.p)
        out: Tensor = _DroppedSum.apply(residual, x, self.p)  # type: ignore[no-untyped-call]
        return out

    def extra_repr(self) -> str:
        return f"p={self.p}"


class _DroppedSum(torch.autograd.Function):
    """A residual, or None for nothing, plus dropout of a tensor of the same shape. A byte per element is kept."""

    @staticmethod
    def forward(ctx: Any, residual: Tensor | None, x: Tensor, p: float) -> Tensor:
        kept, ctx.scale = keep_mask(x.shape, p)
        ctx.save_for_backward(kept)
        return torch.addcmul(
            _nothing(x) if residual is None else residual, x, as_factors(kept, x.dtype), value=ctx.scale
        )

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor | None, Tensor, None]:
        (kept,), (gradient,) = ctx.saved_tensors, grad_outputs
        of_x = torch.addcmul(_nothing(gradient), gradient, as_factors(kept, gradient.dtype), value=ctx.scale)
        return gradient if ctx.needs_input_grad[0] else None, of_x, None


def _nothing(x: Tensor) -> Tensor:
    """A zero that `addcmul` adds its product to: one pass over memory instead of two."""
    return torch.zeros((), dtype=x.dtype)


def keep_mask(shape: torch.Size, p: float) -> tuple[Tensor, float]:
    """(CPU tensor of int8, 0 with probability `p`, at most 255/256, else 1; 1 / (1 - that probability))."""
    count = shape.numel()
    seed, first = torch.empty(2, dtype=torch.int64).random_().tolist()
    draws = torch.from_numpy(np.random.SFC64(seed).random_raw((count + 7) // 8).view(np.int8))[:count]
    dropped = min(round(256 * count * p), 255 * count)  # of 256 draws for each element
    least, more = divmod(dropped, max(1, count))
    first %= max(1, count)
    around = max(0, first + more - count)  # those that come before `first`, where the share reaches beyond the last
    pieces = (
        (draws[:around], 1),
        (draws[around:first], 0),
        (draws[first : first + more], 1),
        (draws[first + more :], 0),
    )
    for piece, one in pieces:
        piece.ge_(least + one - 128)
    return draws.view(shape), 256 * count / max(1, 256 * count - dropped)


def _has_own_kernel(x: Tensor) -> bool:
    """Whether PyTorch's dropout is the fast one: on a GPU, and where a compiler puts it into other kernels."""
    return x.device.type != "cpu" or torch.compiler.is_compiling()


def as_factors(kept: Tensor, dtype: torch.dtype) -> Tensor:
    """Zeros and ones in int8 -> the same in `dtype`."""
    if dtype == torch.bfloat16:
        return kept.to(torch.int16).mul_(_ONE_IN_BFLOAT16).view(dtype)
    return kept.to(dtype)
