"""Cells of recurrent decoders.

LSTM: Hochreiter & Schmidhuber 1997, with the forget gate of Gers et al. 2000. GRU: Cho et al. 2014 (arXiv:1406.1078).
Departure: the reset gate acts on the product of the hidden state instead of the state itself, so that one product serves
all three parts of a GRU (as in cuDNN).
Dimensions: G = 4 D (LSTM) or 3 D (GRU) gates, F size of the input at each step.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from nlptools.compute.kernels.shared_matrix import SharedMatrix
from nlptools.layers.linear import Linear


class Step:
    """A `Linear` in a loop: a `SharedMatrix` in training; in inference it uses its packed copy."""

    def __init__(self, linear: Linear) -> None:
        self.linear = linear
        training = torch.is_grad_enabled() and linear.weight.requires_grad
        self.shared = SharedMatrix(linear.weight.t()) if training else None

    def __call__(self, x: Tensor, base: Tensor | None = None) -> Tensor:
        """(B, F) -> (B, G), plus `base`, which is for linear maps without a bias."""
        if self.shared is not None:
            return self.shared(x, self.linear.bias if base is None else base)
        out = self.linear(x)
        return out if base is None else out + base


def lstm(gates: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
    """Gates (B, 4 D) before activation, in the order input, forget, candidate, output; cell (B, D) -> hidden, cell."""
    i, f, g, o = gates.chunk(4, 1)
    cell = f.sigmoid() * cell + i.sigmoid() * g.tanh()
    return o.sigmoid() * cell.tanh(), cell


def gru(input_gates: Tensor, hidden_gates: Tensor, hidden: Tensor) -> Tensor:
    """Products (B, 3 D) of the input and of the hidden state, in the order reset, update, candidate; hidden (B, D) -> hidden."""
    (reset_x, update_x, x), (reset_h, update_h, h) = input_gates.chunk(3, 1), hidden_gates.chunk(3, 1)
    candidate = (x + (reset_x + reset_h).sigmoid() * h).tanh()
    return torch.lerp(candidate, hidden, (update_x + update_h).sigmoid())


class Cell(nn.Module):
    """The parameters of one layer of a decoder: maps of its input at each step (`fed`) and of its hidden state to the gates.

    Without `bias`, the caller includes it in `base`, for example in the products of the embeddings, which are computed for
    all steps at once.
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
        """One step -> the next hidden state and cell (B, D).

        Args:
            base: (B, G) added to the gates, if any.
            fed: (B, F) input, if any.
            hidden, cell: (B, D) of the last step; a GRU has no cell and returns the one it was given.
        """
        gates = base if self.fed is None or fed is None else self.fed(fed, base)
        assert gates is not None
        if self.kind == "lstm":
            return lstm(self.hidden(hidden, gates), cell)
        return gru(gates, self.hidden(hidden), hidden), cell
