"""A linear map with an adapter is W x + alpha / R B A x, part by part, and only A and B learn."""

from __future__ import annotations

import copy

import pytest
import torch
from torch.nn import functional as F

from nlptools.layers.linear import Linear
from nlptools.layers.lora import LowRankLinear, frozen, switched_off

ROWS = [[10], [4, 3, 3]]


def adapted(rows: list[int], dropout: float = 0.0, bias: bool = True) -> tuple[Linear, LowRankLinear]:
    """A map of 6 numbers to 10, and one with its weights and a random adapter of rank 2."""
    torch.manual_seed(0)
    base = Linear(6, 10, bias=bias)
    made = LowRankLinear(base, rows, rank=2, alpha=3.0, dropout=dropout)
    made.initialize(torch.Generator().manual_seed(1))
    torch.nn.init.normal_(made.lora_B)
    return base, made


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("bias", [True, False])
def test_equation(rows: list[int], bias: bool) -> None:
    base, made = adapted(rows, bias=bias)
    x, residual = torch.randn(3, 5, 6), torch.randn(3, 5, 10)
    parts = zip(made.lora_A.chunk(len(rows)), made.lora_B.split(rows), strict=True)
    expected = base(x) + 3.0 / 2 * torch.cat([x @ a.t() @ b.t() for a, b in parts], -1)
    torch.testing.assert_close(made(x), expected)
    torch.testing.assert_close(made(x, "relu"), F.relu(expected))
    torch.testing.assert_close(made.add_to(residual, x), residual + expected)
    torch.testing.assert_close(made.times(residual, x), residual * expected)
    torch.testing.assert_close(made.part(x, slice(3, 8)), expected[..., 3:8])
    with torch.inference_mode():  # by packed weights
        torch.testing.assert_close(made(torch.cat([x] * 4)), torch.cat([expected] * 4))


def test_begins_as_the_map() -> None:
    base = Linear(6, 10)
    made = LowRankLinear(base, [10], 4, 16.0)
    made.initialize(torch.Generator().manual_seed(0))
    x = torch.randn(7, 6)
    assert torch.equal(made(x), base(x)) and made.weight is base.weight
    assert 0.3 < float(made.lora_A.detach().abs().max()) <= 6**-0.5


def test_adapters_alone_learn() -> None:
    _, made = adapted([4, 3, 3])
    made.requires_grad_(False)
    made.lora_A.requires_grad_(True)
    made.lora_B.requires_grad_(True)
    x = torch.randn(5, 6, requires_grad=True)
    made(x).square().sum().backward()
    assert made.weight.grad is None and made.lora_A.grad is not None and made.lora_B.grad is not None
    assert x.grad is not None
    with switched_off(torch.nn.Sequential(made)):
        assert torch.equal(made(x), F.linear(x, made.weight, made.bias)) and torch.allclose(
            made.part(x, slice(2)), made(x)[:, :2]
        )
    assert made.active
    assert frozen(torch.nn.ModuleDict({"map": made})) == {"map.weight", "map.bias"}
    assert frozen(Linear(2, 2).requires_grad_(False)) == frozenset()


def test_dropout_is_of_the_adapter_in_training() -> None:
    base, made = adapted([10], dropout=0.5)
    x = torch.ones(200, 6)
    made.train()
    torch.manual_seed(0)
    dropped = made(x)
    assert len(dropped.unique(dim=0)) > 5
    torch.testing.assert_close(copy.deepcopy(made).eval()(x), base(x) + 1.5 * x @ made.lora_A.t() @ made.lora_B.t())
