"""The objective of the task similarity: vectors of the texts of a batch, and their loss.

With `chunk_size`, the vectors are computed in chunks, and their activations are dropped; the backward pass computes them again, a
chunk at a time, with the same dropout. The loss sees all vectors, so that its gradient equals the gradient of the whole batch:
Gao et al. 2021, "Scaling deep contrastive learning batch size under memory limited setup" (arXiv:2101.06983).
Shapes: R rows of a batch, T length, D dimensions, N examples.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from nlptools.batches.features import FeatureBatch
from nlptools.inference.embedding.sentence_steps import Dense
from nlptools.models.tasks.heads import EncoderWithHeads
from nlptools.training.objective import Objective
from nlptools.training.similarity import losses

ANCHOR, POSITIVE, NEGATIVE = range(3)  # the roles of texts in an example


@dataclass(frozen=True)
class SimilaritySettings:
    """The settings of the loss.

    Attributes:
        pooling: names in `pooling.POOLINGS`.
        scale, symmetric: see `losses.ranking`.
        dimensions: see `losses.over_dimensions`.
        chunk: rows that are computed at a time, 0: all.
        scores: the lowest and the highest score, which stand for the cosines 0 and 1; None: scores are cosines.
        dense: layers after the pooling, which are not trained.
    """

    pooling: tuple[str, ...] = ("mean",)
    scale: float = 20.0
    symmetric: bool = False
    dimensions: tuple[int, ...] = ()
    chunk: int = 0
    scores: tuple[float, float] | None = None
    dense: tuple[Dense, ...] = ()

    def cosines(self, scores: Tensor) -> Tensor:
        """The cosines that scores (N,) stand for."""
        if self.scores is None:
            return scores
        low, high = self.scores
        return (scores - low) / (high - low)


class SimilarityLoss(Objective[EncoderWithHeads]):
    """See the module's docstring."""

    def __init__(self, model: EncoderWithHeads, settings: SimilaritySettings) -> None:
        super().__init__(model)
        self.settings = settings

    def counts(self, batch: FeatureBatch) -> dict[str, float]:
        """The number of examples."""
        return {"loss": batch.weight}

    def arrays(self, batch: FeatureBatch) -> tuple[np.ndarray, ...]:
        """The arguments of `forward`, to be put on the device."""
        return (*batch.inputs, *batch.targets)

    def forward(
        self, ids: Tensor, mask: Tensor, types: Tensor, text: Tensor, role: Tensor, weight: Tensor, *scores: Tensor
    ) -> dict[str, Tensor]:
        """(R, T) rows; (R,) the number of each text, its role, its weight (of an anchor: of its example; else 0) and, of pairs
        with scores, the score of its example -> the sum of the losses.
        """
        loss = partial(self.losses, text=text, role=role, scores=scores[0] if scores else None)
        each = losses.over_dimensions(loss, self.vectors(ids, mask, types), self.settings.dimensions)
        return {"loss": (each * weight[role == ANCHOR]).sum()}

    def losses(self, vectors: Tensor, text: Tensor, role: Tensor, scores: Tensor | None) -> Tensor:
        """(N,) from vectors (R, D) of texts; for the rest see `forward`."""
        anchor, positive = role == ANCHOR, role == POSITIVE
        if scores is not None:
            return losses.cosine(vectors[anchor], vectors[positive], self.settings.cosines(scores[anchor]))
        candidates = torch.cat([positive.nonzero(), (role == NEGATIVE).nonzero()]).squeeze(1)
        left_out = text[positive][:, None] == text[candidates]
        turned = text[anchor][:, None] == text[anchor] if self.settings.symmetric else None
        return losses.ranking(vectors[anchor], vectors[candidates], left_out, self.settings.scale, turned)

    def vectors(self, ids: Tensor, mask: Tensor, types: Tensor) -> Tensor:
        """(R, D), float32, of rows (R, T); chunks have rows of similar length."""
        if not self.settings.chunk or not torch.is_grad_enabled():
            return self._pooled(ids, mask, types)
        lengths = mask.sum(1)
        order, parts = lengths.argsort(stable=True), []
        for rows in torch.split(order, self.settings.chunk):
            longest = int(lengths[rows[-1]])
            inputs = [array[rows, :longest] for array in (ids, mask, types)]
            parts.append(checkpoint(self._pooled, *inputs, use_reentrant=False))
        return torch.cat(parts)[order.argsort()]

    def _pooled(self, ids: Tensor, mask: Tensor, types: Tensor) -> Tensor:
        """(B, T) -> (B, D)."""
        vectors = self.model.pooled(ids, mask, types, self.settings.pooling)
        for dense in self.settings.dense:
            vectors = dense(vectors)
        return vectors
