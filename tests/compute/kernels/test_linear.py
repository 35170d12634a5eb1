"""Products by oneDNN: the bias inside them, and its gradient."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn import functional as F

from nlptools.compute.kernels import linear
from nlptools.compute.kernels.linear import by_onednn
from nlptools.layers.linear import Linear


@pytest.mark.parametrize("learns", [("input", "weight", "bias"), ("weight", "bias"), ("input", "weight")])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_a_large_product_in_training_takes_its_bias_along(
    learns: tuple[str, ...], dtype: torch.dtype, float32_products: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    if dtype == torch.float32:
        float32_products.fp32_precision = "bf16"
    if not by_onednn(dtype):
        pytest.skip("the processor has no bf16")
    torch.manual_seed(12)
    x, upstream = torch.randn(6, 5, 24).transpose(0, 1), torch.randn(5, 6, 40)  # x is not contiguous
    layer = Linear(24, 40).to(dtype)

    def product_and_gradients(linear_map: Any, of: torch.dtype) -> list[torch.Tensor]:
        given = [x.detach().to(of, copy=True), layer.weight.detach().to(of), layer.bias.detach().to(of)]
        for name, tensor in zip(("input", "weight", "bias"), given, strict=True):
            tensor.requires_grad_(name in learns)
        out = linear_map(*given)
        assert ("_Linear" in type(out.grad_fn).__name__) == (linear_map is linear.linear)
        return [out.detach(), *torch.autograd.grad(out, [t for t in given if t.requires_grad], upstream.to(of))]

    monkeypatch.setattr(linear, "LARGE", 0)
    exact = product_and_gradients(F.linear, torch.float64)
    plain, ours = (product_and_gradients(way, dtype) for way in (F.linear, linear.linear))
    for a, b, c in zip(exact, plain, ours, strict=True):
        assert a.shape == c.shape
        assert float((c - a).norm()) <= 1.05 * float((b - a).norm()) + 1e-6 * float(a.norm())


@pytest.mark.parametrize("rows", [31, 32, 70])
def test_rows_that_do_not_begin_at_lines_of_the_cache_are_moved(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """If there are many; the product and its gradients are those of the rows as they are."""
    monkeypatch.setattr(linear, "by_onednn", lambda dtype: True)
    monkeypatch.setattr(linear, "WORTH_MOVING", 0)
    torch.manual_seed(6)
    x, layer = torch.randn(2, rows, 45).bfloat16()[:1].requires_grad_(), Linear(45, 24).bfloat16()
    moved = linear.in_lines(x.detach()[0])
    assert torch.equal(moved, x[0]) and moved.stride() == ((64, 1) if rows >= 32 else (45, 1))
    out, plain = layer(x), F.linear(x.double(), layer.weight.double(), layer.bias.double())
    assert ("_Linear" in type(out.grad_fn).__name__) == (rows >= 32)
    upstream = torch.randn(1, rows, 24).bfloat16()
    ours = torch.autograd.grad(out, (x, *layer.parameters()), upstream)
    theirs = torch.autograd.grad(plain, (x, *layer.parameters()), upstream.double())
    for a, b in zip((out.detach(), *ours), (plain.detach(), *theirs), strict=True):
        assert float((a.double() - b.double()).norm()) <= 0.01 * float(b.double().norm())


@pytest.mark.parametrize("shape", [(1, 24), (24,), (1, 1, 24)])
@pytest.mark.parametrize("with_bias", [True, False])
@pytest.mark.parametrize("amd", [True, False])
def test_one_row_in_16_bits_is_multiplied_without_onednn_on_amd(
    monkeypatch: pytest.MonkeyPatch, shape: tuple[int, ...], with_bias: bool, amd: bool
) -> None:
    """Elsewhere with the packed weight, if oneDNN multiplies in 16 bits there."""
    if not amd and not linear.by_onednn(torch.bfloat16):
        pytest.skip("oneDNN has no products in 16 bits for this processor")
    of_processor(monkeypatch, amd)
    torch.manual_seed(3)
    layer = Linear(24, 40, bias=with_bias).bfloat16().requires_grad_(False)
    x = torch.randn(shape).bfloat16()
    exact = F.linear(x.double(), layer.weight.double(), layer.bias.double() if with_bias else None)
    with torch.profiler.profile() as profile:
        out = layer(x)
    names = {event.name for event in profile.events() or ()}
    assert out.shape == exact.shape and torch.allclose(out.double(), exact, rtol=0.01, atol=0.01)
    assert any(name.startswith("mkldnn") for name in names) != amd and ("aten::linear" in names) == amd
    assert (layer._packed.packed is None) == amd and torch.backends.mkldnn.enabled


def of_processor(monkeypatch: pytest.MonkeyPatch, amd: bool) -> None:
    monkeypatch.setattr(linear, "is_amd", lambda: amd)
    monkeypatch.setattr(linear, "_fewest_rows", linear._fewest_rows.__wrapped__)


def test_the_setting_of_onednn_is_restored_after_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    of_processor(monkeypatch, amd=True)
    layer = Linear(24, 40).bfloat16().requires_grad_(False)
    with pytest.raises(RuntimeError):
        layer(torch.randn(1, 23).bfloat16())
    assert torch.backends.mkldnn.enabled


@pytest.mark.parametrize("sizes", [(24, 40), (40, 7), (2048, 64)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_row_is_multiplied_alike_in_every_batch(dtype: torch.dtype, sizes: tuple[int, int]) -> None:
    """In inference, to the last bit, with an activation and a residual too; in 16 bits from two rows on."""
    if dtype == torch.bfloat16 and not by_onednn(dtype):
        pytest.skip("oneDNN has no products in 16 bits for this processor")
    torch.manual_seed(4)
    layer, x = Linear(*sizes).to(dtype).requires_grad_(False), torch.randn(70, sizes[0]).to(dtype)
    residual = torch.randn(70, sizes[1]).to(dtype)
    whole = layer(x), layer(x, "gelu"), layer.add_to(residual, x), layer.times(residual, x)
    assert torch.allclose(
        whole[0].double(), F.linear(x.double(), layer.weight.double(), layer.bias.double()), atol=0.02
    )
    for begin, end in ((0, 1), (3, 5), (17, 50), (69, 70), (2, 66)):
        if end - begin == 1 and dtype == torch.bfloat16:
            continue
        rows = x[begin:end]
        parts = layer(rows), layer(rows, "gelu"), *(f(residual[begin:end], rows) for f in (layer.add_to, layer.times))
        for one, other in zip(parts, whole, strict=True):
            assert torch.equal(one, other[begin:end])
    assert torch.equal(layer(x[5]), whole[0][5]) or dtype == torch.bfloat16
