"""RMSNorm, forward and backward in few passes over memory.

Zhang & Sennrich 2019 (arXiv:1910.07467): x / sqrt(mean(x^2) + eps) * weight. On a CPU, PyTorch composes it of
single operators, which in bfloat16 convert x to float32 and back, and keep their results for backward. Here x is converted once,
in pieces that stay in the processor's cache, and one number per row is kept.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

_PIECE = 1 << 17  # elements at a time


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """(..., D), (D,) -> (..., D), in the type of x; the mean is computed in float32 at least."""
    if x.device.type != "cpu" or torch.compiler.is_compiling() or x.dtype not in (torch.float32, torch.bfloat16):
        return F.rms_norm(x, weight.shape, weight, eps)
    if torch.is_grad_enabled() and (x.requires_grad or weight.requires_grad):
        out: Tensor = _RMSNorm.apply(x, weight, eps)  # type: ignore[no-untyped-call]
        return out
    return _forward(x, weight, eps)[0]


def _forward(x: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """The result, and the reciprocal root of each row (N, 1), float32."""
    rows = x.reshape(-1, x.shape[-1])
    out = torch.empty(rows.shape, dtype=x.dtype)
    scale = torch.empty(len(rows), 1)
    size = max(1, _PIECE // x.shape[-1])
    gain = weight.float()
    for start in range(0, len(rows), size):
        piece = rows[start : start + size].float()
        roots = torch.linalg.vecdot(piece, piece)[:, None].div_(x.shape[-1]).add_(eps).rsqrt_()
        scale[start : start + size] = roots
        out[start : start + size] = (piece * roots).mul_(gain)
    return out.view(x.shape), scale


class _RMSNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, eps: float) -> Tensor:
        out, scale = _forward(x, weight, eps)
        ctx.save_for_backward(x, weight, scale)
        return out

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor, Tensor, None]:
        x, weight, scale = ctx.saved_tensors
        D = x.shape[-1]
        rows, gradient = x.reshape(-1, D), grad_outputs[0].reshape(-1, D)
        d_x = torch.empty(rows.shape, dtype=x.dtype)
        d_weight, gain = torch.zeros(D), weight.float()
        size = max(1, _PIECE // D)
        for start in range(0, len(rows), size):
            piece = slice(start, start + size)
            normed = rows[piece].float() * scale[piece]
            g = gradient[piece].float()
            d_weight += torch.linalg.vecdot(g, normed, dim=0)
            g = g * gain
            # d_x = scale * (g - normed * mean(g * normed))
            mean = torch.linalg.vecdot(g, normed)[:, None].div_(-D)
            d_x[piece] = g.addcmul_(normed, mean).mul_(scale[piece])
        return d_x.view(x.shape), d_weight.to(weight.dtype), None
