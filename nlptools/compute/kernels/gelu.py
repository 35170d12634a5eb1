"""The tanh approximation of GELU; its derivative is computed in the forward pass.

Hendrycks & Gimpel 2016, "Gaussian error linear units" (arXiv:1606.08415): x * sigmoid(u), u = sqrt(8 / pi) (x + 0.044715 x^3).
When training on a CPU in bfloat16, value and derivative come from one visit to each element, in float32, in pieces that
stay in the processor's cache. The derivative is stored instead of the input, so backward is one product. PyTorch's kernels
evaluate a tanh in each direction.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from nlptools.compute.kernels.context import FunctionContext

_SLOPE = 1.5957691216057308  # sqrt(8 / pi)
_CUBIC = 0.044715
_PIECE = 1 << 17  # elements at a time


def gelu_tanh(x: Tensor) -> Tensor:
    """GELU of each element, in the type of `x`."""
    if x.requires_grad and x.device.type == "cpu" and x.dtype == torch.bfloat16 and not torch.compiler.is_compiling():
        out: Tensor = _Gelu.apply(x)  # type: ignore[no-untyped-call]
        return out
    return F.gelu(x, approximate="tanh")


class _Gelu(torch.autograd.Function):
    @staticmethod
    def forward(ctx: FunctionContext, x: Tensor) -> Tensor:
        values, derivative = torch.empty_like(x), torch.empty_like(x)
        flat, flat_values, flat_derivative = x.reshape(-1), values.view(-1), derivative.view(-1)
        buffers = torch.empty(3, min(_PIECE, flat.numel()))
        for start in range(0, flat.numel(), _PIECE):
            piece = slice(start, start + _PIECE)
            z, u, s = buffers[:, : flat[piece].numel()]
            z.copy_(flat[piece])
            torch.mul(z, z, out=u)
            torch.addcmul(z, z, u, value=_CUBIC, out=u).mul_(_SLOPE)
            torch.sigmoid(u, out=s)
            # z * du/dz = 3 u - 2 SLOPE z, and d(z s)/dz = s + z s (1 - s) du/dz
            u.sub_(z, alpha=2 / 3 * _SLOPE)
            flat_values[piece] = z.mul_(s)
            torch.ops.aten.sigmoid_backward.grad_input(u, s, grad_input=u)
            flat_derivative[piece] = s.add_(u, alpha=3)
        ctx.save_for_backward(derivative)
        return values

    @staticmethod
    def backward(ctx: FunctionContext, *grad_outputs: Tensor) -> Tensor:
        (derivative,) = ctx.saved_tensors
        d_x: Tensor = grad_outputs[0] * derivative
        return d_x
