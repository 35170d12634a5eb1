"""The loops of recurrent layers against PyTorch's layers: outputs, states and gradients."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from nlptools.compute.kernels import recurrent
from nlptools.compute.kernels.linear import by_onednn
from nlptools.compute.kernels.recurrent import layer, native_layer
from nlptools.layers.recurrent import RecurrentLayer

KINDS = {"rnn": nn.RNN, "lstm": nn.LSTM, "gru": nn.GRU}
kinds = pytest.mark.parametrize("kind", KINDS)


def random(*shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, dtype=dtype).requires_grad_()


def by_pytorch(kind: str, module: nn.Module, x: Tensor, hidden: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
    out, last = module(x, (hidden[None], cell[None]) if kind == "lstm" else hidden[None])
    return out, last[1][0] if kind == "lstm" else cell


def ours(kind: str, module: Any, x: Tensor, hidden: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
    own = module.bias_hh_l0 if kind == "gru" else None
    gates = x @ module.weight_ih_l0.t() + module.bias_ih_l0 + (module.bias_hh_l0 if own is None else 0)
    return layer(kind, gates, module.weight_hh_l0, own, hidden, cell)


def gradients(out: Tensor, cell: Tensor, inputs: list[Tensor]) -> list[Tensor | None]:
    """Of a loss that weighs all outputs and the cell differently."""
    torch.manual_seed(8)
    factors = [torch.randn(each.shape, dtype=torch.float64).to(each.dtype) for each in (out, cell)]
    loss = (out * factors[0]).sum() + (cell * factors[1]).sum()
    return list(torch.autograd.grad(loss, inputs, allow_unused=True))


@kinds
@pytest.mark.parametrize(("T", "B", "E", "D"), [(1, 1, 1, 1), (1, 3, 2, 5), (9, 1, 4, 3), (6, 10, 3, 7), (12, 9, 8, 8)])
def test_outputs_states_and_gradients_are_those_of_pytorch(kind: str, T: int, B: int, E: int, D: int) -> None:
    torch.manual_seed(T + B)
    module = KINDS[kind](E, D).double()
    inputs = [random(T, B, E), random(B, D), random(B, D)]
    expected, found = by_pytorch(kind, module, *inputs), ours(kind, module, *inputs)
    for a, b in zip(expected, found, strict=True):
        assert torch.allclose(a, b, atol=1e-12)
    wanted = [*inputs[: 3 if kind == "lstm" else 2], *module.parameters()]
    for a, b in zip(gradients(*expected, wanted), gradients(*found, wanted), strict=True):
        assert torch.allclose(a, b, atol=1e-11)
    with torch.no_grad():
        for a, b in zip(expected, ours(kind, module, *inputs), strict=True):
            assert torch.allclose(a, b, atol=1e-12), "without gradients"


@kinds
def test_gradients_are_those_of_finite_differences(kind: str) -> None:
    torch.manual_seed(1)
    G = recurrent.GATES[kind] * 3
    bias = random(G) if kind == "gru" else None
    arguments = (random(4, 2, G), random(G, 3), bias, random(2, 3), random(2, 3))
    torch.autograd.gradcheck(lambda *tensors: layer(kind, *tensors), arguments)


@kinds
def test_a_loss_of_the_last_state_alone_reaches_all_weights(kind: str) -> None:
    """Truncated backpropagation may stop anywhere, and use no output but the last."""
    module = KINDS[kind](3, 4).double()
    inputs = [random(5, 2, 3), random(2, 4), random(2, 4)]
    weights = list(module.parameters())
    for pick in (0, 1) if kind == "lstm" else (0,):
        losses = [way(kind, module, *inputs)[pick][-1].square().sum() for way in (by_pytorch, ours)]
        for a, b in zip(*(torch.autograd.grad(loss, weights) for loss in losses), strict=True):
            assert torch.allclose(a, b, atol=1e-12)


@kinds
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_long_wide_layers_in_other_types_are_close(
    kind: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With as many steps and rows as it takes for packed matrices, where this processor has them."""
    torch.manual_seed(2)
    module = KINDS[kind](40, 24).double()
    x, hidden, cell = torch.randn(10, 16, 40), torch.randn(16, 24), torch.randn(16, 24)
    exact = [t.double().requires_grad_() for t in (x, hidden, cell)]
    expected = by_pytorch(kind, module, *exact)
    wanted = gradients(*expected, [exact[0], *module.parameters()])
    for packed in (False, True) if by_onednn(torch.bfloat16) else (False,):
        monkeypatch.setattr(recurrent, "by_onednn", lambda _, packed=packed: packed)
        close = KINDS[kind](40, 24).to(dtype)
        close.load_state_dict(module.state_dict())
        rounded = [x.to(dtype).requires_grad_(), hidden.to(dtype), cell]
        found = ours(kind, close, *rounded)
        assert found[0].dtype == dtype and found[1].dtype == torch.float32
        loose = 1e-4 if dtype == torch.float32 else 0.06
        assert torch.allclose(found[0].double(), expected[0], atol=loose)
        assert torch.allclose(found[1].double(), expected[1], atol=loose)
        for a, b in zip(gradients(*found, [rounded[0], *close.parameters()]), wanted, strict=True):
            assert a is not None and b is not None
            assert float((a.double() - b).norm() / b.norm()) < (1e-5 if dtype == torch.float32 else 0.03)


