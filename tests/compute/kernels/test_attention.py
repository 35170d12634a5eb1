"""Attention that keeps its weights, and attention by plain products, against the definition and PyTorch's own."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn import functional as F

from nlptools.compute.kernels import attention
from nlptools.compute.kernels.dropout import keep_mask
from tests.tiny_models import tiny


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("p", [0.0, 0.3])
def test_attention_that_keeps_its_weights_equals_its_definition(
    causal: bool, p: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attention, "CHUNK_SCORES", 3 * 13 * 13)  # several chunks, the last one smaller
    torch.manual_seed(5)
    packed = torch.randn(2, 13, 3, 4, 8, dtype=torch.float64, requires_grad=True)
    torch.manual_seed(6)
    found = attention._SelfAttention.apply(packed, None, p, causal)
    torch.manual_seed(6)
    kept, scale = keep_mask(torch.Size((8, 13, 13)), p) if p else (torch.ones(8, 13, 13), 1.0)
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
    monkeypatch.setattr(attention, "CHUNK_SCORES", 3 * 5 * 13)  # several chunks, the last one smaller
    torch.manual_seed(5)
    query = torch.randn(2, 5, 4, 8, dtype=torch.float64, requires_grad=True)
    key_value = torch.randn(2, 13, 2, 4, 8, dtype=torch.float64, requires_grad=True)
    real = torch.arange(13) < torch.tensor([[13], [6]])
    torch.manual_seed(6)
    found = attention._CrossAttention.apply(query, key_value, real[:, None, None], p)
    torch.manual_seed(6)
    kept, scale = keep_mask(torch.Size((8, 5, 13)), p) if p else (torch.ones(8, 5, 13), 1.0)
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


def test_attention_in_float32_keeps_its_weights_where_onednn_multiplies(
    monkeypatch: pytest.MonkeyPatch, float32_products: Any
) -> None:
    single, double = (torch.empty(3, 40, 3, 4, 16, dtype=t, requires_grad=True) for t in (torch.float32, torch.float64))
    for precision in ("ieee", "bf16"):
        float32_products.fp32_precision = precision
        assert attention._keeps_weights(single, 0.0, 40, 40) == (precision == "bf16")
        assert not attention._keeps_weights(double, 0.0, 40, 40)
        assert attention._keeps_weights(single, 0.1, 40, 40)
    monkeypatch.setattr(attention, "MOST_WEIGHTS", 12 * 40 * 40 - 1)
    assert not attention._keeps_weights(single, 0.0, 40, 40)


@pytest.mark.parametrize("scale", [1.0, 100.0])  # exponents of large scores would overflow
@pytest.mark.parametrize("length", [1, 9, 200])
def test_unmasked_attention_is_that_of_pytorch(length: int, scale: float) -> None:
    torch.manual_seed(7)
    qkv = scale * torch.randn(3, length, 3, 4, 8)
    out = torch.empty(3, length, 4, 8)
    attention.unmasked_attention(qkv, out)
    query, key, value = (part.transpose(1, 2) for part in qkv.unbind(2))
    expected = F.scaled_dot_product_attention(query, key, value).transpose(1, 2)
    assert torch.allclose(out, expected, atol=1e-5 * scale)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("queries", [1, 3])
def test_a_few_queries_see_what_many_see(queries: int, dtype: torch.dtype) -> None:
    """Keys and values in float32, as a cache keeps them."""
    torch.manual_seed(8)
    query, key, value = torch.randn(2, 4, queries, 8), torch.randn(2, 4, 30, 8), torch.randn(2, 4, 30, 8)
    mask = torch.rand(2, 1, queries, 30) < 0.7
    expected = F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
    out = attention.attention(query.to(dtype), key, value, mask)
    assert out.dtype == dtype
    assert torch.allclose(out.float(), expected, atol=1e-5 if dtype == torch.float32 else 0.03)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("masked", [None, "causal", "window", "padding"])
@pytest.mark.parametrize("p", [0.0, 0.3])
def test_grouped_attention_is_that_of_repeated_keys(
    masked: str | None, p: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In training, where weights are kept, and in inference, for few queries and for many."""
    torch.manual_seed(5)
    B, T, H, G, K = 2, 19, 6, 2, 8
    query, key, value = (torch.randn(B, T, n, K, dtype=torch.float64, requires_grad=True) for n in (H, G, G))
    mask = None
    if masked == "window":
        mask = (torch.ones(T, T).tril() - torch.ones(T, T).tril(-5)).bool()[None, None]
    if masked == "padding":
        mask = (torch.arange(T) < torch.tensor([[T], [6]]))[:, None, None]
    causal = masked == "causal"
    repeated = [x.repeat_interleave(H // G, 2) for x in (key, value)]
    packed = torch.stack([query, *repeated], 2)
    monkeypatch.setattr(attention, "CHUNK_SCORES", 3 * T * T)
    if p:  # dropout keeps the weights; heads of a group are drawn in another order, so it is compared on average
        found = attention.grouped_attention(query, key, value, mask, p, causal)
        mean = torch.stack([attention.grouped_attention(query, key, value, mask, p, causal) for _ in range(300)]).mean(
            0
        )
        whole = attention.self_attention(packed, mask, 0.0, causal)
        assert not torch.allclose(found, whole, atol=0.05) and (mean - whole).abs().mean() < 0.05
        return
    monkeypatch.setattr(attention, "by_onednn", lambda dtype: True)
    found, expected = (
        attention.grouped_attention(query, key, value, mask, p, causal),
        attention.self_attention(packed, mask, p, causal),
    )
    assert torch.allclose(found, expected)
    upstream = torch.randn_like(found)
    ours = torch.autograd.grad(found, (query, key, value), upstream)
    exact = torch.autograd.grad(expected, (query, key, value), upstream)
    assert all(torch.allclose(a, b) for a, b in zip(ours, exact, strict=True))
    with torch.no_grad():
        q, k, v = (x.detach().transpose(1, 2) for x in (query, key, value))
        assert torch.allclose(attention.attention(q, k, v, mask, causal=causal).transpose(1, 2).flatten(2), found)
        rows = None if mask is None else mask[:, :, -3:] if mask.shape[2] > 1 else mask
        if not causal:  # a few queries
            few = attention.attention(q[:, :, -3:].float(), k.float(), v.float(), rows).transpose(1, 2).flatten(2)
            assert torch.allclose(few, found[:, -3:].float(), atol=1e-5)


@pytest.mark.parametrize(("flags", "kept"), [("avx512f amx_bf16", None), ("avx512f avx512_bf16", torch.float32)])
def test_keys_are_kept_in_float32_without_units_for_matrices(
    flags: str, kept: torch.dtype | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nlptools.compute.kernels.attention.cpuinfo", lambda key: flags)
    assert attention.type_of_kept_keys(torch.device("cpu")) == kept
    assert attention.type_of_kept_keys(torch.device("meta")) is None
    model = tiny("transformer").bfloat16().eval()
    ids = torch.randint(0, 40, (2, 5))
    with torch.inference_mode():
        state = model.start(2, 6)
        hidden = [model(part, state)[0] for part in (ids[:, :3], ids[:, 3:4], ids[:, 4:])]
        whole = model(ids, None)[0]
    assert state.cache.layers[0].filled.dtype == (kept or torch.bfloat16)
    assert hidden[-1].dtype == torch.bfloat16 and torch.allclose(torch.cat(hidden, 1), whole, atol=0.1)
