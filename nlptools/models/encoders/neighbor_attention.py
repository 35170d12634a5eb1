"""Initial weights with which some attention heads look at the neighboring tokens.

With random weights every head averages the whole sequence, and masked tokens are predicted from a bag of words: the loss
stagnates for thousands of steps, until some heads have found the tokens next to the mask. Here they look there from the start.
Position embeddings are initialized with waves of many lengths, so that a shift is a rotation (Vaswani et al. 2017,
arXiv:1706.03762, section 3.5), and heads of the first blocks with queries that rotate the waves to the previous
token, the next one, and two before and after. Fixed heads of this kind do as well as learned ones in translation (Raganato et
al. 2020, arXiv:2002.10260). Starting from structures found in trained models is called mimetic initialization (Trockman &
Kolter 2023, arXiv:2305.09828). Only the initial weights differ: all are learned, in a BERT or ELECTRA like any other.
Dimensions: N positions, W waves in the embeddings, M waves that a head reads.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from nlptools.models.encoders.bert import Bert

OFFSETS = (-1, 1, -2, 2)  # positions of the tokens that heads look at, relative to their own
_LONGEST, _SHORTEST = 128.0, math.pi  # wave lengths, in tokens
_STRENGTH = 2.0  # of a wave, relative to a token embedding in one dimension
_PEAK = 16.0  # attention score of the chosen token, above the score of distant tokens


@torch.no_grad()
def look_at_neighbors(encoder: Bert) -> None:
    """Set positions, projection, and some heads of a newly initialized encoder, see the module's docstring.

    A quarter of the embedding dimensions holds the waves. The offsets are assigned to the heads of the first block in turn
    and, if it has fewer than four, to heads of the next blocks; other heads, and encoders narrower than 8, do not change.
    """
    config = encoder.config
    E, D, std = config.embedding_size, config.hidden_size, config.initializer_range
    W, K = E // 8, D // config.num_attention_heads
    M = min(W, K // 2, D // 8)
    if M == 0:
        return
    rates = torch.linspace(math.log(2 * math.pi / _LONGEST), math.log(2 * math.pi / _SHORTEST), W).exp()
    amplitude = _STRENGTH * math.sqrt(2) * std
    phases = torch.arange(encoder.max_context)[:, None] * rates  # (N, W)
    assert encoder.position_embedding is not None
    encoder.position_embedding.weight.zero_()
    encoder.position_embedding.weight[:, : 2 * W] = amplitude * torch.cat([phases.cos(), phases.sin()], 1)
    # the norm over the sum of token, segment and position divides by this
    deviation = std * math.sqrt(2 + 2 * W * _STRENGTH**2 / E)

    read = torch.linspace(0, W - 1, M).round().long()
    columns = torch.cat([read, W + read])  # dimensions of the cosines and sines of these waves
    if E != D:
        columns = _pass_through(encoder.embedding_projection.weight, columns)
    size = math.sqrt(_PEAK * math.sqrt(K) / M) * deviation / amplitude
    heads = [(block, head) for block in encoder.blocks for head in range(config.num_attention_heads)]
    for offset, (block, head) in zip(OFFSETS, heads, strict=False):
        weight = block.attention.query_key_value.weight.view(3, -1, K, D)  # (query, key, value; H, K, D)
        weight[:2, head] = 0.0
        weight[0, head][: 2 * M, columns] = size * _rotation(rates[read] * offset)
        weight[1, head][: 2 * M, columns] = size * torch.eye(2 * M)


def _pass_through(projection: Tensor, columns: Tensor) -> Tensor:
    """Let a (D, E) projection copy `columns`, and keep the size of the rest. Returns the dimensions they are copied to."""
    projection.mul_(1 / (projection.std() * math.sqrt(projection.shape[1])))
    projection[: len(columns)] = 0.0
    at = torch.arange(len(columns))
    projection[at, columns] = 1.0
    return at


def _rotation(angles: Tensor) -> Tensor:
    """(M,) -> (2M, 2M), the matrix that shifts the cosines and sines of M waves forward by these angles."""
    cos, sin = angles.cos().diag(), angles.sin().diag()
    return torch.cat([torch.cat([cos, -sin], 1), torch.cat([sin, cos], 1)])
