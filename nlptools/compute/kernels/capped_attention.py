"""Attention whose scores pass cap * tanh(score / cap) before the softmax, as in Gemma 2 (arXiv:2408.00118, section 2).

PyTorch's `scaled_dot_product_attention` has no such step. Scores are computed for some queries at a time, so that a long text
does not need the memory for all scores at once, except in training.
Shapes: B rows, H heads, T queries, S keys, K head size.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

MOST_SCORES = 1 << 24  # scores computed at a time


def capped(x: Tensor, cap: float) -> Tensor:
    """cap * tanh(x / cap); x itself for a cap of 0."""
    return torch.tanh(x / cap) * cap if cap else x


def capped_attention(
    query_BHTK: Tensor,
    key_BHSK: Tensor,
    value_BHSK: Tensor,
    cap: float,
    mask: Tensor | None = None,
    dropout: float = 0.0,
    causal: bool = False,
) -> Tensor:
    """-> (B, H, T, K), as `attention.attention`, for keys with as many heads as the queries and of the same type."""
    B, H, T, _ = query_BHTK.shape
    size = (
        T if torch.is_grad_enabled() and query_BHTK.requires_grad else MOST_SCORES // max(1, B * H * key_BHSK.shape[2])
    )
    parts = []
    for begin in range(0, T, max(1, size)):
        rows = slice(begin, begin + max(1, size))
        attend = mask if mask is None or mask.shape[2] == 1 else mask[:, :, rows]
        if causal:
            places = torch.arange(T, device=query_BHTK.device)
            attend = (places[rows, None] >= places)[None, None]
        weights = _weights(query_BHTK[:, :, rows], key_BHSK, cap, attend)
        parts.append((F.dropout(weights, dropout) if dropout else weights) @ value_BHSK)
    return parts[0] if len(parts) == 1 else torch.cat(parts, 2)


def _weights(query_BHTK: Tensor, key_BHSK: Tensor, cap: float, mask: Tensor | None) -> Tensor:
    scores = capped(query_BHTK * query_BHTK.shape[-1] ** -0.5 @ key_BHSK.transpose(-1, -2), cap)
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    return scores.softmax(-1, dtype=torch.float32).to(query_BHTK.dtype)
