"""Packed sequences: end to end in one matrix, without padding.

Everything that works on single tokens sees the matrix of all N tokens. Attention and pooling see groups of sequences of equal
length, without padding or masks. (Zeng et al. 2022, "Boosting distributed training performance of the unpadded BERT
model", arXiv:2208.08124, pad for attention alone.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from nlptools.compute.kernels.attention import near_attention, unmasked_attention
from nlptools.layers import pooling
from nlptools.layers.attention import SelfAttention, within
from nlptools.layers.relations import UNRELATED, Relation


@dataclass(frozen=True)
class EqualLengths:
    """Consecutive sequences of equal length."""

    start: int  # row of the first token
    count: int
    length: int

    @property
    def end(self) -> int:
        """Row after the last token."""
        return self.start + self.count * self.length

    def of(self, x: Tensor) -> Tensor:
        """The group's rows of x (N, ...) -> (count, length, ...)."""
        return x[self.start : self.end].view(self.count, self.length, *x.shape[1:])


def equal_lengths(lengths: np.ndarray) -> list[EqualLengths]:
    """The groups of packed sequences, from their lengths (B,); neighbors of one length are a group."""
    changes = np.flatnonzero(np.diff(lengths, prepend=-1))  # the first sequence of each group
    starts = np.cumsum(lengths) - lengths
    counts = np.diff(changes, append=len(lengths))
    return [EqualLengths(int(starts[i]), int(count), int(lengths[i])) for i, count in zip(changes, counts, strict=True)]


def split(x: Tensor, groups: Sequence[EqualLengths]) -> list[Tensor]:
    """x (N, ...) -> (count, length, ...) of each group. One gradient of x is computed; slices would have one each."""
    parts = torch.split(x, [group.end - group.start for group in groups])
    return [part.view(group.count, group.length, *x.shape[1:]) for part, group in zip(parts, groups, strict=True)]


def heads(
    attention: SelfAttention, x: Tensor, groups: Sequence[EqualLengths], relation: Relation = UNRELATED
) -> Tensor:
    """(N, D) -> (N, H * K): as `SelfAttention.heads`; each position attends to all of its sequence, as `relation` lets it."""
    qkv_N3HK = relation.turned(attention.query_key_value(x).view(len(x), 3, attention.num_heads, attention.head_size))
    if qkv_N3HK.requires_grad or attention.training:
        return torch.cat([_trained_heads(attention, part, relation).flatten(0, 1) for part in split(qkv_N3HK, groups)])
    out_NHK = x.new_empty(len(x), attention.num_heads, attention.head_size)
    for group in groups:
        qkv_BT3HK, out_BTHK = group.of(qkv_N3HK), group.of(out_NHK)
        if 0 < relation.window < group.length - 1:
            near_attention(qkv_BT3HK, out_BTHK, relation.window)
        else:
            query, key = (qkv_BT3HK[:, :, i].transpose(1, 2) for i in range(2))
            unmasked_attention(qkv_BT3HK, out_BTHK, relation.scores(attention, query, key))
    return out_NHK.flatten(1)


def _trained_heads(attention: SelfAttention, qkv_BT3HK: Tensor, relation: Relation) -> Tensor:
    """-> (B, T, H * K), with dropout and a backward pass."""
    return attention.among(qkv_BT3HK, within(relation.window, qkv_BT3HK.shape[1], None, qkv_BT3HK.device), relation)


def first_heads(
    attention: SelfAttention, x: Tensor, groups: Sequence[EqualLengths], relation: Relation = UNRELATED
) -> Tensor:
    """(N, D) -> (B, D): as `heads`, for the first position of each sequence alone; for inference."""
    if relation is not UNRELATED:
        return first_rows(heads(attention, x, groups, relation), groups)
    qkv_N3HK = attention.query_key_value(x).view(len(x), 3, attention.num_heads, attention.head_size)
    out = []
    for group in groups:
        query, key, value = group.of(qkv_N3HK).permute(2, 0, 3, 1, 4).unbind(0)  # each (B, H, T, K)
        out.append(F.scaled_dot_product_attention(query[:, :, :1], key, value).reshape(group.count, -1))
    return torch.cat(out)


def first_rows(x: Tensor, groups: Sequence[EqualLengths]) -> Tensor:
    """(N, D) -> (B, D): the first position of each sequence."""
    return torch.cat([x[group.start : group.end : group.length] for group in groups])


def unpacked(ids: Tensor, segments: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """Rows of several sequences, as one row for each sequence, padded on the right.

    Args:
        ids: (B, T).
        segments: (B, T) the number of the sequence of each token, -1 in padding; the tokens of a sequence are neighbors.

    Returns:
        The rows (N, longest), and the row and column there of each real token (P,), in the order of `ids`.
    """
    real = segments >= 0
    owner = segments[real]
    begins = torch.ones_like(owner, dtype=torch.bool)
    begins[1:] = owner[1:] != owner[:-1]
    row = begins.cumsum(0) - 1
    column = torch.arange(len(owner), device=ids.device) - begins.nonzero().squeeze(1)[row]
    rows = ids.new_zeros(int(begins.sum()), int(column.max()) + 1 if len(owner) else 0)
    rows[row, column] = ids[real]
    return rows, (row, column)


def by_group(
    states: Callable[[Tensor], Sequence[Tensor]], ids: Tensor, groups: Sequence[EqualLengths], layers: range
) -> list[Tensor]:
    """The hidden states (N, D) of each of `layers`, by a model that takes sequences of one length at a time.

    Args:
        states: (B, T) ids -> (B, T, D) of all layers.
        ids: (N,).
    """
    parts: list[list[Tensor]] = [[] for _ in layers]
    for group in groups:
        states_BTD = states(group.of(ids))
        for part, number in zip(parts, layers, strict=True):
            part.append(states_BTD[number].flatten(0, 1))
    return [torch.cat(part) for part in parts]


def pool(hidden: Tensor, groups: Sequence[EqualLengths], kinds: Sequence[str], skips: Sequence[int]) -> Tensor:
    """(N, D) -> (B, k*D), float32: k kinds of `pooling.POOLINGS` side by side for each sequence.

    Args:
        skips: for each group, how many first tokens are left out, except by the pooling `cls`.
    """
    rows = []
    for states, skip in zip(split(hidden, groups), skips, strict=True):
        parts = [pooling.pool(states if kind == "cls" else states[:, skip:], None, [kind]) for kind in kinds]
        rows.append(parts[0] if len(parts) == 1 else torch.cat(parts, 1))
    return torch.cat(rows)
