"""Multi-head attention, to the sequence itself and to a source.

Vaswani et al. 2017, "Attention is all you need" (arXiv:1706.03762), section 3.2.
Departures: one projection for query, key and value (and one for key and value of a source); attention by
`scaled_dot_product_attention`, and in training on a CPU by functions of our own: with dropout, where PyTorch leaves its
fast kernel and draws a float per score, and where oneDNN multiplies: the backward of that kernel is slow beside it.
Shapes: B batch, T query length, S key length, H heads, K size per head, D = H*K, G = B*H.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nlptools.layers.cache import KeyValues
from nlptools.layers.dropout import as_factors, keep_mask
from nlptools.layers.linear import Linear, by_onednn
from nlptools.layers.places import Places

_CHUNK_SCORES = 1 << 20  # scores handled at a time: they stay in the cache
_FEW_QUERIES = 16  # of a sequence: with so many, plain products are faster than PyTorch's kernel on a CPU
_MANY_HEADS = 1024  # of all sequences together: from here on that is so for a single query, too
_MOST_WEIGHTS = 1 << 25  # attention weights of one layer that are kept for backward, unless dropout needs them kept


class SelfAttention(nn.Module):
    """Each position attends to those before it (`causal`) or to all."""

    def __init__(self, hidden_size: int, num_heads: int, dropout: float = 0.0, causal: bool = True) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.dropout = dropout
        self.causal = causal
        self.query_key_value = Linear(hidden_size, 3 * hidden_size)
        self.output = Linear(hidden_size, hidden_size)

    def forward(
        self, x: Tensor, cache: KeyValues | None = None, mask: Tensor | None = None, real: Tensor | None = None
    ) -> Tensor:
        """(B, T, D) -> (B, T, D).

        `mask` (B, 1, T, S), True = attend, replaces the causal one where it is given. `real` (B, T), True = real: where
        attention is not causal, nobody attends to the other positions.
        """
        B, T, D = x.shape
        packed = self.query_key_value(x).view(B, T, 3, self.num_heads, D // self.num_heads)
        causal = self.causal and mask is None and T > 1
        dropout = self.dropout if self.training else 0.0
        if cache is None and _keeps_weights(packed, dropout, T, T):
            allowed = real if mask is None else mask.squeeze(1)
            attended = _SelfAttention.apply(packed, allowed, dropout, causal)  # type: ignore[no-untyped-call]
            joined: Tensor = self.output(attended)
            return joined
        query, key, value = packed.permute(2, 0, 3, 1, 4).unbind(0)  # each (B, H, T, K)
        if cache is not None:
            earlier = cache.size > 0
            held = cache.append(key, value)
            if earlier:
                key, value = held
        if real is not None and mask is None:
            mask = real[:, None, None]  # (B, 1, 1, S)
        attended = attend(query, key, value, mask, dropout, causal)
        joined = self.output(attended.transpose(1, 2).reshape(B, T, D))
        return joined

    def at(self, x: Tensor, places: Places, mask: Tensor | None = None, real: Tensor | None = None) -> Tensor:
        """(B, T, D) -> (M, D): what `forward` gives those places, where attention is not causal."""
        B, T, D = x.shape
        weight, bias, H = self.query_key_value.weight, self.query_key_value.bias, self.num_heads
        query = F.linear(places.queries(x), weight[:D], bias[:D]).view(B, -1, H, D // H)
        both = F.linear(x, weight[D:], bias[D:]).view(B, T, 2, H, D // H)
        allowed = real if mask is None else places.queries(mask.squeeze(1))  # (B, T) or (B, Q, T)
        dropout = self.dropout if self.training else 0.0
        if _keeps_weights(query, dropout, query.shape[1], T):
            attended = _CrossAttention.apply(query, both, allowed, dropout)  # type: ignore[no-untyped-call]
        else:
            key, value = both.permute(2, 0, 3, 1, 4).unbind(0)
            mask = None if allowed is None else allowed.view(B, 1, -1, T)
            attended = attend(query.transpose(1, 2), key, value, mask, dropout).transpose(1, 2)
        joined: Tensor = self.output(attended.reshape(-1, D).index_select(0, places.wanted))
        return joined


def attend(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, dropout: float = 0.0, causal: bool = False
) -> Tensor:
    """(B, H, T, K) queries on (B, H, S, K) keys and values, perhaps of another type, -> (B, H, T, K).

    `mask` (B or 1, 1, T or 1, S), True = attend.
    """
    B, H, T, _ = query.shape
    few = T <= _FEW_QUERIES and query.device.type == "cpu" and not query.requires_grad and not causal and not dropout
    # one query of a small batch is the one case in which a fused kernel wins
    if few and key.dtype == torch.float32 and (query.dtype != key.dtype or T > 1 or B * H >= _MANY_HEADS):
        scores = torch.matmul(query.float() * query.shape[-1] ** -0.5, key.transpose(-1, -2))  # (B, H, T, S)
        if mask is not None:
            scores += torch.zeros(mask.shape).masked_fill_(~mask, -torch.inf)
        return torch.matmul(scores.softmax(-1), value).to(query.dtype)
    if key.dtype != query.dtype:
        key, value = key.to(query.dtype), value.to(query.dtype)
    return F.scaled_dot_product_attention(query, key, value, attn_mask=mask, dropout_p=dropout, is_causal=causal)


class Source:
    """What the layers of a decoder attend to: keys and values of each layer, once for all hypotheses of a source."""

    def __init__(self, layers: list[Tensor], real: Tensor | None, packed: bool) -> None:
        self.layers = layers  # each (B, S, 2, H, K) if packed, for training; else (2, B, H, S, K)
        self.real = real  # (B, S) True = real; None: all of it
        self.packed = packed

    def keys_values(self, layer: int) -> tuple[Tensor, Tensor]:
        """Keys and values of a layer, each (B, H, S, K)."""
        held = self.layers[layer]
        key, value = held.permute(2, 0, 3, 1, 4).unbind(0) if self.packed else held.unbind(0)
        return key, value

    def select(self, inputs: Tensor) -> Source:
        """The same for a choice of sources; not for packed ones."""
        count = self.layers[0].shape[1]
        if len(inputs) == count and torch.equal(inputs, torch.arange(count, device=inputs.device)):
            return self
        real = None if self.real is None else self.real[inputs]
        return Source([layer.index_select(1, inputs) for layer in self.layers], real, False)


class CrossAttention(nn.Module):
    """Each position attends to all real positions of a source."""

    def __init__(self, hidden_size: int, num_heads: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.dropout = dropout
        self.query = Linear(hidden_size, hidden_size)
        self.key_value = Linear(hidden_size, 2 * hidden_size)
        self.output = Linear(hidden_size, hidden_size)

    def project(self, memory: Tensor, packed: bool) -> Tensor:
        """Keys and values of a source (B, S, D), in the layout that `Source` says."""
        B, S, D = memory.shape
        both: Tensor = self.key_value(memory).view(B, S, 2, self.num_heads, D // self.num_heads)
        if packed:
            return both
        both = both.permute(2, 0, 3, 1, 4)
        return both.float().contiguous() if both.device.type == "cpu" else both.contiguous()  # as `Cache` has them

    def forward(self, x: Tensor, layer: int, source: Source) -> Tensor:
        """(B, T, D) -> (B, T, D)."""
        B, T, D = x.shape
        query: Tensor = self.query(x).view(B, T, self.num_heads, D // self.num_heads)
        dropout = self.dropout if self.training else 0.0
        if source.packed:
            both = source.layers[layer]
            if _keeps_weights(query, dropout, T, both.shape[1]):
                attended = _CrossAttention.apply(query, both, source.real, dropout)  # type: ignore[no-untyped-call]
                joined: Tensor = self.output(attended)
                return joined
        key, value = source.keys_values(layer)
        mask = None if source.real is None else source.real[:, None, None]  # (B, 1, 1, S)
        attended = attend(query.transpose(1, 2), key, value, mask, dropout)
        joined = self.output(attended.transpose(1, 2).reshape(B, T, D))
        return joined

    def weights(self, x: Tensor, layer: int, source: Source) -> Tensor:
        """How much each position attends to each of the source, mean over the heads: (B, T, S), float32."""
        B, T, D = x.shape
        key, _ = source.keys_values(layer)
        query = self.query(x).view(B, T, self.num_heads, D // self.num_heads).transpose(1, 2).float()
        scores = query * key.shape[-1] ** -0.5 @ key.float().transpose(-1, -2)  # (B, H, T, S)
        if source.real is not None:
            scores.masked_fill_(~source.real[:, None, None], -torch.inf)
        mean: Tensor = scores.softmax(-1).mean(1)
        return mean


def _keeps_weights(packed: Tensor, dropout: float, T: int, S: int) -> bool:
    """Whether attention that keeps its weights is the faster way: in training on a CPU, with dropout or, if the weights
    are not many, where oneDNN makes the products.

    The compiler has ways of its own, and mistakes the strides of what is written in place there.
    """
    if packed.device.type != "cpu" or not packed.requires_grad or torch.compiler.is_compiling():
        return False
    heads = packed.shape[0] * packed.shape[-2]
    return dropout > 0.0 or (by_onednn(packed.dtype) and heads * T * S <= _MOST_WEIGHTS)


class _SelfAttention(torch.autograd.Function):
    """(B, T, 3, H, K) queries, keys and values -> (B, T, D); see `_attend`, and `_bias` for what is `allowed`."""

    @staticmethod
    def forward(ctx: Any, packed: Tensor, allowed: Tensor | None, p: float, causal: bool) -> Tensor:
        B, T, _, H, K = packed.shape
        # a copy even where a view would do, that of one sequence: q is changed in place
        own = packed.permute(2, 0, 3, 1, 4).clone(memory_format=torch.contiguous_format)
        q, k, v = own.view(3, B * H, T, K)
        bias = _bias(allowed, q.dtype)
        if causal:
            bias = bias + torch.full((T, T), -torch.inf, dtype=q.dtype).triu_(1)
        return _attend(ctx, q, k, v, bias, p, B)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor, None, None, None]:
        q = ctx.saved_tensors[0]
        B, T, D = grad_outputs[0].shape
        G, _, K = q.shape
        gradients = torch.empty(3, G, T, K, dtype=q.dtype)
        _attend_backward(ctx, grad_outputs[0], gradients[0], gradients[1], gradients[2])
        return gradients.view(3, B, D // K, T, K).permute(1, 3, 0, 2, 4).contiguous(), None, None, None


class _CrossAttention(torch.autograd.Function):
    """(B, T, H, K) queries, (B, S, 2, H, K) keys and values -> (B, T, D); see `_attend`, and `_bias` for what is `allowed`."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, key_value: Tensor, allowed: Tensor | None, p: float) -> Tensor:
        B, T, H, K = query.shape
        q = query.transpose(1, 2).reshape(B * H, T, K)
        if q.data_ptr() == query.data_ptr():
            q = q.clone()
        k, v = key_value.permute(2, 0, 3, 1, 4).reshape(2, B * H, -1, K)
        return _attend(ctx, q, k, v, _bias(allowed, q.dtype), p, B)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor, Tensor, None, None]:
        q, k = ctx.saved_tensors[:2]
        B, T, D = grad_outputs[0].shape
        G, S, K = k.shape
        dq, gradients = torch.empty_like(q), torch.empty(2, G, S, K, dtype=q.dtype)
        _attend_backward(ctx, grad_outputs[0], dq, gradients[0], gradients[1])
        d_query = dq.view(B, D // K, T, K).transpose(1, 2).contiguous()
        return d_query, gradients.view(2, B, D // K, S, K).permute(1, 3, 0, 2, 4).contiguous(), None, None


def _bias(allowed: Tensor | None, dtype: torch.dtype) -> Tensor:
    """What is added to the scores, -inf where nobody attends: nothing, or (B, 1, S) for keys (B, S) that are real, or
    (B, T, S) for an `allowed` of that shape."""
    if allowed is None:
        return torch.zeros((), dtype=dtype)
    bias = torch.zeros(allowed.shape, dtype=dtype).masked_fill_(~allowed, -torch.inf)
    return bias[:, None] if bias.dim() == 2 else bias


def _attend(ctx: Any, q: Tensor, k: Tensor, v: Tensor, bias: Tensor, p: float, B: int) -> Tensor:
    """Queries (G, T, K), used up, on keys and values (G, S, K) -> (B, T, D), with dropout `p` on the attention weights.
    `bias` (B or 1, T or 1, S), or one number, is added to the scores.

    The weights are kept for backward. A few heads at a time, so that the scores of a chunk never leave the processor's
    cache. PyTorch's kernel computes the weights again in backward, in products too small for the matrix units: forward
    and backward of 16 sequences of 256 with 6 heads of 64 take it 38 ms in bf16, this 22. In float32, which it leaves to
    MKL, training of 6 layers of that shape is 1.8 times as fast this way on a processor of AMD's.
    """
    (G, T, K), S = q.shape, k.shape[1]
    q.mul_(K**-0.5)
    kept, scale = keep_mask(torch.Size((G, T, S)), p) if p > 0.0 else (None, 1.0)
    by_head = torch.empty_like(q)
    weights = torch.empty(G, T, S, dtype=q.dtype)
    size = max(1, _CHUNK_SCORES // (T * S))
    rows = torch.arange(G) // (G // B)  # which sequence each head is of
    for start in range(0, G, size):
        g = slice(start, start + size)
        scores = torch.baddbmm(bias[rows[g]] if len(bias.shape) == 3 else bias, q[g], k[g].transpose(1, 2))
        torch.softmax(scores, -1, out=weights[g])
        dropped = weights[g] if kept is None else torch.mul(weights[g], as_factors(kept[g], q.dtype), out=scores)
        torch.bmm(dropped, v[g], out=by_head[g])
    out = torch.empty(B, T, G // B, K, dtype=q.dtype)
    torch.mul(by_head.view(B, G // B, T, K).transpose(1, 2), scale, out=out)
    ctx.save_for_backward(q, k, v, weights, kept)
    ctx.scale, ctx.size = scale, size
    return out.view(B, T, G // B * K)


def _attend_backward(ctx: Any, d_joined: Tensor, dq: Tensor, dk: Tensor, dv: Tensor) -> None:
    """Write the gradients of queries, keys and values, given (B, T, D) those of what `_attend` returned."""
    q, k, v, weights, kept = ctx.saved_tensors
    B, T, D = d_joined.shape
    G, _, K = q.shape
    d_out = d_joined.view(B, T, D // K, K).transpose(1, 2).reshape(G, T, K) * ctx.scale
    for start in range(0, G, ctx.size):
        g = slice(start, start + ctx.size)
        mask = None if kept is None else as_factors(kept[g], q.dtype)
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
