"""Rotary positions: pairs of numbers turned by angles (Su et al. 2021, arXiv:2104.09864), forward and backward.

The derivative of a rotation is the rotation back, so nothing but the angles is stored. Written into two halves of one result:
PyTorch's operators for the same formula write four results and join them.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """x (..., K), in which numbers k and k + K/2 are a pair -> the same shape and type.

    `cos`, `sin`: (..., K/2), in the type of x, of shapes that broadcast.
    """
    if x.requires_grad and not torch.compiler.is_compiling():
        out: Tensor = _Rotate.apply(x, cos, sin)  # type: ignore[no-untyped-call]
        return out
    return _plain(x, cos, sin) if x.requires_grad else _rotated(x, cos, sin)


def _plain(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    a, b = x.chunk(2, -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


def _rotated(x: Tensor, cos: Tensor, sin: Tensor, way: int = 1) -> Tensor:
    """`way`: 1, or -1 for the rotation back."""
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    (a, b), (c, d) = x.chunk(2, -1), out.chunk(2, -1)
    torch.mul(a, cos, out=c)
    c.addcmul_(b, sin, value=-way)
    torch.mul(b, cos, out=d)
    d.addcmul_(a, sin, value=way)
    return out


class _Rotate(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        ctx.save_for_backward(cos, sin)
        return _rotated(x, cos, sin)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor, None, None]:
        cos, sin = ctx.saved_tensors
        return _rotated(grad_outputs[0], cos, sin, -1), None, None
