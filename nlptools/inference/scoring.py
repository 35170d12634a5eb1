"""Log-probabilities of texts under a language model, and perplexity with the protocol it was measured by.

Perplexity depends on the window, the stride, the token before the first one, and which tokens count; all of these are
explicit. All logarithms are natural.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from nlptools.batches.packing import by_length
from nlptools.compute.backend import Backend
from nlptools.configs.scoring import Score
from nlptools.corpora.token_file import TextCounts
from nlptools.json_types import JsonObject
from nlptools.layers.output import Measure, OutputHead
from nlptools.models.contract import LanguageModel

UNLIMITED_WINDOW = 1024  # tokens at a time for models without a longest context
ROLLING = "loglikelihood_rolling (lm-evaluation-harness)"  # the same as no stride and no end of text

Stop = Callable[[], bool]
# (documents, stop) -> the log-probability of each token of each document; None when `stop()` turned true
Scores = Callable[[Sequence[Sequence[int] | np.ndarray], "Stop | None"], "list[np.ndarray] | None"]


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
    stop: Stop | None = None,
    measure: Measure = log_probabilities,
) -> list[np.ndarray] | None:
    """The log-probability of each token of each document, float32, given the `start` token and all tokens before it.

    With `measure`, what that returns for the tokens: (T,) or (T, K) of each document.

    Documents longer than the model's context are cut into windows that move on by `stride` tokens (0: by whole
    contexts); every token is scored once, with at least context - stride tokens before it (except near the beginning).
    The last window of a document ends with it and is moved back so that it is full.
    Models with a state carry it over whole documents. Returns None when `stop()` turned true.
    """
    if model.streams:
        return _streamed_scores(model, documents, backend, start, stop, measure)
    window = model.max_context or UNLIMITED_WINDOW
    out: list[list[np.ndarray]] = [[] for _ in documents]
    # several windows of a document have one length, so their order stays
    windows = _windows(documents, start, window, stride)
    for group in by_length([len(piece.inputs) for piece in windows], batch_tokens, backend.exact_rows):
        if stop is not None and stop():
            return None
        batch = [windows[i] for i in group]
        hidden, targets = _read(model, batch, backend)
        scores = _measured(measure, model.output, hidden, targets)
        for piece, part in zip(batch, np.split(scores, np.cumsum([p.scored for p in batch])[:-1]), strict=True):
            out[piece.document].append(part)
    return [_joined(pieces) for pieces in out]


def _measured(measure: Measure, head: OutputHead, hidden_ND: Tensor, targets_N: Tensor) -> np.ndarray:
    """What `measure` returns. A single row is measured as two, because other kernels compute it alone."""
    alone = len(targets_N) == 1
    scores = (
        measure(head, hidden_ND.expand(2, -1), targets_N.expand(2)) if alone else measure(head, hidden_ND, targets_N)
    )
    return scores[: len(targets_N)].cpu().numpy()


def _joined(pieces: list[np.ndarray]) -> np.ndarray:
    """The scores of a document; most have one piece, and empty ones have none."""
    return pieces[0] if len(pieces) == 1 else np.concatenate(pieces) if pieces else np.zeros(0, np.float32)


def _windows(documents: Sequence[Sequence[int] | np.ndarray], start: int, window: int, stride: int) -> list[Window]:
    """Windows over all documents, in the order of each document."""
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


def _read(model: LanguageModel, batch: list[Window], backend: Backend) -> tuple[Tensor, Tensor]:
    """The hidden states (N, D) before the scored targets (N,) of all windows. Padding on the right is never seen by a causal
    model.
    """
    longest = max(len(piece.inputs) for piece in batch)
    # a single token is read as two rows, because other kernels compute it alone
    ids = np.zeros((max(len(batch), 3 - longest), longest), np.int64)
    for row, piece in zip(ids, batch if len(ids) == len(batch) else 2 * batch, strict=True):
        row[: len(piece.inputs)] = piece.inputs
    hidden, _ = model(backend.put(ids))
    ends = [len(piece.inputs) for piece in batch]
    real = torch.cat([hidden[i, end - batch[i].scored : end] for i, end in enumerate(ends)])
    return real, backend.put(np.concatenate([piece.targets[len(piece.targets) - piece.scored :] for piece in batch]))


def _streamed_scores(
    model: LanguageModel,
    documents: Sequence[Sequence[int] | np.ndarray],
    backend: Backend,
    start: int,
    stop: Stop | None,
    measure: Measure,
) -> list[np.ndarray] | None:
    """The same for a model with a carried state: documents of similar length side by side, window after window."""
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
            scores = _measured(measure, model.output, hidden.reshape(-1, hidden.shape[-1]), flat)
            parts.append(scores.reshape(*inputs.shape, *scores.shape[1:]))
        scored = np.concatenate(parts, 1) if parts else np.zeros((len(group), 0), np.float32)
        for row, i in enumerate(group):
            out[i] = scored[row, : len(documents[i])]
    return out


def describe_context(context: int | None, settings: Score) -> JsonObject:
    """The context of each token under a model with this maximum context, for the protocol."""
    stride, last = None, None
    if context is not None and settings.one_stream:
        last = "ends with the text"
        stride = min(settings.dynamic_segment, context) if settings.dynamic else None
        stride = stride or carried_stride(context, settings.stride)
    elif context is not None:
        stride, last = settings.stride or context, "moved back to be full"
    state = "carried over documents" if settings.one_stream else "new for each document"
    return {"context": context, "stride": stride, "last_window": last, "state": state}


# -- one stream -----------------------------------------------------------------------------------------------------


class CarriedScores:
    """Scores documents as one stream: each token given all tokens before it, also from earlier documents.

    A model without a longest context carries its state from call to call. One with a longest context sees windows: the
    first holds a full context, and each further one ends `stride` tokens (0: half a context) after the one before. Which
    window scores a token depends on its place in the stream alone, so the scores do not depend on how the stream is cut
    into documents and calls.

    Args:
        start: the token before the first one of the stream.
        measure: called with the tokens in the order of the stream, see `document_scores`.
    """

    def __init__(
        self,
        model: LanguageModel,
        backend: Backend,
        *,
        start: int,
        stride: int = 0,
        batch_tokens: int = 4096,
        measure: Measure = log_probabilities,
    ) -> None:
        self.model, self.backend, self.batch_tokens, self.measure = model, backend, batch_tokens, measure
        self.context = model.max_context
        self.stride = 0 if self.context is None else carried_stride(self.context, stride)
        self._before = np.array([start], np.int64)  # the last tokens before the next one, at most a context
        self._done = 0  # tokens of the stream that are scored
        self._state = model.start(1, 0) if self.context is None else None

    def __call__(
        self, documents: Sequence[Sequence[int] | np.ndarray], stop: Stop | None = None
    ) -> list[np.ndarray] | None:
        """The log-probability of each token of each document, float32, as `document_scores`."""
        flat = np.concatenate([np.zeros(0, np.int64), *(np.asarray(ids, np.int64) for ids in documents)])
        parts: list[np.ndarray] = []
        for hidden, targets in self._states(flat):
            if stop is not None and stop():
                return None
            parts.append(self.measure(self.model.output, hidden, targets).cpu().numpy())
        return np.split(_joined(parts), np.cumsum([len(ids) for ids in documents])[:-1]) if documents else []

    def _states(self, ids: np.ndarray) -> Iterator[tuple[Tensor, Tensor]]:
        """(N, D) hidden states before the next tokens of the stream, and these (N,), some at a time."""
        tokens = np.concatenate([self._before, ids])
        known = len(self._before)  # place of the first new token
        if self.context is None:
            for begin in range(0, len(ids), UNLIMITED_WINDOW):
                part = slice(begin, begin + UNLIMITED_WINDOW)
                inputs = tokens[known - 1 : -1][part]
                hidden, self._state = self.model(self.backend.put(inputs[None]), self._state)
                yield hidden[0], self.backend.put(ids[part])
        else:
            windows = stream_windows(tokens, known, self._done, self.context, self.stride)
            at_once = max(1, self.batch_tokens // self.context)
            for first in range(0, len(windows), at_once):
                yield _read(self.model, windows[first : first + at_once], self.backend)
        self._done += len(ids)
        self._before = tokens[-(self.context or 1) :]


def carried_stride(context: int, stride: int) -> int:
    """Tokens from one window of a stream to the next; `stride` 0 is half a context, and none is more than a context."""
    return min(stride or max(1, context // 2), context)


def stream_windows(tokens: np.ndarray, known: int, done: int, context: int, stride: int) -> list[Window]:
    """The windows of the next tokens of a stream, see `CarriedScores`.

    Args:
        tokens: the tokens that are known, at least a context of them or all, and the new ones.
        known: how many are known.
        done: tokens of the stream before the new ones, without the start token.
    """
    windows, last = [], done + len(tokens) - known
    first = done + 1 - known  # tokens[0] is the input before this target
    while done < last:
        end = context if done < context else done + stride - (done - context) % stride
        begin, end = max(0, end - context), min(end, last)
        inputs = tokens[begin - first : end - first]
        windows.append(Window(0, inputs, tokens[begin - first + 1 : end - first + 1], end - done))
        done = end
    return windows


# -- perplexity -----------------------------------------------------------------------------------------------------


def score_stream(
    model: LanguageModel,
    encoded: Iterable[tuple[np.ndarray, TextCounts]],
    backend: Backend,
    *,
    eos: int,
    start: int | None = None,
    stride: int = 0,
    batch_tokens: int = 4096,
    carry: bool = False,
    score_ends: bool = True,
    stop: Stop | None = None,
) -> tuple[float, TextCounts] | None:
    """(log-probability, counts) of a text given as chunks of ids in which `eos` ends each document.

    Documents are scored one by one, each from the token `start` (None: `eos`), all of a chunk together, and ranks share
    the work.
    With `carry` they are one stream, see `CarriedScores`, which every rank scores, and the first one's result counts. Without
    `score_ends`, the model does not read the ends of documents, and they do not count as tokens.
    """
    start = eos if start is None else start
    if carry:
        scores = CarriedScores(model, backend, start=start, stride=stride, batch_tokens=batch_tokens)
        result = total(scores, (([ids], part) for ids, part in encoded), stop)
        return None if result is None else (float(backend.broadcast(result[0])), result[1])

    def shared(documents: Sequence[Sequence[int] | np.ndarray], stop: Stop | None) -> list[np.ndarray] | None:
        mine = documents[backend.rank :: backend.world_size]
        return document_scores(model, mine, backend, start=start, stride=stride, batch_tokens=batch_tokens, stop=stop)

    pieces = whole_documents(encoded, eos)
    result = total(shared, pieces if score_ends else _without_ends(pieces), stop)
    return None if result is None else (backend.sum([result[0]])[0], result[1])


def total(
    scores: Scores, pieces: Iterable[tuple[list[np.ndarray], TextCounts]], stop: Stop | None = None
) -> tuple[float, TextCounts] | None:
    """(sum of the log-probabilities, counts) of a text in pieces. Returns None when `stop()` turned true."""
    log_probability, counts = 0.0, TextCounts()
    for documents, part in pieces:
        counts += part
        scored = scores(documents, stop)
        if scored is None:
            return None
        log_probability += float(sum(s.sum(dtype=np.float64) for s in scored))
    return log_probability, counts


def whole_documents(
    encoded: Iterable[tuple[np.ndarray, TextCounts]], eos: int
) -> Iterator[tuple[list[np.ndarray], TextCounts]]:
    """The documents of a text given as chunks of ids, some ten thousand tokens at a time, and the counts of the chunks."""
    documents: list[np.ndarray] = []
    rest: list[np.ndarray] = []
    pending, counts = 0, TextCounts()
    for ids, part in encoded:
        counts += part
        pieces = np.split(ids, np.flatnonzero(ids == eos) + 1)
        for piece in pieces[:-1]:
            documents.append(np.concatenate([*rest, piece]))
            pending += len(documents[-1])
            rest = []
        if len(pieces[-1]):
            rest.append(pieces[-1])
        if pending >= 1 << 16:
            yield documents, counts
            documents, pending, counts = [], 0, TextCounts()
    if rest:
        documents.append(np.concatenate(rest))
    yield documents, counts


def _without_ends(
    pieces: Iterable[tuple[list[np.ndarray], TextCounts]],
) -> Iterator[tuple[list[np.ndarray], TextCounts]]:
    """The documents without the end-of-text token of each, and the counts of the chunks without these."""
    for documents, counts in pieces:
        yield [ids[:-1] for ids in documents], replace(counts, tokens=counts.tokens - len(documents))
