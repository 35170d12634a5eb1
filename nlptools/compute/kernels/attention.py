"""Scaled dot-product attention of several heads on a CPU.

Vaswani et al. 2017, "Attention is all you need" (arXiv:1706.03762), equation 1: softmax(Q K^T / sqrt(K)) V for each head.
PyTorch's `scaled_dot_product_attention`, except in three cases:
* Training with dropout, where PyTorch leaves its fast kernel and draws a float per score; and training where oneDNN
  multiplies, because PyTorch's kernel computes the weights again in backward, in products too small for the matrix units.
  Here the weights are kept for backward, and a few heads are computed at a time, so that the scores of a chunk never leave
  the processor's cache. Forward and backward of 16 sequences of 256 with 6 heads of 64 in bf16: 38 ms by PyTorch, 22 here. In
  float32, which PyTorch leaves to MKL, 6 layers of that shape train 1.8 times as fast on an AMD processor.
* Inference with few queries (the steps of a beam search): plain products.
* Inference on short sequences of equal length without a mask, for encoders: plain products, and a softmax in one pass. Causal
  attention does not gain enough by it to give up that a sequence is computed alike in every batch, as PyTorch's kernel does.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from nlptools.compute.kernels.capped_attention import capped_attention
from nlptools.compute.kernels.context import FunctionContext
from nlptools.compute.kernels.dropout import as_factors, keep_mask
from nlptools.compute.kernels.linear import by_onednn
from nlptools.compute.processor import cpuinfo

CHUNK_SCORES = 1 << 20  # scores computed at a time: they stay in the cache
MOST_WEIGHTS = 1 << 25  # attention weights of one layer that are kept for backward, unless dropout needs them kept
FEW_QUERIES = 16  # of a sequence: up to here, plain products are faster than PyTorch's kernel
_LEAST_CHUNK = 128  # queries that read their neighborhood together
_SHORT = 128  # length of a sequence up to which plain products are faster than PyTorch's kernel
_LARGEST_SCORE = 60.0  # exp of this, summed over a sequence and multiplied, is far below what float32 and bf16 can hold


def self_attention(qkv_BT3HK: Tensor, mask: Tensor | None = None, dropout: float = 0.0, causal: bool = False) -> Tensor:
    """Queries, keys and values -> (B, T, D), the heads side by side, with `dropout` on the attention weights.

    `mask` (B, 1, 1 or T, T): True = attend; or numbers, as in `attention`. `causal`, without a mask: each position attends to
    itself and those before.
    """
    B, T, _, H, K = qkv_BT3HK.shape
    if (mask is None or mask.dtype == torch.bool) and _keeps_weights(qkv_BT3HK, dropout, T, T):
        out: Tensor = _SelfAttention.apply(qkv_BT3HK, mask, dropout, causal)  # type: ignore[no-untyped-call]
        return out
    query, key, value = qkv_BT3HK.permute(2, 0, 3, 1, 4).unbind(0)  # each (B, H, T, K)
    return attention(query, key, value, mask, dropout, causal).transpose(1, 2).reshape(B, T, H * K)


def cross_attention(
    query_BTHK: Tensor, key_value_BS2HK: Tensor, mask: Tensor | None = None, dropout: float = 0.0
) -> Tensor:
    """Queries of one sequence, keys and values of another -> (B, T, D), as `self_attention`. `mask` (B, 1, 1 or T, S)."""
    B, T, H, K = query_BTHK.shape
    if _keeps_weights(query_BTHK, dropout, T, key_value_BS2HK.shape[1]):
        out: Tensor = _CrossAttention.apply(query_BTHK, key_value_BS2HK, mask, dropout)  # type: ignore[no-untyped-call]
        return out
    key, value = key_value_BS2HK.permute(2, 0, 3, 1, 4).unbind(0)  # each (B, H, S, K)
    return attention(query_BTHK.transpose(1, 2), key, value, mask, dropout).transpose(1, 2).reshape(B, T, H * K)


def grouped_attention(
    query_BTHK: Tensor,
    key_BTGK: Tensor,
    value_BTGK: Tensor,
    mask: Tensor | None = None,
    dropout: float = 0.0,
    causal: bool = False,
    cap: float = 0.0,
) -> Tensor:
    """As `self_attention`, where each of G heads of keys and values serves H / G heads of queries in turn. `cap`: see
    `attention`.
    """
    B, T, H, K = query_BTHK.shape
    if not cap and _keeps_weights(query_BTHK, dropout, T, T):
        arguments = query_BTHK, key_BTGK, value_BTGK, mask, dropout, causal
        out: Tensor = _GroupedAttention.apply(*arguments)  # type: ignore[no-untyped-call]
        return out
    query, key, value = (each.transpose(1, 2) for each in (query_BTHK, key_BTGK, value_BTGK))
    return attention(query, key, value, mask, dropout, causal, cap).transpose(1, 2).reshape(B, T, H * K)


def attention(
    query_BHTK: Tensor,
    key_BGSK: Tensor,
    value_BGSK: Tensor,
    mask: Tensor | None = None,
    dropout: float = 0.0,
    causal: bool = False,
    cap: float = 0.0,
) -> Tensor:
    """-> (B, H, T, K), in the type of the queries; keys and values may have another one, and fewer heads (G).

    `mask` (B or 1, 1, 1 or T, S): True = attend; or numbers (B or 1, H, T, S) to add to the scaled products. `cap`: see
    `capped_attention`; 0: none, and needed with numbers.
    """
    query, key, value = query_BHTK, key_BGSK, value_BGSK
    B, H, T, K = query.shape
    G = key.shape[1]
    if G < H and T <= FEW_QUERIES and not causal and not dropout:  # heads of a group as more queries: nothing is copied
        if mask is not None and mask.shape[2] > 1:
            mask = mask.repeat(1, 1, H // G, 1)
        return attention(query.reshape(B, G, -1, K), key, value, mask, cap=cap).view(B, H, T, K)
    if G < H:
        key, value = (each.repeat_interleave(H // G, 1) for each in (key, value))
    if cap:
        return capped_attention(query, key.to(query.dtype), value.to(query.dtype), cap, mask, dropout, causal)
    few = T <= FEW_QUERIES and query.device.type == "cpu" and not query.requires_grad and not causal and not dropout
    if few and key.dtype == torch.float32:
        return _few_queries(query.float(), key, value, mask).to(query.dtype)
    if key.dtype != query.dtype:
        key, value = key.to(query.dtype), value.to(query.dtype)
    if mask is not None and mask.dtype != torch.bool:
        mask = mask.to(query.dtype)
    return F.scaled_dot_product_attention(query, key, value, attn_mask=mask, dropout_p=dropout, is_causal=causal)


def _few_queries(query_BHTK: Tensor, key_BHSK: Tensor, value_BHSK: Tensor, mask: Tensor | None) -> Tensor:
    """-> (B, H, T, K), all in float32; see `attention`."""
    B, H, _, K = query_BHTK.shape
    if B * H == 1:  # threads share the product of a single head, which changes its last digits: it is computed as two
        query, key, value = (each.expand(2, -1, -1, -1) for each in (query_BHTK, key_BHSK, value_BHSK))
        return _few_queries(query, key, value, mask)[:1]
    if mask is None:  # as below; `matmul` would be three operations more in each product
        query, key, value = (each.flatten(0, 1) for each in (query_BHTK * K**-0.5, key_BHSK, value_BHSK))
        return torch.bmm(torch.bmm(query, key.transpose(1, 2)).softmax(-1), value).view(
            *query_BHTK.shape[:3], value.shape[-1]
        )
    scores_BHTS = torch.matmul(query_BHTK * K**-0.5, key_BHSK.transpose(-1, -2))
    scores_BHTS += _bias(mask, torch.float32)[:, None] if mask.dtype == torch.bool else mask
    return torch.matmul(scores_BHTS.softmax(-1), value_BHSK)


def type_of_kept_keys(device: torch.device) -> torch.dtype | None:
    """The type in which decoding keeps keys and values; None: as they come.

    For one query, PyTorch's kernel takes up to 4 times as long in bf16 as in float32 where a processor has no units for
    matrices: 12 heads of 64 and 1,000 keys on two cores of an AMD EPYC 0.80 ms and 0.25, 64 sequences of 100 5.3 and 3.0.
    """
    return torch.float32 if device.type == "cpu" and "amx_bf16" not in cpuinfo("flags").split() else None


def unmasked_attention(qkv_BT3HK: Tensor, out_BTHK: Tensor, added_BHTT: Tensor | None = None) -> None:
    """Write to `out_BTHK` what each position reads from all of its sequence. For inference. `added_BHTT` (B or 1, H, T, T) is
    added to the scaled products of queries and keys.

    PyTorch's kernel handles each head of each sequence on its own, and its softmax is slow for short rows: it takes 5.2 ms
    in bf16 for 80 sequences of 25 with 12 heads of 32, this 2.6. Exponents are computed in one pass over memory, without
    subtracting the largest score of each row first; where scores are too large for that, PyTorch's kernel is used.
    """
    B, T, _, H, K = qkv_BT3HK.shape
    query, key, value = (part.transpose(1, 2) for part in qkv_BT3HK.unbind(2))  # each (B, H, T, K)
    if qkv_BT3HK.device.type == "cpu" and T <= _SHORT:
        qkv = qkv_BT3HK.new_empty(3, B, H, T, K)
        torch.mul(query, K**-0.5, out=qkv[0])
        qkv[1].copy_(key)
        qkv[2].copy_(value)
        q, k, v = qkv.view(3, B * H, T, K)
        weights_GTT = _exponentials(q, k, added_BHTT)
        if weights_GTT is not None:
            total = weights_GTT.view(-1, T) @ weights_GTT.new_ones(T, 1)
            by_head = torch.bmm(weights_GTT, v).view(B, H, T, K)
            torch.div(by_head.transpose(1, 2), total.view(B, H, T, 1).transpose(1, 2), out=out_BTHK)
            return
    out_BTHK.copy_(F.scaled_dot_product_attention(query, key, value, attn_mask=added_BHTT).transpose(1, 2))


def near_attention(qkv_BT3HK: Tensor, out_BTHK: Tensor, window: int) -> None:
    """As `unmasked_attention`, for keys at most `window` places away.

    Long sequences are read in chunks of queries, each with the keys that it can reach.
    """
    B, T, _, H, K = qkv_BT3HK.shape
    query, key, value = (part.transpose(1, 2) for part in qkv_BT3HK.unbind(2))  # each (B, H, T, K)
    places = torch.arange(T, device=query.device)
    if 4 * window >= T:
        mask = (places - places[:, None]).abs() <= window
        out_BTHK.copy_(F.scaled_dot_product_attention(query, key, value, attn_mask=mask).transpose(1, 2))
        return
    size = max(_LEAST_CHUNK, 2 * window)
    chunks = -(-T // size)
    end = chunks * size - T
    q = F.pad(query, (0, 0, 0, end)).reshape(B * H, chunks, size, K)
    k, v = (
        F.pad(part, (0, 0, window, end + window)).unfold(2, size + 2 * window, size).transpose(3, 4)
        for part in (key, value)
    )  # (B, H, chunks, size + 2 * window, K)
    own = torch.arange(size, device=query.device)[:, None]
    reached = torch.arange(-window, size + window, device=query.device)
    at = reached + size * torch.arange(chunks, device=query.device)[:, None, None]
    mask = (
        ((reached - own).abs() <= window) & (at >= 0) & ((at < T) | (reached == own))
    )  # queries beyond the end see themselves
    heads = F.scaled_dot_product_attention(q, k.reshape(B * H, *k.shape[2:]), v.reshape(B * H, *v.shape[2:]), mask)
    out_BTHK.copy_(heads.reshape(B, H, chunks * size, K)[:, :, :T].transpose(1, 2))


def _exponentials(q_GTK: Tensor, k_GSK: Tensor, added_BHTT: Tensor | None) -> Tensor | None:
    """exp of the products of queries and keys, (G, T, S); None where one is too large for that."""
    scores_GTS = torch.bmm(q_GTK, k_GSK.transpose(1, 2))
    if added_BHTT is not None:
        scores_GTS.view(-1, *added_BHTT.shape[1:]).add_(added_BHTT)
    low, high = torch.aminmax(scores_GTS)
    small = float(high) < _LARGEST_SCORE and float(low) > -_LARGEST_SCORE
    return scores_GTS.exp_() if small else None


def _keeps_weights(query: Tensor, dropout: float, T: int, S: int) -> bool:
    """Whether attention that keeps its weights for backward is faster for queries (B, ..., H, K).

    So it is in training on a CPU with dropout, or where oneDNN multiplies and the weights are not too many. Not inside
    `torch.compile`, which computes wrong strides for what is written in place.
    """
    if query.device.type != "cpu" or not query.requires_grad or torch.compiler.is_compiling():
        return False
    heads = query.shape[0] * query.shape[-2]
    return dropout > 0.0 or (by_onednn(query.dtype) and heads * T * S <= MOST_WEIGHTS)


class _SelfAttention(torch.autograd.Function):
    """See `self_attention`."""

    @staticmethod
    def forward(ctx: FunctionContext, qkv_BT3HK: Tensor, mask: Tensor | None, p: float, causal: bool) -> Tensor:
        B, T, _, H, K = qkv_BT3HK.shape
        # a copy even where a view is possible, as for a single sequence: q is scaled in place
        qkv = qkv_BT3HK.permute(2, 0, 3, 1, 4).clone(memory_format=torch.contiguous_format)
        bias = _causal_bias(T, qkv.dtype) if causal else _bias(mask, qkv.dtype)
        q, k, v = qkv.view(3, B * H, T, K)
        return _forward(ctx, q, k, v, bias, p, B)

    @staticmethod
    def backward(ctx: FunctionContext, *grad_outputs: Tensor) -> tuple[Tensor, None, None, None]:
        saved = ctx.saved_tensors  # read once: a second access fails under activation checkpoints
        B, T, D = grad_outputs[0].shape
        q = saved[0]
        G, _, K = q.shape
        gradients = torch.empty(3, G, T, K, dtype=q.dtype)
        _backward(ctx, saved, grad_outputs[0], gradients[0], gradients[1], gradients[2])
        return gradients.view(3, B, D // K, T, K).permute(1, 3, 0, 2, 4).contiguous(), None, None, None


class _CrossAttention(torch.autograd.Function):
    """See `cross_attention`."""

    @staticmethod
    def forward(
        ctx: FunctionContext, query_BTHK: Tensor, key_value_BS2HK: Tensor, mask: Tensor | None, p: float
    ) -> Tensor:
        B, T, H, K = query_BTHK.shape
        q = query_BTHK.transpose(1, 2).reshape(B * H, T, K)
        if q.data_ptr() == query_BTHK.data_ptr():
            q = q.clone()
        k, v = key_value_BS2HK.permute(2, 0, 3, 1, 4).reshape(2, B * H, -1, K)
        return _forward(ctx, q, k, v, _bias(mask, q.dtype), p, B)

    @staticmethod
    def backward(ctx: FunctionContext, *grad_outputs: Tensor) -> tuple[Tensor, Tensor, None, None]:
        saved = ctx.saved_tensors
        q, k = saved[:2]
        B, T, D = grad_outputs[0].shape
        G, S, K = k.shape
        dq, gradients = torch.empty_like(q), torch.empty(2, G, S, K, dtype=q.dtype)
        _backward(ctx, saved, grad_outputs[0], dq, gradients[0], gradients[1])
        d_query = dq.view(B, D // K, T, K).transpose(1, 2).contiguous()
        return d_query, gradients.view(2, B, D // K, S, K).permute(1, 3, 0, 2, 4).contiguous(), None, None


class _GroupedAttention(torch.autograd.Function):
    """See `grouped_attention`. The heads of a group are computed as one head of H / G times as many queries."""

    @staticmethod
    def forward(
        ctx: FunctionContext,
        query_BTHK: Tensor,
        key_BTGK: Tensor,
        value_BTGK: Tensor,
        mask: Tensor | None,
        p: float,
        causal: bool,
    ) -> Tensor:
        (B, T, H, K), G = query_BTHK.shape, key_BTGK.shape[2]
        ctx.shape = B, T, G, H // G, K
        q = query_BTHK.transpose(1, 2).clone(memory_format=torch.contiguous_format).view(B * G, -1, K)
        k, v = (x.transpose(1, 2).reshape(B * G, T, K) for x in (key_BTGK, value_BTGK))
        bias = _causal_bias(T, q.dtype) if causal else _bias(mask, q.dtype)
        if bias.dim() > 1 and bias.shape[-2] > 1:
            bias = bias.repeat(*[1] * (bias.dim() - 2), H // G, 1)
        heads = _forward(ctx, q, k, v, bias, p, B)  # (B, H / G * T, G * K)
        return heads.view(B, H // G, T, G, K).permute(0, 2, 3, 1, 4).reshape(B, T, H * K)

    @staticmethod
    def backward(ctx: FunctionContext, *grad_outputs: Tensor) -> tuple[Tensor, Tensor, Tensor, None, None, None]:
        B, T, G, R, K = ctx.shape
        saved = ctx.saved_tensors
        q, k = saved[:2]
        d_heads = grad_outputs[0].view(B, T, G, R, K).permute(0, 3, 1, 2, 4).reshape(B, R * T, G * K)
        dq, dk, dv = torch.empty_like(q), torch.empty_like(k), torch.empty_like(k)
        _backward(ctx, saved, d_heads, dq, dk, dv)
        d_key, d_value = (x.view(B, G, T, K).transpose(1, 2) for x in (dk, dv))
        return dq.view(B, G * R, T, K).transpose(1, 2), d_key, d_value, None, None, None


def _causal_bias(T: int, dtype: torch.dtype) -> Tensor:
    """(T, T) summands of the scores with which no position attends to later ones."""
    return torch.full((T, T), -torch.inf, dtype=dtype).triu_(1)


def _bias(mask: Tensor | None, dtype: torch.dtype) -> Tensor:
    """(B, 1 or T, S) summands of the scores for a mask (B, 1, 1 or T, S): -inf where it is False, else 0."""
    if mask is None:
        return torch.zeros((), dtype=dtype)
    return torch.zeros(mask.shape, dtype=dtype).masked_fill_(~mask, -torch.inf).squeeze(1)


def _forward(ctx: FunctionContext, q: Tensor, k: Tensor, v: Tensor, bias: Tensor, p: float, B: int) -> Tensor:
    """Queries (G, T, K), overwritten, on keys and values (G, S, K) -> (B, T, D), with dropout `p` on the weights.

    `bias` is added to the scores: (B, 1 or T, S) or (T, S), or one number.
    """
    (G, T, K), S = q.shape, k.shape[1]
    q.mul_(K**-0.5)
    keep, scale = keep_mask(torch.Size((G, T, S)), p) if p > 0.0 else (None, 1.0)
    heads_GTK = torch.empty_like(q)
    weights_GTS = torch.empty(G, T, S, dtype=q.dtype)
    size = max(1, CHUNK_SCORES // (T * S))
    rows = torch.arange(G) // (G // B)  # the sequence that each head belongs to
    for start in range(0, G, size):
        g = slice(start, start + size)
        scores = torch.baddbmm(bias[rows[g]] if bias.dim() == 3 and len(bias) > 1 else bias, q[g], k[g].transpose(1, 2))
        torch.softmax(scores, -1, out=weights_GTS[g])
        dropped = (
            weights_GTS[g] if keep is None else torch.mul(weights_GTS[g], as_factors(keep[g], q.dtype), out=scores)
        )
        torch.bmm(dropped, v[g], out=heads_GTK[g])
    out = torch.empty(B, T, G // B, K, dtype=q.dtype)
    torch.mul(heads_GTK.view(B, G // B, T, K).transpose(1, 2), scale, out=out)
    ctx.save_for_backward(q, k, v, weights_GTS, keep)
    ctx.scale, ctx.size = scale, size
    return out.view(B, T, G // B * K)


def _backward(
    ctx: FunctionContext, saved: tuple[Tensor, ...], d_out_BTD: Tensor, dq: Tensor, dk: Tensor, dv: Tensor
) -> None:
    """Write the gradients of queries, keys and values, from what `_forward` saved and the gradient of its result."""
    q, k, v, weights_GTS, keep = saved
    B, T, D = d_out_BTD.shape
    G, _, K = q.shape
    d_heads_GTK = d_out_BTD.view(B, T, D // K, K).transpose(1, 2).reshape(G, T, K) * ctx.scale
    for start in range(0, G, ctx.size):
        g = slice(start, start + ctx.size)
        factors = None if keep is None else as_factors(keep[g], q.dtype)
        dropped = weights_GTS[g] if factors is None else weights_GTS[g] * factors
        torch.bmm(dropped.transpose(1, 2), d_heads_GTK[g], out=dv[g])
        d_weights = torch.bmm(d_heads_GTK[g], v[g].transpose(1, 2))
        if factors is not None:
            d_weights.mul_(factors)
        # softmax backward: w * (dw - sum(dw * w))
        d_scores = torch._softmax_backward_data(d_weights, weights_GTS[g], -1, q.dtype)
        torch.bmm(d_scores, k[g], out=dq[g])
        torch.bmm(d_scores.transpose(1, 2), q[g], out=dk[g])
    dq.mul_(K**-0.5)
