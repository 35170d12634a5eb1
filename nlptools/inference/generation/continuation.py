"""What sampling and beam search share: continuations, and how the model reads a prompt or a source.

Shapes: B rows, T prompt length, S source length, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from torch import Tensor

from nlptools.compute import contention
from nlptools.compute.backend import Backend
from nlptools.configs.generation import Generate
from nlptools.models.contract import Decoder, EncoderDecoder, LanguageModel, LanguageState, State
from nlptools.text.pair_format import PairMarks

_ROOM = 16  # initial capacity of decoder states in target tokens; it grows on demand


@dataclass
class Continuation:
    """New tokens after a prompt, without the end-of-text token; `logprobs` includes the end-of-text token."""

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
    state: State
    prompts: list[list[int]]  # tokens before the first new one, for penalties
    limits: list[int]  # most new tokens of each input
    window: SlidingWindow | None = None  # of a language model with a limited context
    given: int = 0  # tokens of an output that the model has read, which count for its length
    last: int = 0  # tokens that an output ends with at its limit, which count for its length, too
    prefixes: list[list[int]] | None = None  # the tokens that each continuation has to begin with
    sources: Tensor | None = None  # (B, S) True = real: the source positions, where there are any


@dataclass(frozen=True)
class SlidingWindow:
    """The part of each row (prompt and new tokens) that a language model sees: the whole row while it fits in the context.

    A row that outgrows the context is read again from its last half context on, each time that its window is full. The window
    depends on the number of the row's tokens alone.
    """

    model: LanguageModel
    context: int
    backend: Backend

    @property
    def _half(self) -> int:
        return max(1, self.context // 2)

    def _grown(self, length: int) -> int | None:
        """The number of tokens since the window of a row moved last; None: the whole row fits."""
        over = length - self.context - 1
        return None if over < 0 else over % (self.context - self._half + 1)

    def of(self, row: Sequence[int]) -> list[int]:
        """The tokens of a row that the model sees."""
        grown = self._grown(len(row))
        return list(row) if grown is None else list(row)[-self._half - grown :]

    def moved(self, prompt: Sequence[int], new: Sequence[int]) -> list[int] | None:
        """The new window of a row, if its last token has no room in the one before; else None."""
        return self.of([*prompt, *new]) if self._grown(len(prompt) + len(new)) == 0 else None

    def read_again(self, prompts: Sequence[Sequence[int]], new: np.ndarray) -> tuple[Tensor, LanguageState] | None:
        """The logits and the state after each row, if the window of one moves on now; else None.

        Args:
            prompts: the prompt of each row.
            new: the new tokens of each row, of the same number.
        """
        if all(self._grown(len(prompt) + new.shape[1]) != 0 for prompt in prompts):
            return None
        rows = [self.of([*prompt, *ids]) for prompt, ids in zip(prompts, new.tolist(), strict=True)]
        return read(self.model, rows, self.context, self.backend)


def readable(model: LanguageModel, settings: Generate) -> int | None:
    """The most tokens of a row that a language model can read before the next one is chosen; None: no limit.

    Contrastive search also reads the candidates.
    """
    context = model.max_context
    return context if context is None or settings.contrastive is None else max(1, context - 1)


def limit(prompt: Sequence[int], settings: Generate, model: LanguageModel) -> int:
    """The most new tokens after a prompt. With `settings.strict`, they fit in the context with it; a prompt that fills the
    context has one.
    """
    context = readable(model, settings)
    if context is None or not settings.strict:
        return settings.room
    return min(settings.room, max(1, context - len(prompt)))


def prefill(
    model: LanguageModel, prompts: list[list[int]], limits: list[int], settings: Generate, backend: Backend
) -> Opening:
    """A language model's state after prompts, none of them empty, and the logits that follow. `limits`: see `limit`."""
    room, context = settings.room, model.max_context
    logits, state = read(model, prompts, room if context is None else min(room, context), backend)
    window = None if context is None else SlidingWindow(model, context, backend)
    return Opening(logits, state, prompts, limits, window)


def read(model: LanguageModel, rows: list[list[int]], room: int, backend: Backend) -> tuple[Tensor, LanguageState]:
    """A model's logits (B, V) after rows of tokens, none of them empty, and its state with room for `room` more."""
    hidden, state = read_hidden(model, rows, room, backend)
    return next_logits(model, hidden), state


def read_hidden(
    model: LanguageModel, rows: list[list[int]], room: int, backend: Backend
) -> tuple[Tensor, LanguageState]:
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
    contention.look()
    logits: Tensor = model.output.logits(hidden[:, -1])
    return logits


def read_sources(
    model: EncoderDecoder,
    sources: Sequence[Sequence[int]],
    settings: Generate,
    backend: Backend,
    *,
    marks: PairMarks,
    prefixes: list[list[int]] | None = None,
    keeps_attention: bool = False,
) -> Opening:
    """An encoder-decoder's state after its start token, and the tokens that all outputs begin with.

    Tokens that outputs begin with, or end with at their limit, count among the most new tokens, as in `transformers`.
    """
    ids, mask = padded([marks.source(list(source)) for source in sources], model.start_token)
    room = settings.max_new_tokens
    unit = model.config.ids_per_position
    given, last = len(marks.given), int(marks.ends_at_limit)
    fewest = settings.min_new_tokens + last
    limits = [max(len(source) // unit + 50, fewest) if room is None else room for source in sources]
    if model.max_context is not None:
        limits = [min(limit, model.max_context) for limit in limits]
    limits = [max(1, limit - given - last) for limit in limits]
    real = backend.put(mask)
    state = model.encode(backend.put(ids), None if mask.all() else real, capacity=min(max(limits), _ROOM))
    state.keeps_attention = keeps_attention
    start = backend.put(np.tile(marks.read, (len(ids), 1)))
    hidden, state = model(start, state)
    # the start of the decoder may have no row in the output matrix
    prompts = [[id for id in marks.read if id < model.output.vocab_size] for _ in sources]
    return Opening(next_logits(model, hidden), state, prompts, limits, None, given, last, prefixes, real)


def padded(rows: Sequence[Sequence[int]], fill: int) -> tuple[np.ndarray, np.ndarray]:
    """(B, S) int64 rows padded on the right, and (B, S) which of them are real."""
    lengths = np.array([len(row) for row in rows])
    mask: np.ndarray = np.arange(int(lengths.max())) < lengths[:, None]
    ids = np.full(mask.shape, fill, np.int64)
    ids[mask] = np.fromiter((id for row in rows for id in row), np.int64, int(lengths.sum()))
    return ids, mask
