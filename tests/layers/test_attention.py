"""Multi-head attention: masks, precision, and the same numbers whichever way the heads are computed."""

from __future__ import annotations

import pytest
import torch

from nlptools.compute.kernels import attention as kernel
from nlptools.compute.kernels.linear import by_onednn
from nlptools.layers.attention import CrossAttention, SelfAttention, SourceMemory


def test_nobody_attends_to_padding_in_training_either() -> None:
    torch.manual_seed(5)
    layer = SelfAttention(32, 4, 0.0, causal=False)
    x, real = torch.randn(2, 13, 32), (torch.arange(13) < torch.tensor([[13], [6]]))[:, None, None]
    plain = layer(x, mask=real)
    layer.dropout = 1e-9  # the layer keeps its weights for backward
    assert torch.allclose(layer(x, mask=real), plain, atol=1e-6)
    assert torch.allclose(layer(x[1:, :6]), plain[1:, :6], atol=1e-6)


@pytest.mark.parametrize("p", [0.0, 1e-9])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_attention_that_keeps_its_weights_obeys_a_mask(
    p: float, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Forward and backward, a few heads at a time, against PyTorch's attention with the same mask."""
    monkeypatch.setattr(kernel, "CHUNK_SCORES", 5 * 7 * 7)  # chunks end inside a sequence
    torch.manual_seed(0)
    layer = SelfAttention(12, 4, p, causal=False).to(dtype)
    x = torch.randn(3, 7, 12, dtype=dtype)
    numbers = torch.tensor([[1, 1, 1, 2, 2, 2, 2], [1] * 7, [1, 1, 2, 3, 3, 0, 0]])
    mask = numbers[:, None, :, None] == numbers[:, None, None]

    def gradients(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        layer.zero_grad()
        x = x.clone().requires_grad_()
        out = layer(x, mask=mask)
        (out.float() * torch.arange(7)[:, None]).sum().backward()
        return out.detach(), x.grad, layer.query_key_value.weight.grad  # type: ignore[return-value]

    found = gradients(x)
    monkeypatch.setattr(kernel, "MOST_WEIGHTS", 0)
    layer.dropout = 0.0
    for mine, expected in zip(found, gradients(x), strict=True):
        scale = float(expected.abs().max())
        assert torch.allclose(mine, expected, atol=scale * (1e-5 if dtype == torch.float32 else 0.03))


@pytest.mark.parametrize("causal", [True, False])
def test_attention_in_bf16_is_as_near_to_the_exact_one_as_pytorchs(causal: bool) -> None:
    torch.manual_seed(9)
    layer = SelfAttention(64, 4, 0.0, causal)
    x = torch.randn(3, 40, 64)
    exact = torch.autograd.grad(layer(x).square().sum(), list(layer.parameters()))
    layer.bfloat16()
    if not by_onednn(torch.bfloat16):
        pytest.skip("the processor has no bf16")
    assert kernel._keeps_weights(torch.empty(3, 40, 3, 4, 16, dtype=torch.bfloat16, requires_grad=True), 0, 40, 40)
    ours = torch.autograd.grad(layer(x.bfloat16()).float().square().sum(), list(layer.parameters()))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernel, "MOST_WEIGHTS", 0)
        theirs = torch.autograd.grad(layer(x.bfloat16()).float().square().sum(), list(layer.parameters()))
    for a, b, c in zip(exact, ours, theirs, strict=True):
        assert float((b.float() - a).norm()) < 1.5 * float((c.float() - a).norm()) + 1e-3 * float(a.norm())


def test_plain_heads_are_the_same_and_never_nan() -> None:
    torch.manual_seed(3)
    layer = SelfAttention(32, 4, causal=False)
    x, mask = torch.randn(3, 9, 32), (torch.arange(9) < torch.tensor([[9], [4], [0]]))[:, None, None]
    plain = layer.plain_heads(x, mask)
    assert torch.allclose(plain[:2], layer.heads(x, mask=mask)[:2], atol=1e-6)
    assert bool(plain.isfinite().all())


@torch.inference_mode()
def test_a_source_for_decoding_is_the_one_for_training_and_can_be_chosen_from() -> None:
    torch.manual_seed(4)
    layer = CrossAttention(32, 4)
    memory, x = torch.randn(3, 7, 32), torch.randn(3, 2, 32)
    mask = (torch.arange(7) < torch.tensor([[7], [2], [5]]))[:, None, None]
    sources = [SourceMemory([layer.project(memory, decoding)], mask) for decoding in (False, True)]
    training, decoding = (layer(x, 0, source) for source in sources)
    assert torch.allclose(training, decoding, atol=1e-6)
    inputs = torch.tensor([2, 0])
    chosen = sources[1].select(inputs)
    assert torch.allclose(layer(x[inputs], 0, chosen), decoding[inputs], atol=1e-6)
    assert sources[1].select(torch.arange(3)) is sources[1]
    weights = layer.weighted(x, 0, sources[1]).weights.mean(1)
    assert weights.shape == (3, 2, 7) and not weights[1, :, 2:].any()
    assert torch.allclose(weights.sum(-1), torch.ones(3, 2))
