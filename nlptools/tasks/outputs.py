"""The logits of a task's head for rows of any length, in their order, for validation and prediction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from nlptools.batches.encoder_rows import ranges
from nlptools.batches.features import Features
from nlptools.batches.pairs import cut_batches
from nlptools.compute.backend import Backend
from nlptools.configs.layers import Layers
from nlptools.layers.packed import equal_lengths
from nlptools.models.tasks.heads import OF_TOKENS, EncoderWithHeads
from nlptools.tasks import without_pretraining
from nlptools.tasks.without_pretraining import RowLogits

LAST = Layers("sum", -1)
_OF_ROWS = ("sequence", "choice")  # heads of one token per row: the first, or in a GPT the last
OF_SPANS = ("mentions",)  # heads that take token spans: the first target, "spans"


def hidden_states(
    model: EncoderWithHeads, head: str, which: Layers, ids: Tensor, mask: Tensor, types: Tensor
) -> Tensor:
    """(B, T) ids, mask and types -> the hidden states for the head: (B, T, D), or (B, 1, D) for a head of one token."""
    if head in _OF_ROWS and which == LAST:
        return model.row_states(ids, mask, types)
    states = model.states(ids, mask, types)
    hidden = states.last if which == LAST else model.put_together(states.layers, which)
    return model.of_rows(hidden, mask) if head in _OF_ROWS else hidden


def logits(
    model: EncoderWithHeads,
    head: str,
    features: Features,
    backend: Backend,
    which: Layers = LAST,
    *,
    batch_tokens: int = 4096,
    stop: Callable[[], bool] | None = None,
    look: Callable[[float], None] = lambda share: None,
) -> list[np.ndarray] | None:
    """The head's logits of each row, float32: (K,), a number, or (T, K) of its T tokens; None when `stop()` becomes true.

    A batch has rows of similar length, for an encoder or a GPT end to end without padding. After each, `look` gets the share
    of the rows that are computed.
    """
    if network := without_pretraining.family(model.family):
        of_rows = network.row_logits(model, features, backend)
    else:
        of_rows = partial(_of_rows, model, head, which, features, backend)
    return in_batches(of_rows, features, batch_tokens=batch_tokens, stop=stop, look=look)


@torch.inference_mode()
def in_batches(
    of_rows: RowLogits,
    features: Features,
    *,
    batch_tokens: int = 4096,
    stop: Callable[[], bool] | None = None,
    look: Callable[[float], None] = lambda share: None,
) -> list[np.ndarray] | None:
    """The logits of each row by `of_rows`; see `logits`."""
    order = np.argsort(-features.lengths, kind="stable")  # the longest first: if memory runs out, it does at once
    bounds = cut_batches(np.maximum(1, features.lengths[order]), batch_tokens)
    out: list[np.ndarray] = [np.empty(0)] * len(features)
    for begin, end in pairwise(bounds):
        if stop is not None and stop():
            return None
        rows = order[begin:end]
        for place, row in zip(rows, of_rows(rows), strict=True):
            out[place] = row
        look(end / len(features))
    return out


def _of_rows(
    model: EncoderWithHeads, head: str, which: Layers, features: Features, backend: Backend, rows: np.ndarray
) -> Sequence[np.ndarray]:
    """The logits of each of the rows (B,), sorted by length, in one batch."""
    hidden = _hidden(model, head, which, features, rows, backend)
    spans = _spans(features, rows, backend) if head in OF_SPANS else ()
    values: np.ndarray = model.task_logits(head, hidden, *spans).float().cpu().numpy()
    return np.split(values, np.cumsum(features.lengths[rows])[:-1]) if head in OF_TOKENS else list(values)


def _spans(features: Features, rows: np.ndarray, backend: Backend) -> tuple[Tensor]:
    """The token spans of some rows, as positions in the rows end to end: (B, M, 2) first and last token."""
    lengths = features.lengths[rows]
    spans = features.targets["spans"][rows].reshape(len(rows), -1, 2)
    return (backend.put(spans + (np.cumsum(lengths) - lengths)[:, None, None]),)


def _hidden(
    model: EncoderWithHeads, head: str, which: Layers, features: Features, rows: np.ndarray, backend: Backend
) -> Tensor:
    """The hidden states for the head of some rows, sorted by length: (B, 1, D) for a head of one token per row, else
    (N, D) of all tokens.
    """
    lengths = features.lengths[rows]
    places = ranges(features.rows.bounds[rows], lengths)
    ids, types = (backend.put(array[places].astype(np.int64)) for array in (features.rows.ids, features.rows.types))
    positions = backend.put(ranges(np.zeros(len(rows), np.int64), lengths))
    groups = equal_lengths(lengths)
    if head in _OF_ROWS and which == LAST:
        return model.packed_rows(ids, positions, groups, types)[:, None]
    layers = range(model.config.num_hidden_layers + 1)[which.begin : which.end]
    hidden = model.put_together(model.packed_states(ids, positions, groups, layers, types), Layers(which.kind))
    ends = np.cumsum(lengths)
    speaking = ends - 1 if model.causal else ends - lengths
    return hidden[backend.put(speaking)][:, None] if head in _OF_ROWS else hidden
