"""Attention of the new tokens of a decoding step to those before them.

It does the operations that `attention.attention` does for few queries.
Shapes: B inputs, H heads, G heads of keys and values, T new tokens, S slots of the cache, K head size.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor

from nlptools.compute.kernels.scripted import scripted


def attends_stepwise(buffer_2BGSK: Tensor) -> bool:
    """Whether `step_attention` can read this buffer: in inference on a CPU, keys in float32."""
    return buffer_2BGSK.is_cpu and buffer_2BGSK.dtype == torch.float32 and not torch.is_grad_enabled()


def step_attention(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, buffer: Tensor, used: Tensor
) -> Tensor:
    """(B, T, H * K): the heads of queries (B, H, T, K), whose keys and values (B, G, T, K) are added to a buffer (2, B, G, S, K).

    Args:
        mask: (B or 1, 1, T, S) True = attend, or (B or 1, H, T, S) to add to the scaled products, for the S slots in use then;
            None for T = 1: every slot.
        used: slots in use before, ().
    """
    begin, keys, values = int(used), buffer[0], buffer[1]
    B, G, _, K = keys.shape
    H, T = query.shape[1], query.shape[2]
    keys.narrow(2, begin, T).copy_(key)
    values.narrow(2, begin, T).copy_(value)
    query_NRK = (query.float() * K**-0.5).reshape(B * G, -1, K)  # N = B * G; R = H / G * T
    key_NSK, value_NSK = keys.narrow(2, 0, begin + T).flatten(0, 1), values.narrow(2, 0, begin + T).flatten(0, 1)
    if B * G == 1:  # threads share the product of a single head, which changes its last digits: it is computed as two
        query_NRK = query_NRK.expand(2, -1, -1)
        key_NSK, value_NSK = key_NSK.expand(2, -1, -1), value_NSK.expand(2, -1, -1)
    scores_NRS = torch.bmm(query_NRK, key_NSK.transpose(1, 2))
    if mask is not None:
        if mask.dtype == torch.bool:
            mask = torch.zeros(mask.shape, dtype=torch.float32).masked_fill_(~mask, -float("inf"))
        scores_NRS[: B * G].view(B, H, T, -1).add_(mask)
    heads_NRK = torch.bmm(scores_NRS.softmax(-1), value_NSK)[: B * G]
    heads: Tensor = heads_NRK.view(B, H, T, -1).transpose(1, 2).reshape(B, T, -1)
    return heads.to(query.dtype)


def row_attention(
    query: Tensor, key: Tensor, value: Tensor, own: Tensor, window: int, buffer: Tensor, used: Tensor
) -> Tensor:
    """As `step_attention`, for rows that are padded on the left: each position of each row is computed as if it came alone.

    Args:
        own: (B,) slots of each row without its padding, including the T new ones.
        window: each position sees the last `window` slots of its row at most, including its own; 0: all.
    """
    begin, keys, values = int(used), buffer[0], buffer[1]
    B, G, T, K = key.shape
    keys.narrow(2, begin, T).copy_(key)
    values.narrow(2, begin, T).copy_(value)
    query_BGRTK = (query.float() * K**-0.5).view(B, G, -1, T, K)  # R = H / G
    heads_BTGRK = torch.empty(B, T, G, query.shape[1] // G, value.shape[3])
    lengths: list[int] = own.tolist()
    first = 0
    while first < B:
        rows = 1  # neighboring rows of one length
        while first + rows < B and lengths[first + rows] == lengths[first]:
            rows += 1
        for t in range(T):
            S = lengths[first] - T + 1 + t
            query_NRK = query_BGRTK.select(3, t).narrow(0, first, rows).flatten(0, 1)  # N = rows * G
            key_NSK = keys.narrow(0, first, rows).narrow(2, begin + t + 1 - S, S).flatten(0, 1)
            value_NSK = values.narrow(0, first, rows).narrow(2, begin + t + 1 - S, S).flatten(0, 1)
            if rows * G == 1:  # see `step_attention`
                query_NRK = query_NRK.expand(2, -1, -1)
                key_NSK, value_NSK = key_NSK.expand(2, -1, -1), value_NSK.expand(2, -1, -1)
            scores_NRS = torch.bmm(query_NRK, key_NSK.transpose(1, 2))
            if window > 0 and window < S:
                scores_NRS.narrow(2, 0, S - window).fill_(-float("inf"))
            heads_NRK = torch.bmm(scores_NRS.softmax(-1), value_NSK)[: rows * G]
            heads_BTGRK.select(1, t).narrow(0, first, rows).copy_(heads_NRK.view(rows, G, -1, value.shape[3]))
        first += rows
    heads: Tensor = heads_BTGRK.flatten(2)
    return heads.to(query.dtype)


@cache
def scripted_step_attention() -> Callable[[Tensor, Tensor, Tensor, Tensor | None, Tensor, Tensor], Tensor]:
    """`step_attention` in TorchScript, for traces."""
    return scripted(step_attention)


@cache
def scripted_row_attention() -> Callable[[Tensor, Tensor, Tensor, Tensor, int, Tensor, Tensor], Tensor]:
    """`row_attention` in TorchScript, for traces."""
    return scripted(row_attention)
