"""Forced decoding: the probabilities and alignments of given targets under an encoder-decoder.

Shapes: B pairs, S source length, T target length.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from nlptools.batches.packing import by_length
from nlptools.compute.backend import Backend
from nlptools.inference.generation.continuation import padded
from nlptools.models.contract import EncoderDecoder
from nlptools.text.pair_format import PairMarks

ROWS = 512  # positions per block of logits

Ids = Sequence[int] | np.ndarray
Pair = tuple[Ids, Ids]  # source and target, without end tokens


@torch.inference_mode()
def pair_scores(
    model: EncoderDecoder,
    pairs: Sequence[Pair],
    backend: Backend,
    *,
    marks: PairMarks,
    batch_tokens: int = 4096,
    stop: Callable[[], bool] | None = None,
) -> list[np.ndarray] | None:
    """The log-probability (nats, float32) of each target token and of the end token, given the source and the tokens that every
    target begins with: (T + 1,) each.

    Returns None if `stop()` became true.
    """
    out: list[np.ndarray] = [np.zeros(0, np.float32)] * len(pairs)
    for group in _groups(pairs, batch_tokens, model.config.ids_per_position):
        if stop is not None and stop():
            return None
        hidden, _, targets = _forced(model, [pairs[i] for i in group], backend, marks, False)
        lengths = [len(pairs[i][1]) + 1 for i in group]
        real = torch.cat([row[:length] for row, length in zip(hidden, lengths, strict=True)])
        flat = backend.put(np.concatenate([row[:length] for row, length in zip(targets, lengths, strict=True)]))
        places = range(0, len(flat), ROWS)
        scores = [_chosen(model.output.logits(real[p : p + ROWS]), flat[p : p + ROWS]) for p in places]
        parts = np.split(torch.cat(scores).cpu().numpy(), np.cumsum(lengths)[:-1])
        for i, part in zip(group, parts, strict=True):
            out[i] = part
    return out


@torch.inference_mode()
def alignments(
    model: EncoderDecoder, pairs: Sequence[Pair], backend: Backend, *, marks: PairMarks, batch_tokens: int = 4096
) -> list[np.ndarray]:
    """For each target token, the position (from 0) of the source token that the model attends to most to predict it: (T,)."""
    out: list[np.ndarray] = [np.zeros(0, np.int64)] * len(pairs)
    for group in _groups(pairs, batch_tokens, model.config.ids_per_position):
        _, attention, _ = _forced(model, [pairs[i] for i in group], backend, marks, True)
        assert attention is not None
        weights = attention.cpu().numpy()
        for row, i in enumerate(group):
            source, target = pairs[i]
            # no token is aligned to those around the source
            begin = len(marks.before)
            out[i] = weights[row, : len(target), begin : begin + max(1, len(source))].argmax(1)
    return out


def _forced(
    model: EncoderDecoder, pairs: Sequence[Pair], backend: Backend, marks: PairMarks, keeps_attention: bool
) -> tuple[Tensor, Tensor | None, np.ndarray]:
    """(hidden (B, T, D), attention (B, T, S) if requested, targets (B, T) with the end token) of a batch of pairs."""
    source, mask = padded([marks.source(list(source)) for source, _ in pairs], model.start_token)
    targets, _ = padded([[*target, marks.eos] for _, target in pairs], model.start_token)
    inputs = np.concatenate([np.tile(marks.read, (len(targets), 1)), targets[:, :-1]], 1)
    state = model.encode(backend.put(source), None if mask.all() else backend.put(mask))
    state.keeps_attention = keeps_attention
    hidden, state = model(backend.put(inputs), state)
    first = len(marks.given)  # of the positions that predict
    return hidden[:, first:], None if state.attention is None else state.attention[:, first:], targets


def _chosen(logits: Tensor, targets: Tensor) -> Tensor:
    """The log-probability of the target (N,) of each row of logits (N, V)."""
    logits = logits.float()
    return logits.gather(1, targets[:, None]).squeeze(1) - logits.logsumexp(1)


def _groups(pairs: Sequence[Pair], batch_tokens: int, unit: int) -> Iterator[list[int]]:
    return by_length([max(len(source) // unit, len(target)) + 1 for source, target in pairs], batch_tokens)
