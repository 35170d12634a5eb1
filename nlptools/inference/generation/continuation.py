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
from nlptools.configs.lm import Generate
from nlptools.models.contract import Decoder, EncoderDecoder, LanguageModel

_ROOM = 16  # initial capacity of decoder states in target tokens; it grows on demand


@dataclass
class Continuation:
    """New tokens after a prompt, without the end-of-text token; `logprobs` includes that of the end-of-text token."""

    ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)  # natural logs, under the model before any filter
    finish: str = "length"  # why it ended: length (--max-new-tokens), eos, stop (a stop text), context
    score: float | None = None  # ranking score of beam search


Watch = Callable[[int, Continuation], bool]  # (row, its continuation so far) -> whether to end the row


@dataclass
class Opening:
    """Inputs that a model has read, ready for the first new token."""

    logits: Tensor  # (B, V) of the first new token, in the model's type
    state: Any
    prompts: list[list[int]]  # tokens before the first new one, for penalties; empty for encoder-decoders
    limits: list[int]  # most new tokens of each input
    full: str = "length"  # why a row ends that reaches its limit before --max-new-tokens
    prefixes: list[list[int]] | None = None  # the tokens that each continuation has to begin with
    sources: Tensor | None = None  # (B, S) True = real: the source positions, where there are any


def cut(prompt: Sequence[int], context: int, new: int) -> list[int]:
    """The last tokens of a prompt, so that there is room for `new` more; never less than half the context."""
    return list(prompt)[-max(context - new, context // 2, 1) :]


def prefill(model: LanguageModel, prompts: list[list[int]], settings: Generate, backend: Backend) -> Opening:
    """A language model's state after prompts, none of them empty, and the logits that follow."""
    longest, room = max(len(p) for p in prompts), settings.room
    ids = np.zeros((len(prompts), longest), np.int64)
    mask = np.zeros(ids.shape, np.bool_)
    for row, prompt in enumerate(prompts):
        ids[row, longest - len(prompt) :] = prompt
        mask[row, longest - len(prompt) :] = True
    padded = not mask.all()
    state = model.start(len(prompts), longest + room)
    hidden, state = model(backend.put(ids), state, backend.put(mask) if padded else None)
    most = model.max_context
    limits = [room if most is None else min(room, most - len(prompt) + 1) for prompt in prompts]
    return Opening(next_logits(model, hidden), state, prompts, limits, "context")


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
    return Opening(next_logits(model, hidden), state, prompts, limits, "length", prefixes, real)


def padded(rows: Sequence[Sequence[int]], fill: int) -> tuple[np.ndarray, np.ndarray]:
    """(B, S) int64 rows padded on the right, and (B, S) which of them are real."""
    lengths = np.array([len(row) for row in rows])
    mask: np.ndarray = np.arange(int(lengths.max())) < lengths[:, None]
    ids = np.full(mask.shape, fill, np.int64)
    ids[mask] = np.fromiter((id for row in rows for id in row), np.int64, int(lengths.sum()))
    return ids, mask
