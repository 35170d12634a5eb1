"""What sampling and beam search share: continuations, and how the model reads a prompt or a source.

Shapes: B rows, T prompt length, S source length, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from torch import Tensor

from nlptools.compute.backend import Backend
from nlptools.configs.generation import Generate
from nlptools.models.contract import Decoder, EncoderDecoder, LanguageModel

_ROOM = 16  # initial capacity of decoder states in target tokens; it grows on demand


@dataclass
class Continuation:
    """New tokens after a prompt, without the end-of-text token; `logprobs` includes that of the end-of-text token."""

    ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)  # natural logs, under the model before any filter
    finish: str = "length"  # why it ended: length (--max-new-tokens), eos, stop (a stop text)
    score: float | None = None  # ranking score of beam search
    top: list[list[tuple[int, float]]] = field(
        default_factory=list
    )  # with `Generate.top_logprobs`: the likeliest tokens


Watch = Callable[[int, Continuation], bool]  # (row, its continuation so far) -> whether to end the row


@dataclass
class Opening:
    """Inputs that a model has read, ready for the first new token."""

    logits: Tensor  # (B, V) of the first new token, in the model's type
    state: Any
    prompts: list[list[int]]  # tokens before the first new one, for penalties; empty for encoder-decoders
    limits: list[int]  # most new tokens of each input
    window: SlidingWindow | None = None  # of a language model with a limited context
    prefixes: list[list[int]] | None = None  # the tokens that each continuation has to begin with
    sources: Tensor | None = None  # (B, S) True = real: the source positions, where there are any


@dataclass(frozen=True)
class SlidingWindow:
    """What a language model sees of rows that outgrow its context: the last tokens, see `cut`.

    The window of a row moves on each time that half a context of new tokens is full, and the model reads it again. It depends
    on the row's own tokens alone.
    """

    model: LanguageModel
    context: int
    room: int
    backend: Backend

    def moved(self, prompt: Sequence[int], new: Sequence[int]) -> list[int] | None:
        """The new window of a row, if it moves on now and the row is longer than it; else None."""
        if len(new) % (self.context - self.context // 2):
            return None
        row = [*prompt, *new]
        window = cut(row, self.context, self.room - len(new))
        return None if len(window) == len(row) else window

    def read_again(self, prompts: Sequence[Sequence[int]], new: np.ndarray) -> tuple[Tensor, Any] | None:
        """The logits and the state after each row, if the windows move on now and a row is longer than its window; else None.

        Args:
            prompts: the prompt of each row.
            new: the new tokens of each row, of the same number.
        """
        step = new.shape[1]
        if all(self.moved(prompt, ids) is None for prompt, ids in zip(prompts, new.tolist(), strict=True)):
            return None
        rows = [[*prompt, *ids] for prompt, ids in zip(prompts, new.tolist(), strict=True)]
        windows = [cut(row, self.context, self.room - step) for row in rows]
        return read(self.model, windows, min(self.context, self.room - step), self.backend)


def cut(row: Sequence[int], context: int | None, new: int) -> list[int]:
    """The last tokens of a row, so that there is room for `new` more in the context, but not less than half of it."""
    return list(row) if context is None else list(row)[-max(context - new, context // 2, 1) :]


def prefill(model: LanguageModel, prompts: list[list[int]], settings: Generate, backend: Backend) -> Opening:
    """A language model's state after prompts, none of them empty, and the logits that follow."""
    room, context = settings.room, model.max_context
    logits, state = read(model, prompts, room if context is None else min(room, context), backend)
    window = None if context is None else SlidingWindow(model, context, room, backend)
    return Opening(logits, state, prompts, [room] * len(prompts), window)


def read(model: LanguageModel, rows: list[list[int]], room: int, backend: Backend) -> tuple[Tensor, Any]:
    """A model's logits (B, V) after rows of tokens, none of them empty, and its state with room for `room` more."""
    hidden, state = read_hidden(model, rows, room, backend)
    return next_logits(model, hidden), state


def read_hidden(model: LanguageModel, rows: list[list[int]], room: int, backend: Backend) -> tuple[Tensor, Any]:
    """As `read`, with the hidden states (B, T, D) of all tokens; rows are padded on the left."""
    longest = max(map(len, rows))
    ids = np.zeros((len(rows), longest), np.int64)
    mask = np.zeros(ids.shape, np.bool_)
    for i, row in enumerate(rows):
        ids[i, longest - len(row) :] = row
        mask[i, longest - len(row) :] = True
    state = model.start(len(rows), longest + room)
    hidden, state = model(backend.put(ids), state, None if mask.all() else backend.put(mask))
    return hidden, state


def next_logits(model: Decoder, hidden: Tensor) -> Tensor:
    """(B, T, D) -> (B, V), in the model's type: the logits of the token after the last position."""
    logits: Tensor = model.output.logits(hidden[:, -1])
    return logits


def read_sources(
    model: EncoderDecoder,
    sources: Sequence[Sequence[int]],
    settings: Generate,
    backend: Backend,
    *,
    eos: int,
    prefixes: list[list[int]] | None = None,
    keeps_attention: bool = False,
) -> Opening:
    """An encoder-decoder's state after sources, to each of which the end token is added, and after its start token."""
    ids, mask = padded([[*source, eos] for source in sources], model.start_token)
    room = settings.max_new_tokens
    limits = [max(len(source) + 50, settings.min_new_tokens) if room is None else room for source in sources]
    if model.max_context is not None:
        limits = [min(limit, model.max_context) for limit in limits]
    real = backend.put(mask)
    state = model.encode(backend.put(ids), None if mask.all() else real, capacity=min(max(limits), _ROOM))
    state.keeps_attention = keeps_attention
    start = backend.put(np.full((len(ids), 1), model.start_token))
    hidden, state = model(start, state)
    prompts: list[list[int]] = [[] for _ in sources]
    return Opening(next_logits(model, hidden), state, prompts, limits, None, prefixes, real)


def padded(rows: Sequence[Sequence[int]], fill: int) -> tuple[np.ndarray, np.ndarray]:
    """(B, S) int64 rows padded on the right, and (B, S) which of them are real."""
    lengths = np.array([len(row) for row in rows])
    mask: np.ndarray = np.arange(int(lengths.max())) < lengths[:, None]
    ids = np.full(mask.shape, fill, np.int64)
    ids[mask] = np.fromiter((id for row in rows for id in row), np.int64, int(lengths.sum()))
    return ids, mask
