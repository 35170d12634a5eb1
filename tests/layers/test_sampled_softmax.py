"""The loss over drawn tokens, and the distribution they are drawn from."""

from __future__ import annotations

import math

import pytest
import torch
from torch.nn import functional as F

from nlptools.layers import sampled_softmax
from nlptools.layers.sampled_softmax import summed_sampled_loss


def test_the_probability_to_be_drawn_is_that_of_the_draws() -> None:
    torch.manual_seed(0)
    V, draws, rounds = 20, 5, 4000
    hits = torch.zeros(V)
    for _ in range(rounds):
        hits[sampled_softmax._draw(draws, V, torch.device("cpu")).unique()] += 1
    expected = sampled_softmax._log_drawn(torch.arange(V), draws, V).exp()
    assert torch.allclose(hits / rounds, expected, atol=0.03)
    once = sampled_softmax._log_drawn(torch.arange(V), 1, V).exp()
    assert float(once.sum()) == pytest.approx(1.0, abs=1e-5), "one draw: a distribution"


def test_with_all_tokens_drawn_it_is_the_cross_entropy() -> None:
    torch.manual_seed(1)
    hidden, weight, bias = torch.randn(6, 4), torch.randn(9, 4), torch.randn(9)
    targets = torch.tensor([0, 3, -1, 8, 8, 2])
    loss = summed_sampled_loss(hidden, weight, bias, targets, 5000)
    expected = F.cross_entropy(hidden @ weight.t() + bias, targets, ignore_index=-1, reduction="sum")
    assert float(loss) == pytest.approx(float(expected), rel=1e-4)


def test_training_with_it_lowers_the_cross_entropy() -> None:
    torch.manual_seed(2)
    hidden, targets = torch.randn(40, 8), torch.randint(0, 30, (40,))
    weight, bias = torch.zeros(30, 8, requires_grad=True), torch.zeros(30, requires_grad=True)
    for _ in range(300):
        loss = summed_sampled_loss(hidden, weight, bias, targets, 10)
        for parameter, gradient in zip((weight, bias), torch.autograd.grad(loss, (weight, bias)), strict=True):
            parameter.data -= 0.05 * gradient
    assert float(F.cross_entropy(hidden @ weight.t() + bias, targets).detach()) < math.log(30) / 4
