"""Losses of sentence vectors.

`ranking`: Henderson et al. 2017 (arXiv:1705.00652), section 4.4; with cosines times a scale, as in sentence-transformers'
MultipleNegativesRankingLoss (default 20). `cosine`: Reimers & Gurevych 2019 (arXiv:1908.10084), section 3.
`over_dimensions`: Kusupati et al. 2022 (arXiv:2205.13147).
Departure: a text that equals the right one is no negative.
Shapes: N examples, M candidates, D dimensions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn import functional as F


def ranking(
    anchors_ND: Tensor, candidates_MD: Tensor, left_out_NM: Tensor, scale: float, turned_NN: Tensor | None = None
) -> Tensor:
    """(N,) cross-entropy of the right candidate among all of them; candidate i is right for anchor i.

    Args:
        left_out_NM: candidates that are no negatives of an anchor; the right ones do not count.
        turned_NN: the same of anchors for each of the first N candidates. Each then also looks for its anchor, and the loss
            is the mean of both directions. None: one direction.
    """
    count = len(anchors_ND)
    scores_NM = scale * F.normalize(anchors_ND, dim=1) @ F.normalize(candidates_MD, dim=1).T
    right = torch.arange(count, device=scores_NM.device)
    forth = F.cross_entropy(_without(scores_NM, left_out_NM), right, reduction="none")
    if turned_NN is None:
        return forth
    back = F.cross_entropy(_without(scores_NM[:, :count].T, turned_NN), right, reduction="none")
    return (forth + back) / 2


def _without(scores_NM: Tensor, left_out_NM: Tensor) -> Tensor:
    """The scores with -infinity where a candidate is left out, except the right one."""
    right = torch.eye(*scores_NM.shape, dtype=torch.bool, device=scores_NM.device)
    return scores_NM.masked_fill(left_out_NM & ~right, -torch.inf)


def cosine(first_ND: Tensor, second_ND: Tensor, wanted_N: Tensor) -> Tensor:
    """(N,) squared differences of the cosines and the wanted ones."""
    return (F.cosine_similarity(first_ND, second_ND) - wanted_N).square()


def over_dimensions(loss: Callable[[Tensor], Tensor], vectors: Tensor, dimensions: Sequence[int]) -> Tensor:
    """The sum of the losses of the first dimensions of `vectors` (R, D); of the whole vectors without `dimensions`."""
    if not dimensions:
        return loss(vectors)
    return torch.stack([loss(vectors[:, :each]) for each in dimensions]).sum(0)
