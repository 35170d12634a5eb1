"""What pretraining asks of layers: attention inside sequences that share a row, and a bias of the vocabulary that learns."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from nlptools.layers import cross_entropy
from nlptools.layers.attention import SelfAttention
from nlptools.layers.cross_entropy import summed_cross_entropy


@pytest.mark.parametrize("p", [0.0, 1e-9])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_attention_that_keeps_its_weights_obeys_a_mask(
    p: float, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Forward and backward, a few heads at a time, beside PyTorch's attention with the same mask."""
    from nlptools.layers import attention

    monkeypatch.setattr(attention, "_CHUNK_SCORES", 5 * 7 * 7)  # chunks end inside a sequence
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
    monkeypatch.setattr(attention, "_keeps_weights", lambda *_: False)
    layer.dropout = 0.0
    for mine, expected in zip(found, gradients(x), strict=True):
        scale = float(expected.abs().max())
        assert torch.allclose(mine, expected, atol=scale * (1e-5 if dtype == torch.float32 else 0.03))


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("rows", [8, 6])
def test_the_bias_of_a_cross_entropy_gets_its_gradient(
    rows: int, smoothing: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cross_entropy, "chunk_rows", lambda _: 4)
    torch.manual_seed(1)
    hidden, weight = torch.randn(9, 5, requires_grad=True), torch.randn(rows, 5, requires_grad=True)
    bias, targets = torch.randn(6, requires_grad=True), torch.tensor([0, 1, 2, 3, 4, 5, -1, 2, 2])
    loss = summed_cross_entropy(hidden, weight, targets, 6, smoothing=smoothing, bias_V=bias)
    expected = F.cross_entropy(
        hidden @ weight[:6].t() + bias, targets, ignore_index=-1, reduction="sum", label_smoothing=smoothing
    )
    assert torch.allclose(loss, expected, atol=1e-4)
    for mine, theirs in zip(
        torch.autograd.grad(2 * loss, (hidden, weight, bias)),
        torch.autograd.grad(2 * expected, (hidden, weight, bias)),
        strict=True,
    ):
        assert torch.allclose(mine, theirs, atol=1e-4)
