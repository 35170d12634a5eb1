"""Cells and attention of recurrent decoders against PyTorch's own and plain formulas."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from nlptools.layers.recurrent import Cell, CellSteps, gru, lstm
from nlptools.layers.source_attention import AttentionSteps, SourceAttention


def tensor(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, dtype=torch.float64, generator=generator).requires_grad_()


def test_an_lstm_is_that_of_pytorch() -> None:
    theirs = nn.LSTMCell(5, 8).double()
    x, hidden, cell = tensor(3, 5), tensor(3, 8, seed=1), tensor(3, 8, seed=2)
    gates = x @ theirs.weight_ih.t() + hidden @ theirs.weight_hh.t() + theirs.bias_ih + theirs.bias_hh
    for found, expected in zip(lstm(gates, cell), theirs(x, (hidden, cell)), strict=True):
        assert torch.allclose(found, expected)


def test_a_gru_is_that_of_pytorch() -> None:
    theirs = nn.GRUCell(5, 8).double()
    x, hidden = tensor(3, 5), tensor(3, 8, seed=1)
    of_hidden = hidden @ theirs.weight_hh.t() + theirs.bias_hh
    assert torch.allclose(gru(x @ theirs.weight_ih.t() + theirs.bias_ih, of_hidden, hidden), theirs(x, hidden))


@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_a_cell_in_a_loop_is_a_layer_of_pytorch(kind: str) -> None:
    theirs = (nn.LSTM if kind == "lstm" else nn.GRU)(5, 8)
    cell = Cell(kind, 5, 8, bias=True)
    assert cell.fed is not None
    with torch.no_grad():
        theirs.bias_hh_l0.zero_()
        for ours, weight in ((cell.fed.weight, "weight_ih_l0"), (cell.hidden.weight, "weight_hh_l0")):
            ours.copy_(getattr(theirs, weight))
        cell.fed.bias.copy_(theirs.bias_ih_l0)
    x = torch.randn(6, 3, 5)
    expected, _ = theirs(x)
    steps, hidden, memory = CellSteps(cell), torch.zeros(3, 8), torch.zeros(3, 8)
    out = []
    for t in range(6):
        hidden, memory = steps(None, x[t], hidden, memory)
        out.append(hidden)
    assert torch.allclose(torch.stack(out), expected, atol=1e-6)
    weights = (theirs.weight_ih_l0, theirs.weight_hh_l0, theirs.bias_ih_l0)
    ours = (cell.fed.weight, cell.hidden.weight, cell.fed.bias)
    for a, b in zip(
        torch.autograd.grad(torch.stack(out).square().sum(), ours),
        torch.autograd.grad(expected.square().sum(), weights),
        strict=True,
    ):
        assert torch.allclose(a, b, atol=1e-4)


def test_a_step_of_additive_attention_is_the_formula_of_the_paper() -> None:
    torch.manual_seed(0)
    module = SourceAttention("bahdanau", 5, 6).double()
    assert module.query is not None and module.energy is not None
    nn.init.normal_(module.energy)
    source, hidden = torch.randn(2, 4, 6, dtype=torch.float64), torch.randn(2, 5, dtype=torch.float64)
    contexts, weights = AttentionSteps(module, source, module.keys(source), None)(hidden)
    W, U, v = (p.detach().numpy() for p in (module.query.weight, module.keys.weight, module.energy))
    for row in range(2):
        s, h = hidden[row].numpy(), source[row].numpy()
        energies = np.array([sum(v[a] * np.tanh(W[a] @ s + U[a] @ h[j]) for a in range(5)) for j in range(4)])
        alpha = np.exp(energies) / np.exp(energies).sum()
        assert np.allclose(weights[row].detach(), alpha)
        assert np.allclose(contexts[row].detach(), sum(alpha[j] * h[j] for j in range(4)))


def test_general_attention_by_hand() -> None:
    module = SourceAttention("luong", 2, 2)
    with torch.no_grad():
        module.keys.weight.copy_(torch.eye(2))
    source = torch.tensor([[[1.0, 0.0], [0.0, 1.0], [5.0, 5.0]]])
    mask = torch.tensor([[True, True, False]])
    hidden = torch.tensor([[float(np.log(3)), 0.0]])  # scores log 3 and 0: weights 3/4 and 1/4
    contexts, weights = AttentionSteps(module, source, module.keys(source), mask)(hidden)
    assert torch.allclose(weights, torch.tensor([[0.75, 0.25, 0.0]]))
    assert torch.allclose(contexts, torch.tensor([[0.75, 0.25]]))


@pytest.mark.parametrize("kind", ["bahdanau", "luong"])
def test_rows_of_one_source_attend_to_it_together(kind: str) -> None:
    torch.manual_seed(1)
    module = SourceAttention(kind, 5, 6)
    if module.energy is not None:
        nn.init.normal_(module.energy)
    source, hidden = torch.randn(2, 4, 6), torch.randn(6, 5)
    mask = torch.tensor([[True] * 4, [True, True, False, False]])
    contexts, weights = AttentionSteps(module, source, module.keys(source), mask)(hidden)
    repeated = source.repeat_interleave(3, 0)
    attend = AttentionSteps(module, repeated, module.keys(repeated), mask.repeat_interleave(3, 0))
    for found, expected in zip((contexts, weights), attend(hidden), strict=True):
        assert torch.allclose(found, expected, atol=1e-6)
