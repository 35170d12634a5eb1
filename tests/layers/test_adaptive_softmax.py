"""The adaptive softmax beside PyTorch's, and as one distribution."""

from __future__ import annotations

import copy

import pytest
import torch
from head_law import assert_head_agrees
from torch import nn

from nlptools.layers.adaptive_softmax import AdaptiveSoftmax

CUTOFFS = [(1,), (4, 9), (5, 10, 29)]


@pytest.mark.parametrize("cutoffs", CUTOFFS)
def test_it_is_that_of_pytorch(cutoffs: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    theirs = nn.AdaptiveLogSoftmaxWithLoss(64, 30, list(cutoffs), div_value=4.0, head_bias=True)
    head = AdaptiveSoftmax(64, 30, cutoffs)
    head.load_state_dict(theirs.state_dict())
    hidden = torch.randn(40, 64, requires_grad=True)
    targets = torch.arange(40) % 30
    expected = theirs(hidden, targets)
    assert torch.allclose(head.log_probabilities(hidden.detach(), targets), expected.output, atol=1e-5)
    assert torch.allclose(head.logits(hidden), theirs.log_prob(hidden), atol=1e-5)
    loss = head.summed_loss(hidden, targets)
    assert torch.allclose(loss, 40 * expected.loss)
    found = torch.autograd.grad(loss, [hidden, *head.parameters()])
    wanted = torch.autograd.grad(40 * expected.loss, [hidden, *theirs.parameters()])
    for a, b in zip(found, wanted, strict=True):
        assert torch.allclose(a, b, atol=1e-4)


@pytest.mark.parametrize("cutoffs", CUTOFFS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_it_is_one_distribution(cutoffs: tuple[int, ...], dtype: torch.dtype) -> None:
    torch.manual_seed(1)
    head = AdaptiveSoftmax(16, 30, cutoffs).to(dtype)
    hidden = torch.randn(20, 16).to(dtype)
    assert_head_agrees(head, hidden, atol=1e-4 if dtype == torch.float32 else 0.15)
    assert head.logits(hidden.view(4, 5, 16)).shape == (4, 5, 30)


def test_clusters_without_a_target_get_no_gradient_but_zeros() -> None:
    head = AdaptiveSoftmax(16, 30, (5, 20))
    head.summed_loss(torch.randn(3, 16), torch.tensor([1, 2, -1])).backward()
    for parameter in head.tail.parameters():
        assert parameter.grad is not None and not parameter.grad.any()
    assert head.head.weight.grad is not None and bool(head.head.weight.grad.any())
    empty = torch.tensor([-1, -1, -1])
    assert float(head.summed_loss(torch.randn(3, 16), empty).detach()) == 0.0


def test_a_copy_has_its_own_weights() -> None:
    head = AdaptiveSoftmax(16, 30, (5, 20))
    twin = copy.deepcopy(head)
    with torch.no_grad():
        for parameter in twin.parameters():
            parameter.zero_()
    assert not torch.allclose(head.logits(torch.ones(16)), twin.logits(torch.ones(16)))
