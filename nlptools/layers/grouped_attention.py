"""Self-attention in which groups of heads share their keys and values.

Ainslie et al. 2023, "GQA" (arXiv:2305.13245); with one group, multi-query attention (Shazeer 2019, arXiv:1911.02150). The cache
of a decoder holds the shared keys and values only. As in LLaMA, Qwen2 and Qwen3: the size of a head need not be D / H, biases
are optional, and each query and key may pass a norm (Henry et al. 2020, arXiv:2010.04245; here RMSNorm with a gain per
dimension). The norm of OLMo 2 covers all heads together. Gemma 2 scales queries by a number other than the size of a head, and
caps the scores.
Shapes: as in `layers`, and G groups, the heads of keys and values.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from nlptools.compute.kernels.attention import grouped_attention
from nlptools.compute.kernels.ragged_attention import Ragged
from nlptools.layers.attention import Mask, Weighted, cached_heads, past_mask, weights
from nlptools.layers.cache import KeyValues
from nlptools.layers.linear import Linear
from nlptools.layers.norms import NORMS
from nlptools.layers.positions import Turn


class GroupedQueryAttention(nn.Module):
    """Each position attends to itself and those before it (`causal`), or to all."""

    def __init__(
        self,
        hidden_size: int,
        num_heads: int,
        dropout: float = 0.0,
        causal: bool = True,
        *,
        key_value_heads: int = 0,
        head_size: int = 0,
        bias: bool = False,
        output_bias: bool = False,
        norm_eps: float | None = None,
        norm: str = "rms",
        joint_norms: bool = False,
        query_scale: float = 1.0,
        cap: float = 0.0,
    ) -> None:
        """
        Args:
            key_value_heads: G, a divisor of `num_heads`; 0: as many.
            head_size: 0: hidden_size / num_heads.
            bias: whether queries, keys and values have one.
            norm_eps: of the norms of queries and keys; None: there are none.
            norm: of queries and keys, a name in `norms.NORMS`.
            joint_norms: whether a norm sees the queries, or the keys, of all heads as one vector.
            query_scale: a factor of queries, besides 1 / sqrt(head_size).
            cap: of scores, see `compute.kernels.capped_attention`; 0: none.
        """
        super().__init__()
        self.num_heads, self.key_value_heads = num_heads, key_value_heads or num_heads
        self.head_size = head_size or hidden_size // num_heads
        self.dropout, self.causal = dropout, causal
        rows = (num_heads + 2 * self.key_value_heads) * self.head_size
        self.query_key_value = Linear(hidden_size, rows, bias=bias)
        self.output = Linear(num_heads * self.head_size, hidden_size, bias=output_bias)
        self.query_norm = self.key_norm = None
        self.joint_norms, self.query_scale, self.cap = joint_norms, query_scale, cap
        if norm_eps is not None:
            query_heads, key_heads = (num_heads, self.key_value_heads) if joint_norms else (1, 1)
            self.query_norm = NORMS[norm](query_heads * self.head_size, norm_eps)
            self.key_norm = NORMS[norm](key_heads * self.head_size, norm_eps)

    def forward(self, x: Tensor, cache: KeyValues | None = None, mask: Mask | None = None) -> Tensor:
        """(B, T, D) -> (B, T, D); see `heads`."""
        return self.output(self.heads(x, cache, mask))

    def heads(
        self, x: Tensor, cache: KeyValues | None = None, mask: Mask | None = None, turn: Turn | None = None
    ) -> Tensor:
        """(B, T, D) -> (B, T, H * K); see `attention.SelfAttention.heads`."""
        query, key, value = self._projected(x, turn)
        dropout = self.dropout if self.training else 0.0
        causal = self.causal and mask is None and x.shape[1] > 1
        if cache is None:
            assert not isinstance(mask, Ragged)
            return grouped_attention(query, key, value, mask, dropout, causal, self.cap)
        query, key, value = (each.transpose(1, 2) for each in (query, key, value))  # (B, H or G, T, K)
        return cached_heads(query, key, value, cache, mask, dropout, causal, self.cap)

    def weighted(self, x: Tensor, mask: Tensor | None = None, turn: Turn | None = None) -> Weighted:
        """(B, T, D): see `attention.SelfAttention.weighted`; keys and values are repeated for the heads of their group."""
        query, key, value = (each.transpose(1, 2) for each in self._projected(x, turn))
        key, value = (each.repeat_interleave(self.num_heads // self.key_value_heads, 1) for each in (key, value))
        mask = past_mask(x) if mask is None and self.causal else mask
        return Weighted(weights(query.float(), key.float(), mask, cap=self.cap), value)

    def _projected(self, x: Tensor, turn: Turn | None) -> tuple[Tensor, Tensor, Tensor]:
        """(B, T, D) -> queries (B, T, H, K), and keys and values (B, T, G, K)."""
        H, G = self.num_heads, self.key_value_heads
        projected = self.query_key_value(x).view(*x.shape[:2], H + 2 * G, self.head_size)
        query_key, value = projected.split_with_sizes([H + G, G], 2)
        if self.query_norm is not None and self.key_norm is not None:
            query, key = query_key.split_with_sizes([H, G], 2)
            if self.joint_norms:
                query, key = query.flatten(2), key.flatten(2)
            normed = (self.query_norm(query), self.key_norm(key))
            query_key = torch.cat([each.view(*x.shape[:2], -1, self.head_size) for each in normed], 2)
        if turn is not None:
            query_key = turn(query_key.unsqueeze(2)).squeeze(2)
        query, key = query_key.split_with_sizes([H, G], 2)
        return query if self.query_scale == 1.0 else query * self.query_scale, key, value
