"""A matrix that many time steps multiply with; its gradient is one product over all steps.

Autograd would compute a matrix of gradients at each step and add it to the sum of the others. This way recurrent decoders
train a tenth faster, and more with long sources. A hand-written backward pass of the gates of a cell gained nothing.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


class SharedMatrix:
    """A matrix (..., K, M) for many products x (..., N, K) -> (..., N, M). `torch.compile` sees plain products."""

    def __init__(self, matrix: Tensor) -> None:
        self._steps: list[tuple[Tensor, Tensor]] = []  # each x, and the gradient of its product
        self.tracked = torch.is_grad_enabled() and matrix.requires_grad and not torch.compiler.is_compiling()
        self.matrix: Tensor = _Root.apply(matrix, self._steps) if self.tracked else matrix  # type: ignore[no-untyped-call]

    def __call__(self, x: Tensor, base: Tensor | None = None) -> Tensor:
        """The product, plus `base`, if given."""
        if not self.tracked:
            return _multiply(x, self.matrix, base)
        out: Tensor = _Product.apply(x, self.matrix, base, self._steps)  # type: ignore[no-untyped-call]
        return out


class _Root(torch.autograd.Function):
    """Stands between a matrix and its steps: its backward pass runs after all of theirs."""

    @staticmethod
    def forward(ctx: Any, matrix: Tensor, steps: list[tuple[Tensor, Tensor]]) -> Tensor:
        ctx.set_materialize_grads(False)
        ctx.steps = steps
        return matrix.view_as(matrix)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor, None]:
        left, right = (torch.cat(parts, -2) for parts in zip(*ctx.steps, strict=True))
        ctx.steps.clear()
        return left.transpose(-1, -2) @ right, None


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, matrix: Tensor, base: Tensor | None, steps: list[tuple[Tensor, Tensor]]) -> Tensor:
        ctx.save_for_backward(x, matrix)
        ctx.steps = steps
        ctx.base_shape = None if base is None else base.shape
        return _multiply(x, matrix, base)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor | None, None, Tensor | None, None]:
        x, matrix = ctx.saved_tensors
        (d_out,) = grad_outputs
        ctx.steps.append((x.detach(), d_out))
        d_x = d_out @ matrix.transpose(-1, -2) if ctx.needs_input_grad[0] else None
        d_base = d_out.sum_to_size(ctx.base_shape) if ctx.needs_input_grad[2] else None
        return d_x, None, d_base, None


def _multiply(x: Tensor, matrix: Tensor, base: Tensor | None) -> Tensor:
    if base is None:
        return x @ matrix
    return torch.addmm(base, x, matrix) if x.dim() == 2 else torch.baddbmm(base, x, matrix)
