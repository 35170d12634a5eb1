"""Log-probabilities of texts under a language model, and perplexity with the protocol it was measured by.

Perplexity depends on the window, the stride, the token before the first one, and which tokens count; all of these are
explicit. All logarithms are natural.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nlptools.batches.packing import by_length
from nlptools.compute.backend import Backend
from nlptools.corpora.token_file import TextCounts
from nlptools.layers.output import OutputHead
from nlptools.models.contract import LanguageModel

# numbers (N,) or (N, K) of target tokens, given the output head, the hidden states (N, D) and the targets (N,)
Measure = Callable[[OutputHead, Tensor, Tensor], Tensor]

UNLIMITED_WINDOW = 1024  # tokens at a time for models without a longest context


@dataclass(frozen=True)
class Window:
    """A part of a document that is scored in one call of the model."""

    document: int
    inputs: np.ndarray  # (T,) tokens, the first of them known
    targets: np.ndarray  # (T,) the next token of each
    scored: int  # number of targets at the end that count; the others are context


def log_probabilities(head: OutputHead, hidden_ND: Tensor, targets_N: Tensor) -> Tensor:
    """The `Measure` of log-probabilities (N,), float32, in nats."""
    return head.log_probabilities(hidden_ND, targets_N)


def document_scores(
    model: LanguageModel,
    documents: Sequence[Sequence[int] | np.ndarray],
    backend: Backend,
    *,
    start: int,
    stride: int = 0,
    batch_tokens: int = 4096,
    stop: Callable[[], bool] | None = None,
    measure: Measure = log_probabilities,
) -> list[np.ndarray] | None:
    """The log-probability of each token of each document, float32, given the `start` token and all tokens before it.

    With `measure`, what that returns for the tokens: (T,) or (T, K) of each document.

    Documents longer than the model's context are cut into windows that move on by `stride` tokens (0: by whole
    contexts); every token is scored once, with at least context - stride tokens before it (except near the beginning).
    The last window of a document ends with it and is moved back so that it is full.
    Models with a state of their own carry it over whole documents. Returns None when `stop()` turned true.
    """
    if model.streams:
        return _carried_scores(model, documents, backend, start, stop, measure)
    window = model.max_context or UNLIMITED_WINDOW
    out: list[list[np.ndarray]] = [[] for _ in documents]
    # several windows of a document have one length, so their order stays
    windows = _windows(documents, start, window, stride)
    for group in by_length([len(piece.inputs) for piece in windows], batch_tokens):
        if stop is not None and stop():
            return None
        batch = [windows[i] for i in group]
        for piece, scores in zip(batch, _batch_scores(model, batch, backend, measure), strict=True):
            out[piece.document].append(scores[len(scores) - piece.scored :])
    return [_joined(pieces) for pieces in out]


def _joined(pieces: list[np.ndarray]) -> np.ndarray:
    """The scores of a document; most have one piece, and empty ones have none."""
    return pieces[0] if len(pieces) == 1 else np.concatenate(pieces) if pieces else np.zeros(0, np.float32)


def _windows(documents: Sequence[Any], start: int, window: int, stride: int) -> list[Window]:
    """Windows over all documents; those of one document are in order."""
    step = min(stride, window) if stride else window
    pieces = []
    for number, ids in enumerate(documents):
        ids = np.asarray(ids, np.int64)
        tokens = np.concatenate([[start], ids])
        done = 0
        while done < len(ids):
            end = min(done + (window if done == 0 else step), len(ids))
            begin = max(0, end - window)
            pieces.append(Window(number, tokens[begin:end], tokens[begin + 1 : end + 1], end - done))
            done = end
    return pieces


def _batch_scores(model: LanguageModel, batch: list[Window], backend: Backend, measure: Measure) -> list[np.ndarray]:
    """What `measure` returns for all targets of each window. Padding on the right is never seen by a causal model."""
    longest = len(batch[0].inputs)
    ids = np.zeros((len(batch), longest), np.int64)
    for row, piece in zip(ids, batch, strict=True):
        row[: len(piece.inputs)] = piece.inputs
    hidden, _ = model(backend.put(ids))
    lengths = [len(piece.inputs) for piece in batch]
    real = torch.cat([hidden[row, :length] for row, length in enumerate(lengths)])
    targets = backend.put(np.concatenate([piece.targets for piece in batch]))
    scores = measure(model.output, real, targets).cpu().numpy()
    return np.split(scores, np.cumsum(lengths)[:-1])


def _carried_scores(
    model: LanguageModel,
    documents: Sequence[Any],
    backend: Backend,
    start: int,
    stop: Callable[[], bool] | None,
    measure: Measure,
) -> list[np.ndarray] | None:
    """The same for a model whose state is carried: documents of similar length side by side, window after window."""
    order = sorted(range(len(documents)), key=lambda i: -len(documents[i]))
    out: list[np.ndarray] = [np.zeros(0, np.float32)] * len(documents)
    for begin in range(0, len(order), 32):
        group = order[begin : begin + 32]
        longest = len(documents[group[0]])
        tokens = np.full((len(group), longest + 1), start, np.int64)
        for row, i in enumerate(group):
            tokens[row, 1 : 1 + len(documents[i])] = documents[i]
        state, parts = model.start(len(group), 0), []
        for t in range(0, longest, UNLIMITED_WINDOW):
            if stop is not None and stop():
                return None
            inputs = tokens[:, t : min(t + UNLIMITED_WINDOW, longest)]
            targets = tokens[:, t + 1 : t + 1 + inputs.shape[1]]
            hidden, state = model(backend.put(np.ascontiguousarray(inputs)), state)
            flat = backend.put(np.ascontiguousarray(targets)).reshape(-1)
            scores = measure(model.output, hidden.reshape(-1, hidden.shape[-1]), flat).cpu().numpy()
            parts.append(scores.reshape(*inputs.shape, *scores.shape[1:]))
        scored = np.concatenate(parts, 1) if parts else np.zeros((len(group), 0), np.float32)
        for row, i in enumerate(group):
            out[i] = scored[row, : len(documents[i])]
    return out


# -- perplexity -----------------------------------------------------------------------------------------------------


def score_stream(
    model: LanguageModel,
    encoded: Iterable[tuple[np.ndarray, TextCounts]],
    backend: Backend,
    *,
    eos: int,
    stride: int = 0,
    batch_tokens: int = 4096,
    stop: Callable[[], bool] | None = None,
) -> tuple[float, TextCounts] | None:
    """(log-probability, counts) of a text given as chunks of ids in which `eos` ends each document.

    Documents are scored one by one, each from the `eos` token; those of a chunk side by side. Ranks share the work.
    """

    def summed(documents: list[np.ndarray]) -> float | None:
        mine = documents[backend.rank :: backend.world_size]
        scores = document_scores(model, mine, backend, start=eos, stride=stride, batch_tokens=batch_tokens, stop=stop)
        return None if scores is None else float(sum(s.sum(dtype=np.float64) for s in scores))

    total, counts = 0.0, TextCounts()
    rest: list[np.ndarray] = []
    documents: list[np.ndarray] = []
    pending = 0
    for ids, part in encoded:
        counts += part
        ends = np.flatnonzero(ids == eos) + 1
        pieces = np.split(ids, ends)
        for piece in pieces[:-1]:
            documents.append(np.concatenate([*rest, piece]))
            pending += len(documents[-1])
            rest = []
        if len(pieces[-1]):
            rest.append(pieces[-1])
        if pending >= 1 << 16:
            scored = summed(documents)
            if scored is None:
                return None
            total, documents, pending = total + scored, [], 0
    if rest:
        documents.append(np.concatenate(rest))
    scored = summed(documents)
    return None if scored is None else (backend.sum([total + scored])[0], counts)
