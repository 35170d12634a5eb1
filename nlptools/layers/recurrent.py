"""Layers of recurrent networks, and cells of recurrent decoders.

LSTM: Hochreiter & Schmidhuber 1997, with the forget gate of Gers et al. 2000. GRU: Cho et al. 2014 (arXiv:1406.1078).
Departure: the reset gate acts on the product of the hidden state instead of the state itself, so that one product serves
all three parts of a GRU (as in cuDNN). A plain network: Elman 1990, with tanh.
Dimensions: G = 4 D (LSTM) or 3 D (GRU) gates, F size of the input at each step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from nlptools.compute.kernels.dropout import dropout
from nlptools.compute.kernels.linear import PackedWeight
from nlptools.compute.kernels.projected_lstm import Limits, projected_layers
from nlptools.compute.kernels.recurrent import GATES, layer, native_is_faster, native_layer
from nlptools.layers.linear import Linear, Packable


class RecurrentLayer(Packable, nn.Module):
    """One layer over all steps, with the parameters of PyTorch's `nn.RNN`, `nn.LSTM` or `nn.GRU` under their names.

    On a CPU it is `compute.kernels.recurrent`, in any type, except where PyTorch's own kernel is faster; elsewhere, and
    compiled, PyTorch's.
    """

    __call__: Callable[..., tuple[Tensor, Tensor, Tensor]]

    def __init__(self, kind: str, fed_size: int, hidden_size: int, weight_dropout: float = 0.0) -> None:
        """
        Args:
            kind: rnn, lstm or gru.
            weight_dropout: in training, probability with which each weight between hidden states is zero, the same weights
                at all steps (DropConnect, Wan et al. 2013; as Merity et al. 2018, arXiv:1708.02182, use it).
        """
        super().__init__()
        self.kind, self.hidden_size, self.weight_dropout = kind, hidden_size, weight_dropout
        gates = GATES[kind] * hidden_size
        self.weight_ih_l0 = nn.Parameter(torch.empty(gates, fed_size))
        self.weight_hh_l0 = nn.Parameter(torch.empty(gates, hidden_size))
        self.bias_ih_l0 = nn.Parameter(torch.empty(gates))
        self.bias_hh_l0 = nn.Parameter(torch.empty(gates))
        self._packed_hidden = PackedWeight()
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Uniform weights within 1/sqrt(D), as PyTorch draws them."""
        for parameter in self.parameters():
            parameter.uniform_(-(self.hidden_size**-0.5), self.hidden_size**-0.5)

    def forward(self, x_TBE: Tensor, hidden_BD: Tensor, cell_BD: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Inputs and the state before them -> hidden states (T, B, D), the last hidden state and the last cell (B, D).

        Cells are float32; an RNN or a GRU returns the one it was given.
        """
        dropped = self.training and self.weight_dropout > 0
        weight = dropout(self.weight_hh_l0, self.weight_dropout) if dropped else self.weight_hh_l0
        if native_is_faster(self.kind, x_TBE, weight):
            weights = [self.weight_ih_l0, weight, self.bias_ih_l0, self.bias_hh_l0]
            return native_layer(self.kind, x_TBE, weights, hidden_BD, cell_BD, self.training)
        gates, own_bias = self._gates(x_TBE)
        hidden_BD = hidden_BD.to(x_TBE.dtype)
        out, cell = layer(self.kind, gates, weight, own_bias, hidden_BD, cell_BD, self._packed_hidden)
        return out, out[-1] if len(out) else hidden_BD, cell

    def padded(
        self, x_TBE: Tensor, hidden_BD: Tensor, cell_BD: Tensor, mask_TB: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The same, step by step; the state does not change at steps that are not in `mask_TB`."""
        gates, own_bias = self._gates(x_TBE)
        hidden_BD, out = hidden_BD.to(x_TBE.dtype), []
        for t in range(len(gates)):
            state = layer(
                self.kind, gates[t : t + 1], self.weight_hh_l0, own_bias, hidden_BD, cell_BD, self._packed_hidden
            )
            real = mask_TB[t, :, None]
            hidden_BD = torch.where(real, state[0][0], hidden_BD)
            cell_BD = torch.where(real, state[1], cell_BD)
            out.append(hidden_BD)
        return torch.stack(out), hidden_BD, cell_BD

    def _gates(self, x_TBE: Tensor) -> tuple[Tensor, Tensor | None]:
        """The products of the inputs with the biases (T, B, G); and the bias of the hidden states, of a GRU."""
        if self.kind == "gru":
            return self.multiply(x_TBE, self.weight_ih_l0, self.bias_ih_l0), self.bias_hh_l0
        return self.multiply(x_TBE, self.weight_ih_l0, self.bias_ih_l0 + self.bias_hh_l0), None


class ProjectedLSTM(Packable, nn.Module):
    """One LSTM layer with a projection as hidden state (Sak et al. 2014, arXiv:1402.1128), with the parameters of PyTorch's
    `nn.LSTM(proj_size=P)` under their names, but one bias. Cells and hidden states stay within `limits` (ELMo's clipping).
    """

    __call__: Callable[..., tuple[Tensor, Tensor, Tensor]]

    def __init__(self, fed_size: int, cell_size: int, projection_size: int, limits: Limits) -> None:
        super().__init__()
        self.cell_size, self.limits = cell_size, limits
        self.weight_ih_l0 = nn.Parameter(torch.empty(4 * cell_size, fed_size))
        self.weight_hh_l0 = nn.Parameter(torch.empty(4 * cell_size, projection_size))
        self.weight_hr_l0 = nn.Parameter(torch.empty(projection_size, cell_size))
        self.bias_l0 = nn.Parameter(torch.empty(4 * cell_size))

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Matrices uniform with variance 2 / (inputs + outputs) (Glorot & Bengio 2010); forget gates open (bias 1)."""
        for matrix in (self.weight_ih_l0, self.weight_hh_l0, self.weight_hr_l0):
            nn.init.xavier_uniform_(matrix)
        self.bias_l0.zero_()
        self.bias_l0[self.cell_size : 2 * self.cell_size] = 1.0

    def forward(self, x_TBE: Tensor, hidden_BP: Tensor, cell_BD: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Inputs and the state before them -> hidden states (T, B, P), the last one, and the last cell (B, D), float32."""
        (out,), (last,), cell = side_by_side([self], [x_TBE], [hidden_BP], cell_BD)
        return out, last, cell

    def padded(
        self, x_TBE: Tensor, hidden_BP: Tensor, cell_BD: Tensor, mask_TB: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The same, step by step; the state does not change at steps that are not in `mask_TB`."""
        out = []
        for t in range(len(x_TBE)):
            _, hidden, cell = self(x_TBE[t : t + 1], hidden_BP, cell_BD)
            real = mask_TB[t, :, None]
            hidden_BP, cell_BD = torch.where(real, hidden, hidden_BP), torch.where(real, cell, cell_BD)
            out.append(hidden_BP)
        return torch.stack(out), hidden_BP, cell_BD


def side_by_side(
    lstms: Sequence[ProjectedLSTM], inputs: Sequence[Tensor], hidden: Sequence[Tensor], cell_BD: Tensor
) -> tuple[list[Tensor], list[Tensor], Tensor]:
    """K LSTMs of one size on separate inputs (T, B / K, E) -> hidden states (T, B / K, P) of each, its last one, and the
    last cells (B, D) of all, one after another, float32.
    """
    gates = [each.multiply(x, each.weight_ih_l0, each.bias_l0) for each, x in zip(lstms, inputs, strict=True)]
    before = [h.to(x.dtype) for h, x in zip(hidden, inputs, strict=True)]
    weights, projections = [each.weight_hh_l0 for each in lstms], [each.weight_hr_l0 for each in lstms]
    outputs, cell = projected_layers(gates, weights, projections, before, cell_BD, lstms[0].limits)
    return outputs, [out[-1] if len(out) else h for out, h in zip(outputs, before, strict=True)], cell


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
        self.kind, self.fed, self.hidden = cell.kind, cell.fed, cell.hidden

    def __call__(self, base: Tensor | None, fed: Tensor | None, hidden: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
        """One step -> the next hidden state and cell (B, D).

        Args:
            base: (B, G) added to the gates, if any.
            fed: (B, F) input, if any.
            hidden, cell: (B, D) of the last step; a GRU has no cell and returns the one it was given.
        """
        gates = base
        if self.fed is not None and fed is not None:
            gates = self.fed(fed) if base is None else base + self.fed(fed)
        assert gates is not None
        if self.kind == "lstm":
            return lstm(gates + self.hidden(hidden), cell)
        return gru(gates, self.hidden(hidden), hidden), cell
