"""Which spans of a document are mentions, and which earlier mention each one refers to.

Kirstain et al. 2021 (P21-short.3): a span has no vector. Its score as a mention comes from the vectors of its first
and last word, and so does the score of a pair of spans, by bilinear maps. Departures: a word is one piece of its word, not
several; pairs also have a learned score for their distance, in powers of two of the number of words (Lee et al. 2018, N18-2108).
Shapes: W words of a document, L longest span, M spans, F size of a projection, D hidden.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from nlptools.layers.dropout import Dropout
from nlptools.layers.linear import Linear

LAYERS = ("dense", "mention_start", "mention_end", "mention_pair", "antecedent")  # of a `ChainHead`
SIZE = 128  # F
LONGEST = 30  # words of a span
_DISTANCES = 16  # powers of two


class ChainHead(nn.Module):
    """See the module's docstring. `forward` makes what the other methods compare."""

    def __init__(self, hidden_size: int, dropout: float) -> None:
        super().__init__()
        self.dense = Linear(hidden_size, 4 * SIZE)
        self.dropout = Dropout(dropout)
        self.mention_start = Linear(SIZE, 1, bias=False)
        self.mention_end = Linear(SIZE, 1)
        self.mention_pair = Linear(SIZE, SIZE, bias=False)
        self.antecedent = Linear(2 * SIZE, 2 * SIZE)
        self.distance = nn.Parameter(torch.zeros(_DISTANCES))

    def forward(self, hidden: Tensor) -> Tensor:
        """(..., D) -> (..., 4 F): first and last words of mentions, first and last words of pairs."""
        out: Tensor = self.dropout(self.dense(hidden, "gelu"))
        return out

    def mention_scores(self, words: Tensor, sentences: Tensor) -> Tensor:
        """The score of each span of up to L words in one sentence, -inf for other ones: (W, L), by first word and length - 1.
        L is at most the length of the longest sentence.

        Args:
            words: (W, 4 F), of `forward`.
            sentences: (W,) the number of the sentence of each word.
        """
        start, end = words[:, :SIZE], words[:, SIZE : 2 * SIZE]
        first, last = _map(self.mention_start, start)[:, 0], _map(self.mention_end, end)[:, 0]
        pairs = _map(self.mention_pair, start)
        columns = []
        for more in range(min(LONGEST, int(torch.bincount(sentences).max()))):
            count = len(words) - more
            scores = first[:count] + last[more:] + (pairs[:count] * end[more:]).sum(1)
            scores = scores.masked_fill(sentences[:count] != sentences[more:], -math.inf)
            columns.append(nn.functional.pad(scores, (0, more), value=-math.inf))
        return torch.stack(columns, 1)

    def pair_scores(self, words: Tensor, spans: Tensor, later: slice) -> Tensor:
        """The score that each span of `later` refers to each span, without the scores of mentions; (M', M), -inf for those
        that are not earlier. `spans` (M, 2): first and last words, ascending.
        """
        start, end = words[:, 2 * SIZE : 3 * SIZE], words[:, 3 * SIZE :]
        vectors = torch.cat([start[spans[:, 0]], end[spans[:, 1]]], 1)  # (M, 2 F)
        scores = _map(self.antecedent, vectors[later]) @ vectors.T
        apart = spans[later, None, 0] - spans[None, :, 0]
        bucket = apart.clamp(min=1).log2().long().clamp(max=_DISTANCES - 1)
        number = torch.arange(len(spans), device=spans.device)
        return (scores + self.distance[bucket].to(scores.dtype)).masked_fill(number[later, None] <= number, -math.inf)


def _map(layer: Linear, x: Tensor) -> Tensor:
    """The layer in the type of x, float32 also where the weights have 16 bits."""
    bias = None if layer.bias is None else layer.bias.to(x.dtype)
    return nn.functional.linear(x, layer.weight.to(x.dtype), bias)
