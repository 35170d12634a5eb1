"""Dropout: its share, its expectation, its gradient."""

from __future__ import annotations

import pytest
import torch

from nlptools.compute.kernels.dropout import keep_mask
from nlptools.layers.dropout import Dropout


@pytest.mark.parametrize("p", [0.1, 0.2, 0.5])
def test_dropout_drops_that_share_and_keeps_the_expectation(p: float) -> None:
    torch.manual_seed(3)
    layer = Dropout(p).train()
    x = torch.ones(1000, 1001)
    out = layer(x)
    dropped = float((out == 0).float().mean())
    assert abs(dropped - p) < 5 * (p * (1 - p) / x.numel()) ** 0.5 + 2**-16
    assert torch.allclose(out[out != 0], torch.tensor(1 / (1 - p)), rtol=1e-4)
    assert abs(float(out.mean()) - 1) < 3e-3
    # independent between neighbours and between rows
    kept = (out != 0).double()
    for a, b in ((kept[:, 1:], kept[:, :-1]), (kept[1:], kept[:-1]), (kept[:, 4:], kept[:, :-4])):
        correlation = float(((a - a.mean()) * (b - b.mean())).mean() / (p * (1 - p)))
        assert abs(correlation) < 5e-3
    residual = torch.full_like(x, 3.0)
    torch.manual_seed(3)
    assert torch.allclose(layer.add(residual, x), residual + out)
    assert torch.equal(layer.eval()(x), x)


def test_dropout_scales_the_gradient_like_the_output() -> None:
    torch.manual_seed(4)
    x = torch.randn(50, 50, requires_grad=True)
    out = Dropout(0.3).train()(x)
    (grad,) = torch.autograd.grad(out.sum(), x)
    assert torch.allclose(grad, (out / x).detach(), atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
def test_dropout_in_each_type(dtype: torch.dtype) -> None:
    torch.manual_seed(4)
    x = torch.ones(50, 50, dtype=dtype, requires_grad=True)
    residual = torch.full_like(x, 2.0, requires_grad=True)
    layer = Dropout(0.25).train()
    for out, added in ((layer(x), 0.0), (layer.add(residual, x), 2.0)):
        assert out.dtype == dtype
        dropped = out == added
        assert 300 < int(dropped.sum()) < 950
        expected = torch.where(dropped, added, added + 4 / 3).to(dtype)
        assert torch.allclose(out, expected, rtol=1e-6)  # the very number in 16 bits
        gradient = torch.full_like(out, 3.0)
        of_x, of_residual = torch.autograd.grad(out, (x, residual), gradient, allow_unused=True)
        assert torch.allclose(of_x, torch.where(dropped, 0.0, 4.0).to(dtype), rtol=1e-6)
        assert of_residual is None if added == 0.0 else torch.equal(of_residual, gradient)


@pytest.mark.sampled(5)
@pytest.mark.parametrize(("p", "count", "masks"), [
    # so many that a place whose bytes are compared with the next multiple of 1/256 is noticed
    (0.003, 37, 10_000),
    (0.998, 5, 10_000),
    *(pytest.param(p, count, 20_000, marks=pytest.mark.slow) for p in (0.003, 0.1, 0.5, 0.998) for count in (1, 5, 37)),
])  # fmt: skip
def test_each_place_is_dropped_as_often_as_any_other(p: float, count: int, masks: int) -> None:
    torch.manual_seed(5)
    exact = round(256 * count * p) / (256 * count)  # the nearest there is for so few elements
    exact = min(exact, 255 / 256)
    rates = 1 - sum(keep_mask(torch.Size((count,)), p)[0].double() for _ in range(masks)) / masks
    assert float((rates - exact).abs().max()) < 5 * max(exact * (1 - exact), 1e-4) ** 0.5 / masks**0.5
    scale = keep_mask(torch.Size((count,)), p)[1]
    assert scale == pytest.approx(1 / (1 - exact))


def test_few_elements_none_and_masks_that_come_again() -> None:
    assert keep_mask(torch.Size((0, 3)), 0.1)[0].shape == (0, 3)
    torch.manual_seed(6)
    first = [keep_mask(torch.Size((3, 50)), 0.5)[0] for _ in range(2)]
    torch.manual_seed(6)
    again = [keep_mask(torch.Size((3, 50)), 0.5)[0] for _ in range(2)]
    assert torch.equal(first[0], again[0])
    assert torch.equal(first[1], again[1])
    assert not torch.equal(*first)
    assert keep_mask(torch.Size((100,)), 1e-9)[0].all()
