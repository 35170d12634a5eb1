"""The slots of a Transformer block, each class beside the formula of its paper."""

from __future__ import annotations

from itertools import product

import pytest
import torch
from torch.nn import functional as F

from nlptools.layers.transformer import ATTENTIONS, FEED_FORWARDS, NORMS, Block, FeedForward, GatedFeedForward

# relative attention needs the distances and the biases of its model, whose laws test it
ALONE = [name for name in ATTENTIONS if name != "relative"]


@pytest.mark.parametrize(("norm", "attention", "feed_forward"), [*product(NORMS, ALONE, FEED_FORWARDS)])
@pytest.mark.parametrize("pre_norm", [True, False])
def test_every_combination_is_causal_and_learns(norm: str, attention: str, feed_forward: str, pre_norm: bool) -> None:
    torch.manual_seed(0)
    block = Block(8, 2, 12, pre_norm=pre_norm, norm=norm, attention=attention, feed_forward=feed_forward)
    assert type(block.attention_norm) is NORMS[norm] and type(block.feed_forward_norm) is NORMS[norm]
    x = torch.randn(2, 5, 8)
    other = x.clone()
    other[:, 3] += 1.0
    before, after = block(x), block(other)
    assert torch.equal(before[:, :3], after[:, :3])
    assert not torch.allclose(before[:, 3:], after[:, 3:], atol=1e-3)
    (before * torch.randn(2, 5, 8)).sum().backward()
    for name, parameter in block.named_parameters():
        assert parameter.grad is not None and bool(parameter.grad.any()), name


def test_feed_forwards_are_the_formulas_of_their_papers() -> None:
    torch.manual_seed(1)
    x = torch.randn(4, 8)
    plain, gated = FeedForward(8, 12, "relu"), GatedFeedForward(8, 12, "swish")
    assert torch.allclose(plain(x), plain.down(F.relu(plain.up(x))), atol=1e-6)
    assert torch.allclose(gated(x), gated.down(F.silu(gated.gate(x)) * gated.up(x)), atol=1e-6)


def test_the_names_are_a_closed_list() -> None:
    for slot in ("norm", "attention", "feed_forward"):
        with pytest.raises(KeyError):
            Block(8, 2, 12, **{slot: "another"})  # type: ignore[arg-type]
