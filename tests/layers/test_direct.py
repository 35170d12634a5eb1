"""Modules that are called as plain functions are."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from nlptools.layers.direct import Direct
from nlptools.layers.norms import LayerNorm


class Double(Direct, nn.Module):
    def forward(self, x: Tensor, times: int = 1) -> Tensor:
        return 2 * times * x


class Triple(Double):
    def forward(self, x: Tensor, times: int = 1) -> Tensor:
        return super().forward(x, times) + times * x


class Named(Double):
    """Without a `forward` of its own."""


def test_a_call_is_that_of_the_nearest_forward() -> None:
    x = torch.ones(2)
    assert Double()(x).tolist() == Named()(x).tolist() == [2, 2]
    assert Triple()(x, times=2).tolist() == [6, 6]
    assert nn.Sequential(Triple(), Double())(x).tolist() == [6, 6]


def test_hooks_of_a_module_are_called() -> None:
    """Weights that come and go around a block, quantizers and profilers live on hooks."""
    x, called = torch.ones(2, requires_grad=True), []
    one, other = Triple(), Triple()
    one.register_forward_pre_hook(lambda module, args: called.append("before"))
    handle = one.register_forward_hook(lambda module, args, out: called.append("after"))
    one.register_full_backward_hook(lambda module, inputs, outputs: called.append("backward"))
    assert isinstance(one, Triple) and one(x, times=2).tolist() == other(x, times=2).tolist() == [6, 6]
    assert called == ["before", "after"]
    handle.remove()
    nn.Sequential(one, other)(x).sum().backward()
    assert called == ["before", "after", "before", "backward"]


def test_layer_norm_is_that_of_torch() -> None:
    torch.manual_seed(1)
    ours, theirs, x = LayerNorm(6, 1e-3), nn.LayerNorm(6, 1e-3), torch.randn(3, 6)
    with torch.no_grad():
        for norm in (ours, theirs):
            norm.weight.copy_(torch.arange(6.0))
            norm.bias.copy_(torch.arange(6.0).flip(0))
    assert torch.equal(ours(x), theirs(x))
