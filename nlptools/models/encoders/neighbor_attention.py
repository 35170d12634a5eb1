"""Attention that looks at the tokens around from the first step on, instead of having to find out that order matters.

With weights drawn at random every head averages the whole sequence, and masked tokens are guessed from a bag of words: the
loss stands still for thousands of steps, until some heads have found the tokens next to the gap. Here they begin there.
Positions begin as waves of many lengths, so that a shift is a rotation (Vaswani et al. 2017, arXiv:1706.03762, section
3.5), and heads of the first blocks with queries that turn the waves to those of the token before, behind, two before and
two behind; fixed heads like these do as well as learned ones in translation (Raganato et al. 2020, arXiv:2002.10260), and
beginning with what trained models are found to have is mimetic initialization (Trockman & Kolter 2023, arXiv:2305.09828).
It is only how weights begin: all are learned, and the model is a BERT or ELECTRA like any other.

Shapes: N positions, E embedding, D hidden, K size of a head, W waves of the embeddings, M waves that a head reads.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from nlptools.models.encoders.bert import Bert

OFFSETS = (-1, 1, -2, 2)  # of the token that a head looks at
_LONGEST, _SHORTEST = 128.0, math.pi  # wave lengths, in tokens
_STRENGTH = 2.0  # of a wave, beside what a token has in one dimension
_PEAK = 16.0  # score of the token looked at, above that of tokens far away


@torch.no_grad()
def look_at_neighbors(encoder: Bert) -> None:
    """Set positions, projection, and heads of a newly drawn encoder as the module says.

    A quarter of the embeddings' dimensions holds the waves. Offsets go to the heads of the first block in turn and, where it
    has less than four, to those of the next ones; other heads stay as they were drawn. Encoders narrower than 8 stay whole.
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
    encoder.position_embedding.weight.zero_()
    encoder.position_embedding.weight[:, : 2 * W] = amplitude * torch.cat([phases.cos(), phases.sin()], 1)
    # the norm over the sum of token, segment and position divides by this
    deviation = std * math.sqrt(2 + 2 * W * _STRENGTH**2 / E)

    read = torch.linspace(0, W - 1, M).round().long()
    columns = torch.cat([read, W + read])  # where the cosines and sines of these waves stand
    if E != D:
        columns = _carry(encoder.embedding_projection.weight, columns)
    size = math.sqrt(_PEAK * math.sqrt(K) / M) * deviation / amplitude
    places = [(block, head) for block in encoder.blocks for head in range(config.num_attention_heads)]
    for offset, (block, head) in zip(OFFSETS, places, strict=False):
        weight = block.attention.query_key_value.weight.view(3, -1, K, D)  # (query key value, heads, K, D)
        weight[:2, head] = 0.0
        weight[0, head][: 2 * M, columns] = size * _turned(rates[read] * offset)
        weight[1, head][: 2 * M, columns] = size * torch.eye(2 * M)


def _carry(projection: Tensor, columns: Tensor) -> Tensor:
    """Make a (D, E) projection bring `columns` through as they are, and the rest at its size -> where they are then."""
    projection.mul_(1 / (projection.std() * math.sqrt(projection.shape[1])))
    projection[: len(columns)] = 0.0
    at = torch.arange(len(columns))
    projection[at, columns] = 1.0
    return at


def _turned(angles: Tensor) -> Tensor:
    """(M,) -> (2M, 2M), which turns cosines and sines of M waves forward by these angles."""
    cos, sin = angles.cos().diag(), angles.sin().diag()
    return torch.cat([torch.cat([cos, -sin], 1), torch.cat([sin, cos], 1)])