@kinds
def test_the_native_layer_is_the_same(kind: str) -> None:
    torch.manual_seed(3)
    module = KINDS[kind](5, 6)
    x, hidden, cell = torch.randn(4, 3, 5), torch.randn(3, 6), torch.randn(3, 6)
    out, last, last_cell = native_layer(kind, x, list(module.parameters()), hidden, cell, True)
    expected, expected_cell = ours(kind, module, x, hidden, cell)
    assert torch.allclose(out, expected, atol=1e-6) and torch.allclose(last, expected[-1], atol=1e-6)
    assert torch.allclose(last_cell, expected_cell, atol=1e-6) and last_cell.dtype == torch.float32


@kinds
def test_a_module_learns_the_same_by_either_kernel(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(4)
    module = RecurrentLayer(kind, 5, 6)
    inputs = [torch.randn(9, 3, 5), torch.randn(3, 6), torch.randn(3, 6)]
    found = []
    for native in (True, False):
        monkeypatch.setattr("nlptools.layers.recurrent.native_is_faster", lambda *_, native=native: native)
        given = [each.clone().requires_grad_() for each in inputs]
        out, last, cell = module(*given)
        learned = [*given, *module.parameters()]
        loss = (out * out.detach().sin()).sum() + last.square().sum() + cell.square().sum()
        found.append(torch.autograd.grad(loss, learned, allow_unused=True))
    for a, b in zip(*found, strict=True):
        assert a is not None and b is not None and torch.allclose(a, b, atol=1e-5)


@kinds
def test_the_loops_allocate_on_the_device_of_their_inputs(kind: str) -> None:
    """Rows that are padded go through them on every device; "meta" computes nothing and refuses a mixture of devices."""
    G = recurrent.GATES[kind] * 6
    tensors = [
        torch.empty(*shape, device="meta", requires_grad=True) for shape in ((9, 3, G), (G, 6), (G,), (3, 6), (3, 6))
    ]
    gates, weight, bias, hidden, cell = tensors
    out, last = layer(kind, gates, weight, bias if kind == "gru" else None, hidden, cell)
    assert out.shape == (9, 3, 6) and last.shape == (3, 6) and out.device.type == last.device.type == "meta"
    (out.sum() + last.sum()).backward()
    assert all(t.grad is not None for t in (gates, weight, hidden))
    with torch.no_grad():
        assert layer(kind, gates, weight, bias if kind == "gru" else None, hidden, cell)[0].device.type == "meta"


@kinds
def test_in_training_with_a_backend_it_runs_in_16_bits(kind: str) -> None:
    """The master weights get float32 gradients that point where those of float32 do."""
    torch.manual_seed(4)
    module = KINDS[kind](16, 16)
    x, zeros = torch.randn(9, 8, 16), torch.zeros(8, 16)
    working = copy.deepcopy(module).bfloat16()
    ours(kind, working, x.bfloat16(), zeros.bfloat16(), zeros)[0].float().square().sum().backward()
    ours(kind, module, x, zeros, zeros)[0].square().sum().backward()
    for a, b in zip(working.parameters(), module.parameters(), strict=True):
        assert a.grad is not None and b.grad is not None
        assert float(torch.cosine_similarity(a.grad.float().flatten(), b.grad.flatten(), 0)) > 0.999


@pytest.mark.parametrize(
    ("kind", "steps", "rows", "dtype", "native"),
    [
        ("lstm", 40, 1, torch.float32, True),
        ("lstm", 8, 1, torch.float32, False),
        ("lstm", 40, 2, torch.float32, False),
        ("lstm", 40, 1, torch.bfloat16, True),
        ("lstm", 40, 1, torch.float64, False),
        ("gru", 40, 1, torch.float32, False),
    ],
)
def test_a_stream_is_read_by_the_lstm_of_pytorch(
    kind: str, steps: int, rows: int, dtype: torch.dtype, native: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nlptools.compute.kernels.recurrent.by_onednn", lambda dtype: dtype == torch.bfloat16)
    x = torch.zeros(steps, rows, 4, dtype=dtype)
    assert recurrent.native_is_faster(kind, x, torch.zeros(16, 4, dtype=dtype)) == native


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_stream_has_the_states_that_its_steps_have(dtype: torch.dtype) -> None:
    """Whichever kernel reads it, as by steps in float64; also from a state, and cells come in float32."""
    torch.manual_seed(8)
    module = RecurrentLayer("lstm", 5, 6).requires_grad_(False)
    x, hidden, cell = torch.randn(40, 1, 5), torch.randn(1, 6), torch.randn(1, 6)
    out, last, last_cell = module.to(dtype)(x.to(dtype), hidden, cell)
    exact, exact_cell = ours("lstm", module.double(), x.double(), hidden.double(), cell.double())
    bound = 1e-5 if dtype == torch.float32 else 0.03
    assert last_cell.dtype == torch.float32 and torch.equal(out[-1], last)
    assert float((out.double() - exact).abs().max()) < bound
    assert float((last_cell.double() - exact_cell).abs().max()) < 2 * bound
