"""Cells of recurrent decoders, and what makes a loop over them cheap on a CPU.

LSTM: Hochreiter & Schmidhuber 1997, with the forget gate of Gers et al. 2000. GRU: Cho et al. 2014 (arXiv:1406.1078).
Departure: the reset gate acts on the product of the hidden state instead of the state itself, so that one product serves
all three parts of a GRU (as cuDNN has it).
A matrix that every step multiplies with gets its gradient as one product over all steps (`Shared`): a tenth more tokens
per second, and more with long sources. A backward pass of the gates written by hand gained nothing.
Shapes: B rows, D hidden, G = 4 D (LSTM) or 3 D (GRU) gates, F what is fed to the cell at each step.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from nlptools.layers.linear import Linear


class Shared:
    """A matrix (..., K, M) that many steps multiply with, from the left: x (..., N, K) -> (..., N, M).

    The gradient of the matrix is one product, made when the backward pass has been through all steps; else each step
    would make a matrix as large and add it to the sum of the others. The compiler goes its own way.
    """

    def __init__(self, matrix: Tensor) -> None:
        self._steps: list[tuple[Tensor, Tensor]] = []  # what was multiplied, and the gradient of the product
        tracked = torch.is_grad_enabled() and matrix.requires_grad and not torch.compiler.is_compiling()
        self.matrix: Tensor = _Root.apply(matrix, self._steps) if tracked else matrix  # type: ignore[no-untyped-call]
        self.tracked = tracked

    def __call__(self, x: Tensor, base: Tensor | None = None) -> Tensor:
        """The product, plus `base` when there is one."""
        if not self.tracked:
            return _multiply(x, self.matrix, base)
        out: Tensor = _Product.apply(x, self.matrix, base, self._steps)  # type: ignore[no-untyped-call]
        return out


class _Root(torch.autograd.Function):
    """Stands between a matrix and its steps: its backward pass runs when theirs have all run."""

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


class Step:
    """A `Linear` in a loop: with gradients its weight is `Shared`, without its packed copy is used."""

    def __init__(self, linear: Linear) -> None:
        self.linear = linear
        training = torch.is_grad_enabled() and linear.weight.requires_grad
        self.shared = Shared(linear.weight.t()) if training else None

    def __call__(self, x: Tensor, base: Tensor | None = None) -> Tensor:
        """(B, F) -> (B, G), plus `base`, which a linear map without a bias may be given."""
        if self.shared is not None:
            return self.shared(x, self.linear.bias if base is None else base)
        out: Tensor = self.linear(x)
        return out if base is None else out + base


def lstm(gates: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
    """Gates (B, 4 D) before activation, in the order input, forget, candidate, output; cell (B, D) -> hidden, cell."""
    i, f, g, o = gates.chunk(4, 1)
    after = f.sigmoid() * cell + i.sigmoid() * g.tanh()
    return o.sigmoid() * after.tanh(), after


def gru(of_input: Tensor, of_hidden: Tensor, hidden: Tensor) -> Tensor:
    """Two products (B, 3 D), of input and hidden state, in the order reset, update, candidate; hidden (B, D) -> hidden."""
    (reset_x, update_x, x), (reset_h, update_h, h) = of_input.chunk(3, 1), of_hidden.chunk(3, 1)
    candidate = (x + (reset_x + reset_h).sigmoid() * h).tanh()
    return torch.lerp(candidate, hidden, (update_x + update_h).sigmoid())


class Cell(nn.Module):
    """The parameters of one layer of a decoder: what is fed at each step and the hidden state, to the gates.

    Without `bias` the caller brings it along with `base`, as with the products of the embeddings, made for all steps at
    once.
    """

    def __init__(self, kind: str, fed_size: int, hidden_size: int, *, bias: bool) -> None:
        super().__init__()
        self.kind = kind
        gates = (4 if kind == "lstm" else 3) * hidden_size
        self.fed = Linear(fed_size, gates, bias=bias) if fed_size else None
        self.hidden = Linear(hidden_size, gates, bias=False)


class CellSteps:
    """A `Cell` in a loop."""

    def __init__(self, cell: Cell) -> None:
        self.kind = cell.kind
        self.fed = None if cell.fed is None else Step(cell.fed)
        self.hidden = Step(cell.hidden)

    def __call__(self, base: Tensor | None, fed: Tensor | None, hidden: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
        """`base` (B, G) to be added to the gates, `fed` (B, F), the last hidden and cell (B, D) -> the next ones.

        A GRU has no cell and gives back the one it got.
        """
        gates = base if self.fed is None or fed is None else self.fed(fed, base)
        assert gates is not None
        if self.kind == "lstm":
            return lstm(self.hidden(hidden, gates), cell)
        return gru(gates, self.hidden(hidden), hidden), cell
