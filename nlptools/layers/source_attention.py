"""Attention of a recurrent decoder to its source, and a context without attention.

Additive: Bahdanau, Cho & Bengio 2015 (arXiv:1409.0473). General: Luong, Pham & Manning 2015 (arXiv:1508.04025).
The projection of the source is computed once and used by all steps. Hypotheses of one source attend to the same rows:
B sources serve B * W queries.
Dimensions: W hypotheses of each source, N queries of each source, C size of the source, A of its projection.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from nlptools.compute.kernels.additive_scores import AdditiveScores
from nlptools.layers.linear import Linear


class SourceAttention(nn.Module):
    """Parameters of attention by `kind`, "bahdanau" (additive) or "luong" (general); queries have size D."""

    def __init__(self, kind: str, query_size: int, source_size: int) -> None:
        super().__init__()
        self.keys = Linear(source_size, query_size, bias=False)
        self.query = Linear(query_size, query_size, bias=False) if kind == "bahdanau" else None
        self.energy = nn.Parameter(torch.empty(query_size)) if kind == "bahdanau" else None


class AttentionSteps:
    """Attention to one batch of sources in a loop: `source` (B, S, C), `keys` (B, S, A), `mask` (B, S) or None."""

    def __init__(self, module: SourceAttention, source: Tensor, keys: Tensor, mask: Tensor | None) -> None:
        self.query = module.query
        self.energy = None if module.energy is None else AdditiveScores(keys, module.energy)
        self.keys_BAS, self.source = keys.transpose(1, 2), source
        self.padding = None if mask is None else ~mask[:, None]  # (B, 1, S)

    def __call__(self, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """(B * N, D), the rows of a source together -> contexts (B * N, C), and weights (B * N, S) that sum to 1, in float32
        at least.
        """
        B = self.source.shape[0]
        if self.query is not None:
            hidden = self.query(hidden)
        queries_BNA = hidden.view(B, -1, hidden.shape[-1])
        scores_BNS = queries_BNA @ self.keys_BAS if self.energy is None else self.energy(queries_BNA)
        if self.padding is not None:
            scores_BNS = scores_BNS.masked_fill(self.padding, -torch.inf)
        weights_BNS = scores_BNS.softmax(-1, dtype=torch.promote_types(scores_BNS.dtype, torch.float32))
        return (weights_BNS.to(scores_BNS.dtype) @ self.source).flatten(0, 1), weights_BNS.flatten(0, 1)


class FixedContext:
    """The context where there is no attention: one vector of each source, (B, C), at every step."""

    def __init__(self, vectors: Tensor) -> None:
        self.vectors = vectors

    def of(self, rows: int) -> Tensor:
        """(rows, C), the rows of a source together."""
        return self.vectors.repeat_interleave(rows // len(self.vectors), 0)

    def __call__(self, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """(B * N, D) -> contexts (B * N, C), and (B * N, 1): all weight is on the one vector."""
        return self.of(len(hidden)), hidden.new_ones(len(hidden), 1)
