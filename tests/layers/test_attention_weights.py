"""Attention weights: what they mix are the heads that the fast kernels compute."""

from __future__ import annotations

import torch

from nlptools.layers.attention import CrossAttention, SelfAttention, SourceMemory
from nlptools.layers.grouped_attention import GroupedQueryAttention
from nlptools.layers.positions import Rotary
from nlptools.layers.relative_attention import RelativeAttention, band
from nlptools.layers.transformer import Block, weighted_by


def assert_same(weights: torch.Tensor, mixed: torch.Tensor, heads: torch.Tensor) -> None:
    assert torch.allclose(weights.sum(-1), torch.ones(weights.shape[:-1]), atol=1e-5)
    assert torch.allclose(mixed, heads, atol=1e-5)


@torch.inference_mode()
def test_weights_of_self_attention_mix_its_heads() -> None:
    torch.manual_seed(0)
    x, real = torch.randn(2, 9, 24), (torch.arange(9) < torch.tensor([[9], [4]]))[:, None, None]
    turn = Rotary(9, 24, 6).turn(torch.arange(9))
    for causal in (False, True):
        options = {"key_value_heads": 2, "norm_eps": 1e-5}
        for layer in (SelfAttention(24, 4, causal=causal), GroupedQueryAttention(24, 4, causal=causal, **options)):
            for arguments in ({}, {"mask": real}, {"turn": turn}, {"mask": real, "turn": turn}):
                seen = layer.weighted(x, **arguments)
                assert seen.weights.shape == (2, 4, 9, 9)
                assert_same(seen.weights, seen.heads(), layer.heads(x, **arguments))
                ahead = seen.weights.triu(1).any()
                assert bool(ahead) == (not causal or "mask" in arguments)


@torch.inference_mode()
def test_weights_of_other_attention_mix_its_heads() -> None:
    torch.manual_seed(0)
    x, memory, real = torch.randn(2, 5, 24), torch.randn(2, 7, 24), torch.arange(7) < torch.tensor([[7], [3]])
    cross = CrossAttention(24, 4)
    source = SourceMemory([cross.project(memory, decoding=False)], real[:, None, None])
    seen = cross.weighted(x, 0, source)
    assert seen.weights.shape == (2, 4, 5, 7) and not seen.weights[1, :, :, 3:].any()
    assert_same(seen.weights, seen.heads(), cross.heads(x, 0, source))
    relative = RelativeAttention(24, 4)
    biases = torch.randn(4, 6), torch.randn(4, 6)
    distances = relative.distances(torch.randn(5, 24))
    arguments = relative.keys_and_values(x), distances, biases, band(5, 5, 2, x.device)
    seen = relative.weighted(x, *arguments)
    assert_same(seen.weights, seen.heads(), relative.heads(x, *arguments))


@torch.inference_mode()
def test_a_block_goes_on_only_when_it_is_asked() -> None:
    torch.manual_seed(0)
    x, memory = torch.randn(2, 5, 16), torch.randn(2, 7, 16)
    for pre_norm in (False, True):
        block = Block(16, 4, 32, pre_norm=pre_norm, cross=True)
        source = SourceMemory([block.cross_attention.project(memory, decoding=False)], None)
        steps = block.observed(x, weighted_by(), source)
        assert next(steps).shape == (2, 4, 5, 5) and next(steps).shape == (2, 4, 5, 7)
        try:
            next(steps)
        except StopIteration as end:
            assert torch.allclose(end.value, block(x, source=source), atol=1e-5)
