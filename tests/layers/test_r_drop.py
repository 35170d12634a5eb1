"""Cross-entropy of two passes and their distance, beside the formula of the paper and autograd."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from nlptools.layers import cross_entropy
from nlptools.layers.cross_entropy import summed_cross_entropy, summed_r_drop

V = 37


def formula(
    hidden: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, targets: torch.Tensor, rate: float, smoothing: float
) -> torch.Tensor:
    """Half of -log p - log q + rate/2 (KL(p|q) + KL(q|p)), summed over the targets."""
    kept = targets >= 0
    logits = (hidden @ weight[:V].t() + bias[:V])[:, kept]
    both = targets[kept].repeat(2)
    entropy = F.cross_entropy(logits.reshape(-1, V), both, label_smoothing=smoothing, reduction="sum")
    p, q = logits.log_softmax(-1)
    apart = F.kl_div(q, p, log_target=True, reduction="sum") + F.kl_div(p, q, log_target=True, reduction="sum")
    return (entropy + rate / 2 * apart) / 2


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("rate", [0.0, 5.0])
@pytest.mark.parametrize("blocks", [False, True])
def test_loss_and_gradients_are_those_of_the_formula(
    monkeypatch: pytest.MonkeyPatch, smoothing: float, rate: float, blocks: bool
) -> None:
    if blocks:
        monkeypatch.setattr(cross_entropy, "_CHUNK_BYTES", 1)
        monkeypatch.setattr(cross_entropy, "_BLOCK_ELEMENTS", 4 * V * 7)  # seven rows of both passes at a time
    torch.manual_seed(0)
    hidden = torch.randn(2, 150, 16, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(40, 16, dtype=torch.float64, requires_grad=True)
    bias = torch.randn(40, dtype=torch.float64, requires_grad=True)
    targets = torch.randint(0, V, (150,))
    targets[::7] = -1
    found = summed_r_drop(hidden, weight, targets, V, rate, smoothing=smoothing, bias_V=bias)
    exact = formula(hidden, weight, bias, targets, rate, smoothing)
    assert torch.allclose(found.double(), exact, rtol=1e-5)
    ours = torch.autograd.grad(found * 0.5, (hidden, weight, bias))
    theirs = torch.autograd.grad(exact * 0.5, (hidden, weight, bias))
    for a, b in zip(ours, theirs, strict=True):
        assert torch.allclose(a, b, atol=1e-4)
    assert not ours[1][V:].any() and not ours[2][V:].any(), "rows of padding must not move"


def test_two_equal_passes_are_the_plain_loss() -> None:
    torch.manual_seed(1)
    hidden, weight = torch.randn(20, 8), torch.randn(64, 8, requires_grad=True)
    targets = torch.randint(-1, 50, (20,))
    twice = summed_r_drop(torch.stack([hidden, hidden]), weight, targets, 50, 5.0, smoothing=0.1)
    once = summed_cross_entropy(hidden, weight, targets, 50, smoothing=0.1)
    assert torch.allclose(twice, once, rtol=1e-5)
    gradients = [torch.autograd.grad(loss, weight)[0] for loss in (twice, once)]
    assert torch.allclose(*gradients, atol=1e-5)


def test_in_bf16_and_of_no_targets() -> None:
    torch.manual_seed(2)
    hidden, weight = torch.randn(2, 64, 32), torch.randn(100, 32)
    exact = summed_r_drop(hidden, weight, torch.arange(64), 100, 5.0)
    rounded = summed_r_drop(hidden.bfloat16(), weight.bfloat16(), torch.arange(64), 100, 5.0)
    assert rounded.dtype == torch.float32 and torch.allclose(exact, rounded, rtol=0.02)
    assert float(summed_r_drop(hidden, weight, torch.full((64,), -1), 100, 5.0)) == 0
