"""The block against PyTorch's Transformer layers, and for some positions only."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch import Tensor, nn

from nlptools.layers.attention import SelfAttention, SourceMemory
from nlptools.layers.query_positions import QueryPositions
from nlptools.layers.transformer import Block


def copied(pre_norm: bool, cross: bool) -> tuple[Block, nn.Module]:
    """A block, and PyTorch's layer with the same random weights."""
    torch.manual_seed(0)
    block = Block(16, 4, 32, activation="relu", pre_norm=pre_norm, causal=cross, cross=cross)
    kind = nn.TransformerDecoderLayer if cross else nn.TransformerEncoderLayer
    theirs = kind(16, 4, 32, dropout=0.0, batch_first=True, norm_first=pre_norm)
    for parameter in block.parameters():
        nn.init.normal_(parameter, std=0.3)
    modules = dict(block.named_modules())
    pairs = {"attention.query_key_value": "self_attn.in_proj_", "attention.output": "self_attn.out_proj."}
    pairs |= {"feed_forward.up": "linear1.", "feed_forward.down": "linear2.", "attention_norm": "norm1."}
    pairs |= {"feed_forward_norm": "norm3." if cross else "norm2."}
    if cross:
        pairs |= {"cross_attention.output": "multihead_attn.out_proj.", "cross_attention_norm": "norm2."}
    parts = ("weight", "bias")
    state = {f"{prefix}{part}": getattr(modules[ours], part) for ours, prefix in pairs.items() for part in parts}
    if cross:
        query, both = block.cross_attention.query, block.cross_attention.key_value
        for part in parts:
            state[f"multihead_attn.in_proj_{part}"] = torch.cat([getattr(query, part), getattr(both, part)])
    theirs.load_state_dict(state)
    return block, theirs


@pytest.mark.parametrize("pre_norm", [False, True])
def test_an_encoder_block_is_that_of_pytorch(pre_norm: bool) -> None:
    block, theirs = copied(pre_norm, cross=False)
    x, real = torch.randn(3, 9, 16), torch.arange(9) < torch.tensor([[9], [4], [7]])
    expected = theirs(x, src_key_padding_mask=~real)
    assert torch.allclose(block(x, mask=real[:, None, None])[real], expected[real], atol=1e-5)
    block.requires_grad_(False)  # with packed weights, and the residual inside the product
    assert torch.allclose(block(x, mask=real[:, None, None])[real], expected[real], atol=1e-5)


@pytest.mark.parametrize("pre_norm", [False, True])
def test_a_decoder_block_is_that_of_pytorch(pre_norm: bool) -> None:
    block, theirs = copied(pre_norm, cross=True)
    x, memory, real = torch.randn(3, 5, 16), torch.randn(3, 7, 16), torch.arange(7) < torch.tensor([[7], [4], [2]])
    future = torch.ones(5, 5).triu(1).bool()
    expected = theirs(x, memory, tgt_mask=future, memory_key_padding_mask=~real)
    source = SourceMemory([block.cross_attention.project(memory, decoding=False)], real[:, None, None])
    assert torch.allclose(block(x, source=source), expected, atol=1e-5)
    weights: list[Tensor] = []
    out = block(x, source=source, weights=weights)
    assert torch.allclose(out, expected, atol=1e-5)
    assert torch.allclose(weights[0].sum(-1), torch.ones(3, 5)) and not weights[0][2, :, 2:].any()


@pytest.mark.parametrize("pre_norm", [False, True])
def test_some_positions_are_what_they_are_among_all(pre_norm: bool) -> None:
    block, _ = copied(pre_norm, cross=False)
    x = torch.randn(3, 9, 16)
    wanted = QueryPositions(torch.tensor([[4, 2], [0, 0], [8, 1]]), torch.tensor([0, 1, 4, 5]))
    some = block.run(x, partial(SelfAttention.heads_at, positions=wanted), wanted.select)
    assert torch.allclose(some, block(x)[[0, 0, 2, 2], [4, 2, 8, 1]], atol=1e-6)
