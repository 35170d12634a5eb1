"""Multi-head attention with a key/value cache.

Vaswani et al. 2017, "Attention is all you need" (arXiv:1706.03762), section 3.2.
Departures: one projection for query, key and value; attention by `scaled_dot_product_attention`, and in training on a
CPU by a function of our own: with dropout, where PyTorch leaves its fast kernel and draws a float per score, and in 16
bits, where its backward is slow.
Shapes: B batch, T query length, S key length, H heads, K size per head, D = H*K, G = B*H.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nlptools.layers.dropout import keep_mask
from nlptools.layers.linear import Linear

_CHUNK_SCORES = 1 << 20  # scores handled at a time: they stay in the cache
_MOST_WEIGHTS = 1 << 25  # attention weights of one layer that are kept for backward, unless dropout needs them kept


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
        packed = self.query_key_value(x).view(B, T, 3, self.num_heads, D // self.num_heads)
        causal = self.causal and mask is None and T > 1
        dropout = self.dropout if self.training else 0.0
        if cache is None and mask is None and _keeps_weights(packed, dropout):
            attended = _Attention.apply(packed, dropout, causal)  # type: ignore[no-untyped-call]
            joined: Tensor = self.output(attended)
            return joined
        query, key, value = packed.permute(2, 0, 3, 1, 4).unbind(0)  # each (B, H, T, K)
        if cache is not None:
            key, value = cache.append(key, value)
        attended = F.scaled_dot_product_attention(
            query, key, value, attn_mask=mask, dropout_p=dropout, is_causal=causal
        )
        joined = self.output(attended.transpose(1, 2).reshape(B, T, D))
        return joined


def _keeps_weights(packed: Tensor, dropout: float) -> bool:
    """Whether `_Attention` is the faster way: in training on a CPU, with dropout or, if they are not many, in 16 bits.

    The compiler has ways of its own, and mistakes the strides of what is written in place there.
    """
    if packed.device.type != "cpu" or not packed.requires_grad or torch.compiler.is_compiling():
        return False
    B, T, _, H, _ = packed.shape
    return dropout > 0.0 or (packed.dtype == torch.bfloat16 and B * H * T * T <= _MOST_WEIGHTS)


class _Attention(torch.autograd.Function):
    """(B, T, 3, H, K) queries, keys and values -> (B, T, D), with dropout of probability `p` on the attention weights.

    The weights are kept for backward. A few heads at a time, so that the scores of a chunk never leave the processor's
    cache. PyTorch's kernel computes the weights again in backward, in products too small for the matrix units: forward
    and backward of 16 sequences of 256 with 6 heads of 64 take it 38 ms in bf16, this 22.
    """

    @staticmethod
    def forward(ctx: Any, packed: Tensor, p: float, causal: bool) -> Tensor:
        B, T, _, H, K = packed.shape
        q, k, v = packed.permute(2, 0, 3, 1, 4).reshape(3, B * H, T, K)
        q.mul_(K**-0.5)
        future = torch.full((T, T), -torch.inf, dtype=q.dtype).triu_(1) if causal else torch.zeros((), dtype=q.dtype)
        kept, scale = keep_mask(torch.Size((B * H, T, T)), p) if p > 0.0 else (None, 1.0)
        out = torch.empty(B, T, H, K, dtype=q.dtype)
        by_head = torch.empty_like(q)
        weights = torch.empty(B * H, T, T, dtype=q.dtype)
        size = max(1, _CHUNK_SCORES // (T * T))
        for start in range(0, B * H, size):
            g = slice(start, start + size)
            scores = torch.baddbmm(future, q[g], k[g].transpose(1, 2))
            torch.softmax(scores, -1, out=weights[g])
            dropped = weights[g] if kept is None else torch.mul(weights[g], kept[g], out=scores)
            torch.bmm(dropped, v[g], out=by_head[g])
        torch.mul(by_head.view(B, H, T, K).transpose(1, 2), scale, out=out)
        ctx.save_for_backward(q, k, v, weights, kept)
        ctx.scale, ctx.size = scale, size
        return out.view(B, T, H * K)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor, None, None]:
        q, k, v, weights, kept = ctx.saved_tensors
        B, T, D = grad_outputs[0].shape
        G, _, K = q.shape
        d_out = grad_outputs[0].view(B, T, D // K, K).transpose(1, 2).reshape(G, T, K) * ctx.scale
        gradients = torch.empty(3, G, T, K, dtype=q.dtype)
        dq, dk, dv = gradients
        for start in range(0, G, ctx.size):
            g = slice(start, start + ctx.size)
            mask = None if kept is None else kept[g].to(q.dtype)
            dropped = weights[g] if mask is None else weights[g] * mask
            torch.bmm(dropped.transpose(1, 2), d_out[g], out=dv[g])
            d_weights = torch.bmm(d_out[g], v[g].transpose(1, 2))
            if mask is not None:
                d_weights.mul_(mask)
            # softmax backward: w * (dw - sum(dw * w))
            d_scores = torch._softmax_backward_data(d_weights, weights[g], -1, q.dtype)
            torch.bmm(d_scores, k[g], out=dq[g])
            torch.bmm(d_scores.transpose(1, 2), q[g], out=dk[g])
        dq.mul_(K**-0.5)
        return gradients.view(3, B, D // K, T, K).permute(1, 3, 0, 2, 4).contiguous(), None, None
