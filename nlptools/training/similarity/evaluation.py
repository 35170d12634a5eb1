"""Measures of sentence vectors on held-out examples.

Shapes: N examples, R rows, M different candidates, D dimensions.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch.nn import functional as F

from nlptools.batches.features import Features
from nlptools.compute.backend import Backend
from nlptools.metrics import correlation
from nlptools.training.similarity.objective import ANCHOR, POSITIVE, SimilarityLoss

_ROWS = 64  # of a batch
_CELLS = 1 << 22  # scores that are computed at a time


def vectors(
    objective: SimilarityLoss, features: Features, pad: int, backend: Backend, stop: Callable[[], bool]
) -> torch.Tensor | None:
    """(R, D), float32 on the CPU: the vectors of all rows; None when `stop()` becomes true."""
    order = np.argsort(-features.lengths, kind="stable")  # the longest first: if memory runs out, it does at once
    out: torch.Tensor | None = None
    for start in range(0, len(order), _ROWS):
        if stop():
            return None
        rows = order[start : start + _ROWS]
        batch = features.rows.batch(rows, pad)
        part = objective.vectors(*map(backend.put, (batch.ids, batch.mask, batch.types))).float().cpu()
        out = part.new_empty(len(order), part.shape[1]) if out is None else out
        out[torch.from_numpy(rows)] = part
    return out


def measure(objective: SimilarityLoss, rows: torch.Tensor, features: Features, batch_size: int) -> dict[str, float]:
    """The loss, in batches of `batch_size` examples in their order; and of pairs with scores the correlations of cosines and
    scores, of other examples the `retrieval` of the second texts.
    """
    text, role, _, *scores = (torch.from_numpy(np.array(array)) for array in features.targets.values())
    starts = features.examples
    assert starts is not None
    total = 0.0
    for start in range(0, features.num_examples, batch_size):
        part = slice(starts[start], starts[min(start + batch_size, features.num_examples)])
        of_part = scores[0][part] if scores else None
        total += float(objective.losses(rows[part], text[part], role[part], of_part).sum())
    loss = {"loss": total / features.num_examples}
    anchors = F.normalize(rows[role == ANCHOR], dim=1)
    if scores:
        cosines = (anchors * F.normalize(rows[role == POSITIVE], dim=1)).sum(1)
        return {**loss, **correlation.coefficients(scores[0][role == ANCHOR].numpy(), cosines.numpy())}
    return {**loss, **retrieval(anchors, F.normalize(rows[role != ANCHOR], dim=1), text, role)}


def retrieval(anchors: torch.Tensor, others: torch.Tensor, text: torch.Tensor, role: torch.Tensor) -> dict[str, float]:
    """How well each anchor (N, D) finds its second text among the different ones of all examples and their negatives.

    The other right texts of an equal anchor do not count. Equal scores share their ranks.

    Args:
        others: (R - N, D) the vectors of the other texts, in the order of the rows.
        text, role: (R,) see `SimilarityLoss.forward`.
    """
    numbers = text[role != ANCHOR]
    different, place = np.unique(numbers.numpy(), return_index=True)
    candidates = others[torch.from_numpy(place)]
    right = np.searchsorted(different, text[role == POSITIVE].numpy())
    asked = text[role == ANCHOR].numpy()
    rights: dict[int, list[int]] = {}
    for anchor, candidate in zip(asked.tolist(), right.tolist(), strict=True):
        rights.setdefault(anchor, []).append(candidate)
    ranks = np.empty(len(asked))
    step = max(1, _CELLS // len(candidates))
    for start in range(0, len(asked), step):
        scores = anchors[start : start + step] @ candidates.T
        own = scores.gather(1, torch.from_numpy(right[start : start + step])[:, None])
        for row, anchor in zip(scores, asked[start : start + step].tolist(), strict=True):
            row[rights[anchor]] = -torch.inf
        above, equal = (scores > own).sum(1), (scores == own).sum(1)
        ranks[start : start + step] = (1 + above + equal / 2).numpy()
    return {"accuracy": float((ranks == 1).mean()), "mrr": float((1 / ranks).mean())}
