"""Linear maps with packed weights, activations and residuals, against the plain ones."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch.nn import functional as F

from nlptools.compute.kernels.linear import by_onednn
from nlptools.layers.linear import ACTIVATIONS, Linear


@pytest.mark.parametrize("name", [name for name in ACTIVATIONS if name != "none"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_an_activation_inside_the_product_is_the_one_after_it(dtype: torch.dtype, name: str) -> None:
    torch.manual_seed(10)
    layer = Linear(24, 40).to(dtype).requires_grad_(False)
    for rows in (3, 50):  # by the plain product, and by the packed one
        x = 4 * torch.randn(rows, 24, dtype=dtype)
        expected = ACTIVATIONS[name](F.linear(x.float(), layer.weight.float(), layer.bias.float()))
        assert torch.allclose(layer(x, name).float(), expected, atol=1e-5 if dtype == torch.float32 else 0.05)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_packed_weights_give_the_same_products(dtype: torch.dtype) -> None:
    torch.manual_seed(8)
    layer = Linear(24, 40).to(dtype).requires_grad_(False)
    for shape in ((3, 24), (8, 24), (2, 7, 24), (500, 24)):
        x = torch.randn(shape, dtype=dtype)
        expected = F.linear(x, layer.weight, layer.bias)
        assert torch.allclose(layer(x), expected, atol=1e-5 if dtype == torch.float32 else 0.05)
    has_kernel = dtype == torch.float32 or by_onednn(dtype)
    assert (layer._packed.packed is not None) == has_kernel
    learning = Linear(24, 40)
    learning(torch.randn(100, 24)).sum().backward()
    assert learning._packed.packed is None and learning.weight.grad is not None


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_residual_inside_the_product_is_at_least_as_exact_as_one_added_after_it(dtype: torch.dtype) -> None:
    torch.manual_seed(11)
    layer = Linear(24, 40).to(dtype)
    for shape in ((3, 24), (50, 24), (2, 30, 24)):
        x = torch.randn(shape, dtype=dtype)
        residual = torch.randn(*shape[:-1], 40, dtype=dtype)
        exact = (residual.double() + F.linear(x.double(), layer.weight.double(), layer.bias.double())).detach()
        after = (residual + F.linear(x, layer.weight, layer.bias)).detach()
        for frozen in (False, True):
            layer.requires_grad_(not frozen)
            error = float((layer.add_to(residual, x).detach().double() - exact).norm())
            assert error <= 1.05 * float((after.double() - exact).norm()) + 1e-6
    learning = Linear(24, 40)
    (learning.add_to(torch.zeros(9, 40), torch.ones(9, 24)).sum()).backward()
    assert learning.weight.grad is not None and torch.equal(learning.weight.grad, torch.full((40, 24), 9.0))


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_gate_inside_the_product_is_the_factor_after_it(dtype: torch.dtype, bias: bool) -> None:
    torch.manual_seed(12)
    layer = Linear(24, 40, bias=bias).to(dtype)
    for shape in ((3, 24), (50, 24), (2, 30, 24)):
        x, gate = torch.randn(shape, dtype=dtype), torch.randn(*shape[:-1], 40, dtype=dtype)
        expected = (gate * F.linear(x, layer.weight, layer.bias)).detach()
        for frozen in (False, True):
            layer.requires_grad_(not frozen)
            found = layer.times(gate, x).detach()
            assert torch.allclose(found, expected, atol=1e-5 if dtype == torch.float32 else 0.1)
    learning = Linear(24, 40)
    learning.times(torch.full((9, 40), 2.0), torch.ones(9, 24)).sum().backward()
    assert learning.weight.grad is not None and torch.equal(learning.weight.grad, torch.full((40, 24), 18.0))


def test_a_row_has_the_same_bits_in_every_product_of_packed_weights() -> None:
    """In float32: alone, and among few or many rows; with an activation, a residual or a gate inside the product."""
    torch.manual_seed(13)
    before = torch.get_num_threads()
    try:
        for outputs, inputs in ((1, 1), (3, 70), (16, 33), (40, 24), (65, 576), (96, 1300), (300, 2100)):
            layer = Linear(inputs, outputs).requires_grad_(False)
            x, other = torch.randn(33, inputs), torch.randn(33, outputs)
            ways = (layer, partial(layer, activation="gelu"), partial(layer.add_to, other), partial(layer.times, other))
            together = [way(x) for way in ways]
            for threads in (1, 2):
                torch.set_num_threads(threads)
                for rows in (1, 2, 3, 5, 8, 13):
                    for place, wanted in enumerate(together):
                        part = other[:rows]
                        way = (*ways[:2], partial(layer.add_to, part), partial(layer.times, part))[place]
                        assert torch.equal(way(x[:rows]), wanted[:rows]), (outputs, inputs, threads, rows, place)
    finally:
        torch.set_num_threads(before)
