"""Attention of one new token of each row to all tokens before it: the step of greedy decoding and sampling.

The operations are those of `attention.attention` for few queries, with the same results, begun by one call (`scripted`).
Shapes: B rows, H heads, G heads of keys and values, S slots of the cache, K head size.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor

from nlptools.compute.kernels.scripted import scripted


def attends_stepwise(buffer_2BGSK: Tensor) -> bool:
    """Whether `step_attention` can read this buffer: in inference on a CPU, keys in float32.

    Threads share the products of a single head, which changes their last digits, see `attention`.
    """
    several = buffer_2BGSK.shape[1] * buffer_2BGSK.shape[2] > 1
    return several and buffer_2BGSK.is_cpu and buffer_2BGSK.dtype == torch.float32 and not torch.is_grad_enabled()


@cache
def step_attention() -> Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]:
    """The function of queries (B, H, 1, K), keys and values (B, G, 1, K), a buffer (2, B, G, S, K) and the number of its slots in
    use (), which adds keys and values to the buffer, and returns the heads (B, 1, H * K).
    """
    return scripted(_step_attention)


def _step_attention(query: Tensor, key: Tensor, value: Tensor, buffer: Tensor, used: Tensor) -> Tensor:
    keys, values, place = buffer[0], buffer[1], int(used)
    keys.narrow(2, place, 1).copy_(key)
    values.narrow(2, place, 1).copy_(value)
    B, G, _, K = keys.shape
    query_NRK = (query.float() * K**-0.5).reshape(B * G, -1, K)  # N = B * G, R = H / G
    key_NSK, value_NSK = keys.narrow(2, 0, place + 1).flatten(0, 1), values.narrow(2, 0, place + 1).flatten(0, 1)
    heads_NRK = torch.bmm(torch.bmm(query_NRK, key_NSK.transpose(1, 2)).softmax(-1), value_NSK)
    return heads_NRK.reshape(B, 1, -1).to(query.dtype)
