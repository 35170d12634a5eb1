"""Attention with scores that also depend on the distance between query and key.

Dai et al. 2019, "Transformer-XL" (arXiv:1901.02860), section 3.3 and appendix B. The score of a query at i and a key at j is
the product of the query with the key, plus the product of the query with a vector for the distance i - j. The second products
are computed for all distances, and each row has to be shifted. The rows are stored one after the other, so the shift is a view
of the same memory with rows that are one shorter: nothing is copied.
On a CPU, the weights are kept for backward, and a few heads are computed at a time, so that the scores stay in the processor's
cache. On other devices the shift is a copy, and PyTorch's fused kernel takes the shifted products as a bias.
Heads come first, (H, B, T, K): the products with distances are then one large product for each head.
Dimensions: m memory, T queries, S = m + T keys; H heads, B batch, K head size.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from nlptools.compute.kernels.context import FunctionContext
from nlptools.compute.kernels.dropout import as_factors, keep_mask

CHUNK_SCORES = 1 << 20  # scores computed at a time: they stay in the cache


def relative_attention(
    query_HBTK: Tensor,
    distance_query_HBTK: Tensor,
    key_HBSK: Tensor,
    value_HBSK: Tensor,
    distance_HSK: Tensor,
    mask: Tensor | None = None,
    dropout: float = 0.0,
) -> Tensor:
    """-> (H, B, T, K).

    Args:
        query_HBTK, distance_query_HBTK: the queries for keys, and for distances; scaled here by sqrt(1/K).
        distance_HSK: vectors of the distances S - 1, S - 2, ..., 0.
        mask: (T, S) or (B, T, S), True = attend; it leaves out all keys after the query, each row attends to something. None
            is for a single query, which attends to all keys.
        dropout: on the weights.
    """
    if query_HBTK.device.type == "cpu" and not torch.compiler.is_compiling():
        scale = query_HBTK.shape[-1] ** -0.5
        scaled = query_HBTK * scale, distance_query_HBTK * scale
        out: Tensor = _RelativeAttention.apply(*scaled, key_HBSK, value_HBSK, distance_HSK, mask, dropout)  # type: ignore[no-untyped-call]
        return out
    query, key, value = (x.transpose(0, 1) for x in (query_HBTK, key_HBSK, value_HBSK))
    bias = shifted(distance_query_HBTK @ distance_HSK[:, None].transpose(-1, -2)) * query.shape[-1] ** -0.5
    bias = bias.transpose(0, 1)  # (B, H, T, S)
    if mask is not None:
        bias = bias.masked_fill(~(mask if mask.dim() == 2 else mask[:, None]), -torch.inf)
    return F.scaled_dot_product_attention(query, key, value, attn_mask=bias, dropout_p=dropout).transpose(0, 1)


def shifted(products: Tensor) -> Tensor:
    """Products with the distances S - 1, ..., 0, (..., T, S) -> products by query i and key j, where j is not after i."""
    *rows, T, S = products.shape
    return F.pad(products, (1, 0)).view(*rows, S + 1, T)[..., 1:, :].reshape(products.shape)


class _RelativeAttention(torch.autograd.Function):
    """See `relative_attention`, with scaled queries."""

    @staticmethod
    def forward(
        ctx: FunctionContext,
        q: Tensor,
        d: Tensor,
        key: Tensor,
        value: Tensor,
        distance: Tensor,
        mask: Tensor | None,
        p: float,
    ) -> Tensor:
        (H, B, T, K), S = q.shape, key.shape[2]
        q, d, key, value, distance = (x.contiguous() for x in (q, d, key, value, distance))
        learns = any(ctx.needs_input_grad)
        bias = None if mask is None else torch.zeros(mask.shape, dtype=q.dtype).masked_fill_(~mask, -torch.inf)
        keep, scale = keep_mask(torch.Size((H, B, T, S)), p) if p > 0.0 else (None, 1.0)
        out = torch.empty_like(q)
        size = max(1, CHUNK_SCORES // max(1, B * T * S))
        weights = q.new_empty(H if learns else min(H, size), B, T, S)
        for start in range(0, H, size):
            h = slice(start, min(start + size, H))
            count = h.stop - h.start
            products = torch.bmm(d[h].view(count, B * T, K), distance[h].transpose(1, 2))
            scores = _by_key(products, (count, B, T, S)).contiguous()
            scores.view(-1, T, S).baddbmm_(q[h].view(-1, T, K), key[h].view(-1, S, K).transpose(1, 2))
            if bias is not None:
                scores += bias
            kept = weights[h] if learns else weights[:count]
            torch.softmax(scores, -1, out=kept)
            dropped = kept if keep is None else torch.mul(kept, as_factors(keep[h], q.dtype), out=scores)
            torch.bmm(dropped.view(-1, T, S), value[h].view(-1, S, K), out=out[h].view(-1, T, K))
        if learns:
            ctx.save_for_backward(q, d, key, value, distance, weights, keep)
            ctx.scale, ctx.size = scale, size
        return out.mul_(scale) if keep is not None else out

    @staticmethod
    def backward(ctx: FunctionContext, *grad_outputs: Tensor) -> tuple[Tensor | None, ...]:
        q, d, key, value, distance, weights, keep = ctx.saved_tensors
        (H, B, T, K), S = q.shape, key.shape[2]
        d_out = (grad_outputs[0] * ctx.scale).contiguous()
        dq, dd, d_key, d_value, d_distance = (torch.empty_like(x) for x in (q, d, key, value, distance))
        for start in range(0, H, ctx.size):
            h = slice(start, min(start + ctx.size, H))
            count = h.stop - h.start
            w, gradient = weights[h], d_out[h].view(-1, T, K)
            factors = None if keep is None else as_factors(keep[h], q.dtype)
            dropped = w if factors is None else w * factors
            torch.bmm(dropped.view(-1, T, S).transpose(1, 2), gradient, out=d_value[h].view(-1, S, K))
            d_weights = torch.bmm(gradient, value[h].view(-1, S, K).transpose(1, 2)).view(w.shape)
            if factors is not None:
                d_weights.mul_(factors)
            # softmax backward: w * (dw - sum(dw * w))
            d_scores = torch._softmax_backward_data(d_weights, w, -1, q.dtype)
            flat = d_scores.view(-1, T, S)
            torch.bmm(flat, key[h].view(-1, S, K), out=dq[h].view(-1, T, K))
            torch.bmm(flat.transpose(1, 2), q[h].view(-1, T, K), out=d_key[h].view(-1, S, K))
            d_products = _by_distance(d_scores)
            torch.bmm(d_products, distance[h], out=dd[h].view(count, B * T, K))
            torch.bmm(d_products.transpose(1, 2), d[h].view(count, B * T, K), out=d_distance[h])
        return dq, dd, d_key, d_value, d_distance, None, None


def _by_key(products: Tensor, shape: tuple[int, int, int, int]) -> Tensor:
    """Products with the distances S - 1, ..., 0, (h, B * T, S) contiguous -> a view by query i and key j.

    Query i and key j have the distance m + i - j, which is column T - 1 - i + j: place i * (S - 1) + T - 1 + j of the T rows
    of a sequence. Where j is after i the numbers belong to something else.
    """
    _, B, T, S = shape
    return products.as_strided(shape, (B * T * S, T * S, S - 1, 1), T - 1)


def _by_distance(scores: Tensor) -> Tensor:
    """The gradient of `_by_key`, (h, B, T, S) -> (h, B * T, S), where the one of keys after the query is 0."""
    h, B, T, S = scores.shape
    out = torch.zeros_like(scores)
    # the last key is before or at the last query only; without it, the places of rows do not overlap
    out.as_strided((h, B, T, S - 1), (B * T * S, T * S, S - 1, 1), T - 1).copy_(scores[..., :-1])
    out[..., -1, -1] = scores[..., -1, -1]
    return out.view(h, B * T, S)
