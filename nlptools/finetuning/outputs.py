"""The logits of a task's head for rows of any length, in their order: for validation and for prediction alike."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import torch

from nlptools.backend import Backend
from nlptools.configs.layers import Layers
from nlptools.data.features import Features, batch
from nlptools.data.pair_batches import cut_batches
from nlptools.layers.pooling import choose

LAST = Layers("sum", -1)
_OF_FIRST = ("sequence", "choice")  # heads that see the first token only


def hidden_states(model: Any, head: str, which: Layers, ids: Any, mask: Any, types: Any) -> Any:
    """(B, T) ids, mask and types -> (B, T, D): what the head sees, (B, 1, D) where that is the first token alone."""
    if head in _OF_FIRST and which == LAST:
        return model.encoder.first(ids, mask, types)
    states = model.encoder(ids, mask, types)
    return states.last if which == LAST else choose(states.layers, which)


@torch.inference_mode()
def logits(
    model: Any,
    head: str,
    features: Features,
    backend: Backend,
    which: Layers = LAST,
    *,
    batch_tokens: int = 4096,
    stop: Callable[[], bool] | None = None,
) -> list[np.ndarray] | None:
    """The head's logits of each row, float32: (K,), a number, or (T, K) without padding; None when `stop()` turned true.

    Rows of like length are computed together.
    """
    order = np.argsort(-features.lengths, kind="stable")  # the longest first: memory runs out at once or never
    bounds = cut_batches(features.lengths[order], batch_tokens)
    out: list[Any] = [None] * len(features)
    for begin, end in pairwise(bounds):
        if stop is not None and stop():
            return None
        made = batch(features, order[begin:end], model.config.pad)
        mask = None if made.mask.all() else backend.put(made.mask)
        hidden = hidden_states(model, head, which, backend.put(made.ids), mask, backend.put(made.types))
        found = model.task_logits(head, hidden).float().cpu().numpy()
        lengths = made.mask.sum(1)
        for row, place in enumerate(made.rows):
            out[place] = found[row, : lengths[row]] if found.ndim == 3 else found[row]
    return out
