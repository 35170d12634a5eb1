"""Heads of a new encoder look at the tokens around, whatever its sizes; the rest is drawn as ever."""

from __future__ import annotations

import pytest
import torch

from nlptools.models.encoders.bert import Bert, EncoderConfig
from nlptools.models.encoders.bert_with_heads import BertWithHeads
from nlptools.models.encoders.neighbor_attention import OFFSETS, look_at_neighbors

SIZES = {  # hidden, heads, embedding
    "mini": (256, 4, 0),
    "base": (768, 12, 0),
    "electra-small": (256, 4, 128),
    "one narrow head": (64, 1, 256),
}


def drawn(hidden, heads, embedding=0, layers=4):
    torch.manual_seed(1)
    family = "electra" if embedding else "bert"
    encoder = Bert(EncoderConfig(200, hidden, layers, heads, 4 * hidden, family, embedding))
    encoder.initialize()
    return encoder.eval()


def weights_of(block, x):
    """(B, T, D) -> (B, heads, T, T): where the heads of a block look."""
    attention = block.attention
    B, T, D = x.shape
    q, k, _ = attention.query_key_value(x).view(B, T, 3, attention.num_heads, -1).permute(2, 0, 3, 1, 4)
    return torch.softmax(q @ k.mT / (D / attention.num_heads) ** 0.5, -1)


@pytest.mark.parametrize("name", SIZES)
@torch.no_grad()
def test_heads_look_at_their_neighbor(name):
    encoder = drawn(*SIZES[name])
    look_at_neighbors(encoder)
    ids = torch.randint(1, 200, (3, 300))
    layers = encoder(ids).layers
    heads = encoder.config.num_attention_heads
    i = torch.arange(2, 298)  # far beyond what training shows, too
    for number, offset in enumerate(OFFSETS[:heads]):
        weights = weights_of(encoder.blocks[0], layers[0])[:, number]
        shares = {o: float(weights[:, i, i + o].mean()) for o in range(-2, 3)}
        assert shares[offset] > 0.45
        assert all(share < 0.1 for o, share in shares.items() if o not in (0, offset)), shares
    if heads < len(OFFSETS):  # the second block goes on with the offsets
        weights = weights_of(encoder.blocks[1], layers[1])[:, 0]
        assert weights[:, i, i + OFFSETS[heads]].mean() > 0.4


def test_only_what_has_to_change_does():
    encoder, before = drawn(256, 8), drawn(256, 8).state_dict()
    look_at_neighbors(encoder)
    changed = {name for name, tensor in encoder.state_dict().items() if not torch.equal(tensor, before[name])}
    assert changed == {"position_embedding.weight", "blocks.0.attention.query_key_value.weight"}
    weight = encoder.blocks[0].attention.query_key_value.weight.view(3, 8, 32, 256)
    old = before["blocks.0.attention.query_key_value.weight"].view(3, 8, 32, 256)
    assert torch.equal(weight[:, 4:], old[:, 4:])
    assert torch.equal(weight[2], old[2])  # values, of all heads


def test_the_smallest_stay_as_they_are():
    encoder, before = drawn(6, 2), drawn(6, 2).state_dict()
    look_at_neighbors(encoder)
    assert all(torch.equal(tensor, before[name]) for name, tensor in encoder.state_dict().items())


@pytest.mark.sampled(law="an encoder learns a task")
def test_a_few_steps_find_what_stands_before():
    """A token is followed by a certain other one: with random heads this takes many times as long."""
    losses = {}
    for around in (False, True):
        torch.manual_seed(2)
        model = BertWithHeads(EncoderConfig(40, 64, 2, 4, 128, hidden_dropout=0.0, attention_dropout=0.0), ("masked",))
        model.initialize()
        if around:
            look_at_neighbors(model.encoder)
        optimizer = torch.optim.Adam(model.parameters(), 1e-3)
        follower = torch.randperm(30)
        for _ in range(120):
            ids = torch.randint(30, (32, 24))
            for place in range(1, 24, 2):
                ids[:, place] = follower[ids[:, place - 1]]
            hidden = model.encoder(ids.index_fill(1, torch.arange(1, 24, 2), 39)).last[:, 1::2].flatten(0, 1)
            loss = torch.nn.functional.cross_entropy(model.masked_logits(hidden), ids[:, 1::2].flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        losses[around] = loss.item()
    assert losses[True] < 0.5 * losses[False]
