"""Dropout (Srivastava et al. 2014), and its forms for sequences."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F

from nlptools.compute.kernels.dropout import dropout
from nlptools.layers.direct import Direct


class Dropout(Direct, nn.Module):
    """During training, set each element to zero with probability `p` and scale the others by 1 / (1 - p)."""

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    @property
    def active(self) -> bool:
        """Whether elements are dropped now."""
        return self.training and self.p > 0.0

    def forward(self, x: Tensor) -> Tensor:
        return dropout(x, self.p) if self.active else x

    def add(self, residual: Tensor, x: Tensor) -> Tensor:
        """`residual` plus dropout of `x`, in one pass over memory."""
        return dropout(x, self.p, residual) if self.active else residual + x

    def extra_repr(self) -> str:
        return f"p={self.p}"


class LockedDropout(Dropout):
    """Dropout of the same elements at all steps of a sequence (Gal & Ghahramani 2016, arXiv:1512.05287)."""

    def __init__(self, p: float, steps: int = 0) -> None:
        """`steps`: the dimension of the steps."""
        super().__init__(p)
        self.steps = steps

    def forward(self, x: Tensor) -> Tensor:
        """(T, B, D) -> (T, B, D), or with other `steps` (B, T, D) -> (B, T, D)."""
        shape = [1 if i == self.steps else size for i, size in enumerate(x.shape)]
        return x * dropout(x.new_ones(shape), self.p) if self.active else x


class WordDropout(Dropout):
    """Dropout of whole words: all occurrences of a token in a batch have the embedding zero (Gal & Ghahramani 2016)."""

    def embed(self, ids: Tensor, embedding: nn.Embedding) -> Tensor:
        """The embeddings of `ids`, (...) -> (..., E)."""
        x: Tensor = embedding(ids)
        if not self.active:
            return x
        kept = dropout(x.new_ones(embedding.num_embeddings, 1), self.p)
        return x * F.embedding(ids, kept)
