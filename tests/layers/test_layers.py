"""Hand-written forward and backward passes against plain PyTorch."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn import functional as F

from nlptools.layers import attention, cross_entropy, dropout, gelu, linear
from nlptools.layers.cache import KeyValues
from nlptools.layers.cross_entropy import log_probabilities, summed_cross_entropy
from nlptools.layers.linear import ACTIVATIONS, Linear, by_onednn


@pytest.mark.parametrize("rows", [0, 1, 7, 200])
def test_summed_cross_entropy_equals_projection_and_loss(rows: int) -> None:
    torch.manual_seed(0)
    hidden = torch.randn(rows, 16, requires_grad=True)
    weight = torch.randn(64, 16, requires_grad=True)
    targets = torch.randint(-1, 50, (rows,))
    logits = hidden @ weight[:50].t()
    expected = F.cross_entropy(logits, targets, ignore_index=-1, reduction="sum")
    found = summed_cross_entropy(hidden, weight, targets, 50)
    assert torch.allclose(found, expected, rtol=1e-5)
    grads = torch.autograd.grad(expected * 0.5, (hidden, weight))
    ours = torch.autograd.grad(found * 0.5, (hidden, weight))
    for a, b in zip(grads, ours, strict=True):
        assert torch.allclose(a, b, atol=1e-5)
    assert not ours[1][50:].any(), "rows of padding must not move"


def test_many_chunks_give_what_one_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(1)
    hidden, weight = torch.randn(300, 8, requires_grad=True), torch.randn(40, 8, requires_grad=True)
    targets = torch.randint(0, 40, (300,))
    whole = torch.autograd.grad(summed_cross_entropy(hidden, weight, targets, 40), (hidden, weight))
    monkeypatch.setattr(cross_entropy, "_CHUNK_BYTES", 1)
    assert cross_entropy.chunk_rows(weight) == 64
    parts = torch.autograd.grad(summed_cross_entropy(hidden, weight, targets, 40), (hidden, weight))
    for a, b in zip(whole, parts, strict=True):
        assert torch.allclose(a, b, atol=1e-5)
    scores = log_probabilities(hidden, weight, targets, 40)
    assert torch.allclose(scores, F.log_softmax(hidden @ weight.t(), 1)[range(300), targets], atol=1e-5)


def test_cross_entropy_in_bf16_adds_up_in_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cross_entropy, "_BLOCK_ELEMENTS", 700)  # several blocks of rows, the last one smaller
    torch.manual_seed(2)
    hidden, weight = torch.randn(64, 32), torch.randn(100, 32)
    exact = summed_cross_entropy(hidden, weight, torch.arange(64), 100)
    rounded = summed_cross_entropy(hidden.bfloat16(), weight.bfloat16(), torch.arange(64), 100)
    assert rounded.dtype == torch.float32
    assert torch.allclose(exact, rounded, rtol=0.02)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("p", [0.0, 0.3])
def test_attention_that_keeps_its_weights_equals_its_definition(
    causal: bool, p: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attention, "_CHUNK_SCORES", 3 * 13 * 13)  # several chunks, the last one smaller
    torch.manual_seed(5)
    packed = torch.randn(2, 13, 3, 4, 8, dtype=torch.float64, requires_grad=True)
    torch.manual_seed(6)
    found = attention._SelfAttention.apply(packed, None, p, causal)
    torch.manual_seed(6)
    kept, scale = dropout.keep_mask(torch.Size((8, 13, 13)), p) if p else (torch.ones(8, 13, 13), 1.0)
    q, k, v = packed.permute(2, 0, 3, 1, 4).unbind(0)
    scores = q @ k.transpose(2, 3) / 8**0.5
    if causal:
        scores = scores.masked_fill(torch.ones(13, 13).triu(1).bool(), -torch.inf)
    expected = ((scores.softmax(-1) * kept.view(2, 4, 13, 13) * scale) @ v).transpose(1, 2).reshape(2, 13, 32)
    assert torch.allclose(found, expected)
    upstream = torch.randn_like(found)
    (ours,) = torch.autograd.grad(found, packed, upstream)
    (exact,) = torch.autograd.grad(expected, packed, upstream)
    assert torch.allclose(ours, exact)


@pytest.mark.parametrize("p", [0.0, 0.3])
def test_attention_to_a_padded_source_equals_its_definition(p: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention, "_CHUNK_SCORES", 3 * 5 * 13)  # several chunks, the last one smaller
    torch.manual_seed(5)
    query = torch.randn(2, 5, 4, 8, dtype=torch.float64, requires_grad=True)
    key_value = torch.randn(2, 13, 2, 4, 8, dtype=torch.float64, requires_grad=True)
    real = torch.arange(13) < torch.tensor([[13], [6]])
    torch.manual_seed(6)
    found = attention._CrossAttention.apply(query, key_value, real, p)
    torch.manual_seed(6)
    kept, scale = dropout.keep_mask(torch.Size((8, 5, 13)), p) if p else (torch.ones(8, 5, 13), 1.0)
    k, v = key_value.permute(2, 0, 3, 1, 4).unbind(0)
    scores = (query.transpose(1, 2) @ k.transpose(2, 3) / 8**0.5).masked_fill(~real[:, None, None], -torch.inf)
    expected = ((scores.softmax(-1) * kept.view(2, 4, 5, 13) * scale) @ v).transpose(1, 2).reshape(2, 5, 32)
    assert torch.allclose(found, expected)
    upstream = torch.randn_like(found)
    ours = torch.autograd.grad(found, (query, key_value), upstream)
    exact = torch.autograd.grad(expected, (query, key_value), upstream)
    assert all(torch.allclose(a, b) for a, b in zip(ours, exact, strict=True))
    assert not ours[1][1, 6:].any()


@pytest.mark.parametrize(("T", "S"), [(1, 1), (5, 7)])
def test_a_sequence_alone_is_attended_to_and_left_as_it_is(T: int, S: int) -> None:
    """Of one sequence a change of layout is a view, and the queries are scaled in place."""
    torch.manual_seed(5)
    packed, query, key_value = (
        torch.randn(1, *sizes, 2, 8, dtype=torch.float64, requires_grad=True) for sizes in ((T, 3), (T,), (S, 2))
    )
    before = [tensor.detach().clone() for tensor in (packed, query, key_value)]
    ours = (
        attention._SelfAttention.apply(packed, None, 0.0, False),
        attention._CrossAttention.apply(query, key_value, None, 0.0),
    )
    sides = (packed.unbind(2), (query, *key_value.unbind(2)))
    plain = (torch.nn.functional.scaled_dot_product_attention(*(t.transpose(1, 2) for t in side)) for side in sides)
    theirs = [out.transpose(1, 2).reshape(1, T, 16) for out in plain]
    for mine, other in zip(ours, theirs, strict=True):
        assert torch.allclose(mine, other)
    gradients = [
        torch.autograd.grad(sum(out.square().sum() for out in outs), (packed, query, key_value))
        for outs in (ours, theirs)
    ]
    assert all(torch.allclose(a, b) for a, b in zip(*gradients, strict=True))
    assert all(torch.equal(a, b) for a, b in zip(before, (packed, query, key_value), strict=True))


def test_nobody_attends_to_padding_in_training_either(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(5)
    layer = attention.SelfAttention(32, 4, 0.0, causal=False)
    x, real = torch.randn(2, 13, 32), torch.arange(13) < torch.tensor([[13], [6]])
    plain = layer(x, real=real)
    monkeypatch.setattr(attention, "_keeps_weights", lambda *_: True)
    assert torch.allclose(layer(x, real=real), plain, atol=1e-6)
    assert torch.allclose(layer(x[1:, :6]), plain[1:, :6], atol=1e-6)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_cross_entropy_with_bias_and_smoothing_is_that_of_pytorch(
    smoothing: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cross_entropy, "_CHUNK_BYTES", 1)  # chunks of 64 rows
    torch.manual_seed(4)
    hidden = torch.randn(150, 16, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(40, 16, dtype=torch.float64, requires_grad=True)
    bias, targets = torch.randn(37, dtype=torch.float64), torch.randint(0, 37, (150,))
    targets[::7] = -1
    found = summed_cross_entropy(hidden, weight, targets, 37, smoothing=smoothing, bias_V=bias)
    exact = F.cross_entropy(
        hidden @ weight[:37].t() + bias, targets, ignore_index=-1, label_smoothing=smoothing, reduction="sum"
    )
    assert torch.allclose(found.double(), exact, rtol=1e-5)
    ours = torch.autograd.grad(found, (hidden, weight))
    theirs = torch.autograd.grad(exact, (hidden, weight))
    assert all(torch.allclose(a, b, atol=1e-5) for a, b in zip(ours, theirs, strict=True))
    assert not ours[1][37:].any()


@pytest.mark.parametrize("causal", [True, False])
def test_attention_in_bf16_is_as_near_to_the_exact_one_as_pytorchs(causal: bool) -> None:
    torch.manual_seed(9)
    layer = attention.SelfAttention(64, 4, 0.0, causal)
    x = torch.randn(3, 40, 64)
    exact = torch.autograd.grad(layer(x).square().sum(), list(layer.parameters()))
    layer.bfloat16()
    if not by_onednn(torch.bfloat16):
        pytest.skip("the processor has no bf16")
    assert attention._keeps_weights(torch.empty(3, 40, 3, 4, 16, dtype=torch.bfloat16, requires_grad=True), 0, 40, 40)
    ours = torch.autograd.grad(layer(x.bfloat16()).float().square().sum(), list(layer.parameters()))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(attention, "_MOST_WEIGHTS", 0)
        theirs = torch.autograd.grad(layer(x.bfloat16()).float().square().sum(), list(layer.parameters()))
    for a, b, c in zip(exact, ours, theirs, strict=True):
        assert float((b.float() - a).norm()) < 1.5 * float((c.float() - a).norm()) + 1e-3 * float(a.norm())


def test_attention_in_float32_keeps_its_weights_where_onednn_multiplies(
    monkeypatch: pytest.MonkeyPatch, float32_products: Any
) -> None:
    single, double = (torch.empty(3, 40, 3, 4, 16, dtype=t, requires_grad=True) for t in (torch.float32, torch.float64))
    for told in ("ieee", "bf16"):
        float32_products.fp32_precision = told
        assert attention._keeps_weights(single, 0.0, 40, 40) == (told == "bf16")
        assert not attention._keeps_weights(double, 0.0, 40, 40)
        assert attention._keeps_weights(single, 0.1, 40, 40)
    monkeypatch.setattr(attention, "_MOST_WEIGHTS", 12 * 40 * 40 - 1)
    assert not attention._keeps_weights(single, 0.0, 40, 40)


def test_gelu_and_its_derivative_come_out_of_one_visit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gelu, "_PIECE", 1000)  # several pieces, the last one smaller
    x = torch.cat([torch.linspace(-12, 12, 5000), torch.tensor([0.0, -0.0, 1e-30, -1e-30, 60.0, -60.0])])
    x = x.bfloat16().view(2, -1).requires_grad_()
    exact_x = x.detach().double().requires_grad_()
    exact = F.gelu(exact_x, approximate="tanh")
    found = gelu.gelu_tanh(x)
    (slope,) = torch.autograd.grad(found.sum(), x)
    (exact_slope,) = torch.autograd.grad(exact.sum(), exact_x)
    assert found.dtype == torch.bfloat16 and found.grad_fn is not None and "Gelu" in type(found.grad_fn).__name__
    assert torch.allclose(found.double(), exact, rtol=2**-8, atol=1e-6)
    assert torch.allclose(slope.double(), exact_slope, rtol=2**-8, atol=1e-5)
    assert torch.equal(gelu.gelu_tanh(x.detach()), F.gelu(x.detach(), approximate="tanh"))


def test_keys_and_values_grow_beyond_their_capacity() -> None:
    torch.manual_seed(7)
    cache, chunks = KeyValues(2), [torch.randn(2, 3, n, 4) for n in (1, 1, 3, 9)]
    for i, chunk in enumerate(chunks):
        keys, values = cache.append(chunk, -chunk)
        assert torch.equal(keys, torch.cat(chunks[: i + 1], 2))
        assert torch.equal(values, -keys)
    assert torch.equal(cache.select(torch.tensor([1, 1])).append(chunks[0], chunks[0])[0][0, :, :14], keys[1])


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
    assert torch.is_tensor(layer._packed)
    learning = Linear(24, 40)
    learning(torch.randn(100, 24)).sum().backward()
    assert learning._packed is None and learning.weight.grad is not None


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
        assert ("_Product" in type(out.grad_fn).__name__) == (linear_map is linear._multiply)
        return [out.detach(), *torch.autograd.grad(out, [t for t in given if t.requires_grad], upstream.to(of))]

    monkeypatch.setattr(linear, "_LARGE", 0)
    exact = product_and_gradients(F.linear, torch.float64)
    plain, ours = (product_and_gradients(way, dtype) for way in (F.linear, linear._multiply))
    for a, b, c in zip(exact, plain, ours, strict=True):
        assert a.shape == c.shape
        assert float((c - a).norm()) <= 1.05 * float((b - a).norm()) + 1e-6 * float(a.norm())
