"""Multi-head attention with a key/value cache.

Vaswani et al. 2017, "Attention is all you need" (arXiv:1706.03762), section 3.2.
Departures: one projection for query, key and value; attention by `scaled_dot_product_attention`, and with dropout on a
CPU by a function of our own, since PyTorch leaves its fast kernel there and draws a float per score.
Shapes: B batch, T query length, S key length, H heads, K size per head, D = H*K, G = B*H.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nlptools.layers.dropout import keep_mask
from nlptools.layers.linear import Linear

_CHUNK_SCORES = 1 << 19  # scores handled at a time with dropout: they stay in the cache


class KeyValues:
    """Keys and values of one layer, in buffers that grow by doubling."""

    def __init__(self, capacity: int = 0) -> None:
        self.capacity = capacity
        self.size = 0
        self.keys: Tensor | None = None  # (B, H, capacity, K)
        self.values: Tensor | None = None

    def append(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Add (B, H, T, K) keys and values; returns all of them, (B, H, S, K)."""
        needed = self.size + keys.shape[2]
        if self.keys is None or self.values is None or needed > self.keys.shape[2]:
            self._grow(max(needed, self.capacity, 2 * self.size), keys)
        assert self.keys is not None and self.values is not None
        self.keys[:, :, self.size : needed] = keys
        self.values[:, :, self.size : needed] = values
        self.size = needed
        return self.keys[:, :, :needed], self.values[:, :, :needed]

    def select(self, rows: Tensor) -> KeyValues:
        """The same for a choice of batch rows."""
        chosen = KeyValues(self.capacity)
        chosen.size = self.size
        chosen.keys = None if self.keys is None else self.keys.index_select(0, rows)
        chosen.values = None if self.values is None else self.values.index_select(0, rows)
        return chosen

    def _grow(self, capacity: int, like: Tensor) -> None:
        shape = (like.shape[0], like.shape[1], capacity, like.shape[3])
        old_keys, old_values = self.keys, self.values
        self.keys, self.values = like.new_empty(shape), like.new_empty(shape)
        if old_keys is not None and old_values is not None:
            self.keys[:, :, : self.size] = old_keys[:, :, : self.size]
            self.values[:, :, : self.size] = old_values[:, :, : self.size]


class SelfAttention(nn.Module):
    """Each position attends to those before it (`causal`) or to all."""

    def __init__(self, hidden_size: int, num_heads: int, dropout: float = 0.0, causal: bool = True) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.dropout = dropout
        self.causal = causal
        self.query_key_value = Linear(hidden_size, 3 * hidden_size)
        self.output = Linear(hidden_size, hidden_size)

    def forward(self, x: Tensor, cache: KeyValues | None = None, mask: Tensor | None = None) -> Tensor:
        """(B, T, D) -> (B, T, D). `mask` (B, 1, T, S), True = attend, replaces the causal one where it is given."""
        B, T, D = x.shape
        projected = self.query_key_value(x).view(B, T, 3, self.num_heads, D // self.num_heads)
        query, key, value = projected.permute(2, 0, 3, 1, 4).unbind(0)  # each (B, H, T, K)
        if cache is not None:
            key, value = cache.append(key, value)
        causal = self.causal and mask is None and T > 1
        if self.training and self.dropout > 0.0:
            attended = dropped_attention(query, key, value, self.dropout, causal)
        else:
            attended = F.scaled_dot_product_attention(query, key, value, attn_mask=mask, is_causal=causal)
        joined: Tensor = self.output(attended.transpose(1, 2).reshape(B, T, D))
        return joined


def dropped_attention(query: Tensor, key: Tensor, value: Tensor, p: float, causal: bool) -> Tensor:
    """Attention with dropout of probability `p` on the attention weights; all (B, H, T, K)."""
    if query.device.type != "cpu":
        return F.scaled_dot_product_attention(query, key, value, dropout_p=p, is_causal=causal)
    attended: Tensor = _DroppedAttention.apply(query, key, value, p, causal)  # type: ignore[no-untyped-call]
    return attended


class _DroppedAttention(torch.autograd.Function):
    """A few heads at a time, so that the scores of a chunk never leave the processor's cache."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor, p: float, causal: bool) -> Tensor:
        B, H, T, K = query.shape
        q, k, v = (t.reshape(B * H, T, K) for t in (query, key, value))  # (G, T, K)
        q = q * K**-0.5
        future = torch.full((T, T), -torch.inf, dtype=q.dtype).triu_(1) if causal else torch.zeros((), dtype=q.dtype)
        kept, scale = keep_mask(torch.Size((B * H, T, T)), p)
        out = torch.empty_like(q)
        weights = torch.empty(B * H, T, T, dtype=q.dtype)
        size = max(1, _CHUNK_SCORES // (T * T))
        for start in range(0, B * H, size):
            g = slice(start, start + size)
            scores = torch.baddbmm(future, q[g], k[g].transpose(1, 2))
            torch.softmax(scores, -1, out=weights[g])
            torch.bmm(torch.mul(weights[g], kept[g], out=scores), v[g], out=out[g])
        ctx.save_for_backward(q, k, v, weights, kept)
        ctx.scale, ctx.shape, ctx.size = scale, query.shape, size
        return out.mul_(scale).view(B, H, T, K)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor, Tensor, Tensor, None, None]:
        q, k, v, weights, kept = ctx.saved_tensors
        d_out = grad_outputs[0].reshape(q.shape) * ctx.scale
        dq, dk, dv = torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)
        for start in range(0, len(q), ctx.size):
            g = slice(start, start + ctx.size)
            mask = kept[g].to(q.dtype)
            torch.bmm((weights[g] * mask).transpose(1, 2), d_out[g], out=dv[g])
            d_weights = torch.bmm(d_out[g], v[g].transpose(1, 2)).mul_(mask)
            # softmax backward: w * (dw - sum(dw * w))
            d_scores = torch._softmax_backward_data(d_weights, weights[g], -1, q.dtype)
            torch.bmm(d_scores, k[g], out=dq[g])
            torch.bmm(d_scores.transpose(1, 2), q[g], out=dk[g])
        shape = ctx.shape
        return dq.mul_(shape[-1] ** -0.5).view(shape), dk.view(shape), dv.view(shape), None, None
