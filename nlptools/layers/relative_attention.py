"""Self-attention with relative positions and a memory of earlier positions.

Dai et al. 2019, "Transformer-XL: attentive language models beyond a fixed-length context" (arXiv:1901.02860), section 3.
Dimensions: m positions in memory, S = m + T.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from nlptools.compute.kernels.relative_attention import relative_attention, shifted
from nlptools.layers.attention import Weighted
from nlptools.layers.linear import Linear


class RelativeAttention(nn.Module):
    """Each position attends to those before it, in memory and in the sequence, by content and by distance. No biases."""

    def __init__(self, hidden_size: int, num_heads: int, dropout: float = 0.0, causal: bool = True) -> None:
        """Raises ValueError unless `causal`."""
        super().__init__()
        if not causal:
            raise ValueError("relative attention sees earlier positions only")
        self.num_heads, self.head_size = num_heads, hidden_size // num_heads
        self.dropout = dropout
        self.query = Linear(hidden_size, hidden_size, bias=False)
        self.key_value = Linear(hidden_size, 2 * hidden_size, bias=False)
        self.distance = Linear(hidden_size, hidden_size, bias=False)
        self.output = Linear(hidden_size, hidden_size, bias=False)

    def keys_and_values(self, x: Tensor) -> Tensor:
        """(B, S, D) -> (2, H, B, S, K)."""
        return self._by_head(self.key_value(x), 2).contiguous()

    def distances(self, positions: Tensor) -> Tensor:
        """Encoded distances (S, D) -> their vectors (H, S, K)."""
        return self._by_head(self.distance(positions)[None], 1)[0, :, 0]

    def heads(
        self, x: Tensor, keys_values: Tensor, distances: Tensor, biases: tuple[Tensor, Tensor], mask: Tensor | None
    ) -> Tensor:
        """(B, T, D) -> (B, T, D), the heads side by side.

        Args:
            keys_values: of the memory and of x, (2, H, B, S, K).
            distances: (H, S, K), from the largest distance, S - 1, to 0.
            biases: u and v of the paper, (H, K): added to each query, for contents and for distances.
            mask: see `relative_attention`.
        """
        contents, places = self._queries(x, biases)
        p = self.dropout if self.training else 0.0
        out_HBTK = relative_attention(contents, places, keys_values[0], keys_values[1], distances, mask, p)
        return out_HBTK.permute(1, 2, 0, 3).reshape(x.shape)

    def weighted(
        self, x: Tensor, keys_values: Tensor, distances: Tensor, biases: tuple[Tensor, Tensor], mask: Tensor | None
    ) -> Weighted:
        """(B, T, D): the weights that `heads` applies without dropout. Arguments: see `heads`."""
        contents, places = (part.float() for part in self._queries(x, biases))
        scores_HBTS = contents @ keys_values[0].float().transpose(-1, -2)
        scores_HBTS += shifted(places @ distances[:, None].float().transpose(-1, -2))
        if mask is not None:
            scores_HBTS = scores_HBTS.masked_fill(~mask, -torch.inf)
        return Weighted(
            (scores_HBTS * self.head_size**-0.5).softmax(-1).transpose(0, 1), keys_values[1].transpose(0, 1)
        )

    def _queries(self, x: Tensor, biases: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        """(B, T, D) -> the queries (H, B, T, K) for contents and for distances."""
        query_HBTK = self._by_head(self.query(x), 1)[0]
        contents, places = biases
        return query_HBTK + contents[:, None, None], query_HBTK + places[:, None, None]

    def _by_head(self, x: Tensor, count: int) -> Tensor:
        """(B, T, count * D) -> (count, H, B, T, K)."""
        B, T, _ = x.shape
        return x.view(B, T, count, self.num_heads, self.head_size).permute(2, 3, 0, 1, 4)


def band(queries: int, keys: int, reach: int | None, device: torch.device) -> Tensor:
    """(T, S), True = attend, for queries at the end of the keys: each sees itself and the `reach` before it; None: all."""
    ahead = keys - queries
    mask = torch.ones(queries, keys, dtype=torch.bool, device=device).tril_(ahead)
    return mask if reach is None else mask.triu_(ahead - reach)
