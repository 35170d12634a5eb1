"""Sequences end to end in one matrix, without padding, for inference: attention and pooling group by group.

What works on tokens one by one sees a matrix of all tokens; attention and pooling need sequences, and get them in groups
of equal length, without padding or masks (Zeng et al. 2022, "Boosting distributed training performance of the unpadded
BERT model", arXiv:2208.08124, pad for attention alone; here nothing is padded).
Shapes: N tokens of all sequences, B sequences, T length in a group, H heads, K size per head, D = H*K, G = B*H.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from nlptools.layers import pooling

_MOST_LENGTH = 128  # of a sequence: up to here, plain products are faster than PyTorch's kernel on a CPU
_MOST_SCORE = (
    60.0  # e to this power, summed over a sequence and in products, is far from what float32 and bf16 can hold
)


@dataclass(frozen=True)
class Group:
    """Sequences of one length that follow each other in the matrix."""

    start: int  # row of the first token
    count: int
    length: int

    @property
    def end(self) -> int:
        """Row after the last token."""
        return self.start + self.count * self.length


def attend(packed: Tensor, num_heads: int, groups: Sequence[Group]) -> Tensor:
    """Queries, keys and values side by side (N, 3 D) -> (N, D): each position attends to all of its sequence."""
    N, D = packed.shape[0], packed.shape[1] // 3
    out = packed.new_empty(N, D)
    for group in groups:
        shape = (group.count, group.length, num_heads, D // num_heads)
        rows = packed[group.start : group.end].view(*shape[:2], 3, *shape[2:])
        _attend_group(rows, out[group.start : group.end].view(shape))
    return out


def by_group(
    states: Callable[[Tensor], Sequence[Tensor]], ids: Tensor, groups: Sequence[Group], layers: range
) -> list[Tensor]:
    """The hidden states (N, D) of each of `layers`, by a model that takes sequences of one length at a time.

    `states`: (B, T) ids -> (B, T, D) of all layers. `ids`: (N,).
    """
    parts: list[list[Tensor]] = [[] for _ in layers]
    for group in groups:
        found = states(ids[group.start : group.end].view(group.count, group.length))
        for part, number in zip(parts, layers, strict=True):
            part.append(found[number].flatten(0, 1))
    return [torch.cat(part) for part in parts]


def attend_from_first(packed: Tensor, num_heads: int, groups: Sequence[Group]) -> Tensor:
    """As `attend`, but for the first position of each sequence alone: (B, D)."""
    D = packed.shape[1] // 3
    out = []
    for group in groups:
        rows = packed[group.start : group.end].view(group.count, group.length, 3, num_heads, D // num_heads)
        query, key, value = rows.permute(2, 0, 3, 1, 4).unbind(0)  # (B, H, T, K)
        attended = F.scaled_dot_product_attention(query[:, :, :1], key, value)
        out.append(attended.reshape(group.count, D))
    return torch.cat(out)


def _attend_group(packed: Tensor, out: Tensor) -> None:
    """(B, T, 3, H, K) queries, keys and values, and where the result goes, (B, T, H, K).

    PyTorch's kernel handles each head of each sequence on its own, and its softmax is slow for short rows: 80 sequences
    of 25 with 12 heads of 32 take it 5.2 ms in bf16, this 2.6. Without the largest score of each row taken away first,
    exponents are one pass over memory; where scores are too large for that the kernel does the work.
    """
    B, T, _, H, K = packed.shape
    query, key, value = packed.unbind(2)
    if packed.device.type == "cpu" and T <= _MOST_LENGTH:
        own = packed.new_empty(3, B, H, T, K)
        torch.mul(query.transpose(1, 2), K**-0.5, out=own[0])
        own[1].copy_(key.transpose(1, 2))
        own[2].copy_(value.transpose(1, 2))
        q, k, v = own.view(3, B * H, T, K)
        weights = torch.bmm(q, k.transpose(1, 2))
        low, high = torch.aminmax(weights)
        if float(high) < _MOST_SCORE and float(low) > -_MOST_SCORE:
            weights.exp_()
            total = weights.view(-1, T) @ weights.new_ones(T, 1)
            by_head = torch.bmm(weights, v).view(B, H, T, K)
            torch.div(by_head.transpose(1, 2), total.view(B, H, T, 1).transpose(1, 2), out=out)
            return
    attended = F.scaled_dot_product_attention(query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2))
    out.copy_(attended.transpose(1, 2))


def pool(hidden: Tensor, groups: Sequence[Group], kinds: Sequence[str], skips: Sequence[int]) -> Tensor:
    """(N, D) -> (B, k D), float32: k kinds of `pooling.POOLINGS` side by side for each sequence.

    Args:
        skips: of each group, how many first tokens are left out, unless the first is asked for by name (`cls`).
    """
    rows = []
    for group, skip in zip(groups, skips, strict=True):
        states = hidden[group.start : group.end].view(group.count, group.length, -1)
        parts = [pooling.pool(states if kind == "cls" else states[:, skip:], None, [kind]) for kind in kinds]
        rows.append(parts[0] if len(parts) == 1 else torch.cat(parts, 1))
    return torch.cat(rows)
