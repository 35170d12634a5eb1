"""Greedy search and sampling in a batch: finished rows make room for waiting inputs.

Each row has its own random generator, so its continuation does not depend on the other rows. Rows leave the batch when some
of them have finished, because that copies the state of the others; inputs are read in groups of like length, and their
states join the state of the batch. Shapes: B rows of the batch, N rows that have not finished, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import cast

import numpy as np
import torch
from torch import Tensor

from nlptools.compute.backend import Backend
from nlptools.configs.generation import Generate
from nlptools.inference.generation.constraints import Ban, DecodingState, penalized
from nlptools.inference.generation.continuation import (
    Continuation,
    Opening,
    SlidingWindow,
    Watch,
    next_logits,
    read,
    readable,
)
from nlptools.inference.generation.sampling import likeliest, sample
from nlptools.models.contract import Decoder, LanguageModel, LanguageState, State

_COMPACT = 8  # finished rows leave the batch when they are at least 1/8 of it
_REFILL = 4  # waiting inputs are read when 1/4 of the batch is free
_LIKE = 0.75  # a group of inputs that are read together: none is shorter than this part of the longest


class Samples:
    """The samples of some inputs, `settings.drawn` of each; `run` decodes them.

    Args:
        prompts: the tokens before the first new one of each input, for penalties.
        limits: the most new tokens of each input.
        draws: the random generator of each sample; None: greedy search.
        rules: see `constraints.bans`.
    """

    def __init__(
        self,
        model: Decoder,
        prompts: Sequence[Sequence[int]],
        limits: Sequence[int],
        settings: Generate,
        backend: Backend,
        *,
        eos: int,
        draws: Sequence[np.random.Generator | None],
        watch: Watch | None = None,
        rules: Sequence[Ban] = (),
    ) -> None:
        self.model, self.prompts, self.limits, self.settings, self.backend = model, prompts, limits, settings, backend
        self.eos, self.draws, self.watch, self.rules = eos, draws, watch, rules
        self.out = [Continuation() for _ in draws]
        self.rows: list[int] = []  # the samples in the batch
        self.live: list[int] = []  # the places in the batch of those that have not finished
        self.idle = 0  # steps since the first of the finished rows in the batch has finished
        self.logits: Tensor | None = None  # (B, V)
        self.state: State | None = None
        self.window: SlidingWindow | None = None  # of a language model with a limited context

    def run_opened(self, opening: Opening) -> list[Continuation]:
        """The samples of inputs that have been read together."""
        self._expand(opening.logits, opening.state, range(len(self.limits)))
        while self.live:
            self._advance(self._step())
        return self.out

    def run(self, model: LanguageModel, room: int) -> list[Continuation]:
        """The samples of all prompts, at most `settings.batch` prompts at a time. Each has room for `room` new tokens."""
        context = readable(model, self.settings)
        self.window = None if context is None else SlidingWindow(model, context, self.backend)
        waiting = sorted(range(len(self.prompts)), key=lambda i: len(self.prompts[i]))  # the last one is next
        space = room if context is None else min(room, context)
        while self.live or waiting:
            moved: dict[int, list[int]] = {}
            if self.live:
                chosen = self._step()
                moved = self._leave_windows()
                self._advance(chosen)
            free = self.settings.batch - -(-(len(self.live) + len(moved)) // self.settings.drawn)
            if not self.live or _REFILL * free >= self.settings.batch:
                places = [waiting.pop() for _ in range(min(free, len(waiting)))]
            else:
                places = []
            if places or moved:
                self._join(model, places, moved, space)
        return self.out

    def _step(self) -> dict[int, int]:
        """Choose and record the next token of every unfinished row; the tokens of those that go on, by place."""
        assert self.logits is not None
        logits = self.logits if len(self.live) == len(self.rows) else self.logits[self.live]
        rows = [self.rows[place] for place in self.live]
        chosen = dict(zip(self.live, self._choose(logits.float(), rows).tolist(), strict=True))
        self.live = [place for place in self.live if self._record(self.rows[place], chosen[place])]
        return chosen

    def _choose(self, logits: Tensor, rows: list[int]) -> Tensor:
        """The next token of each of `rows` (N,); stores its log-probability."""
        settings = self.settings
        keeps = settings.logprobs or settings.drawn > settings.num_samples
        raw = logits.clone() if keeps and self.rules else logits
        inputs = [row // settings.drawn for row in rows]
        new = [self.out[row].ids for row in rows]
        if self.rules:
            self._ban(logits, inputs, new)
        logits = penalized(logits, settings, [self.prompts[i] for i in inputs], new)
        chosen = self._pick(logits, rows)
        if keeps:
            self._keep_log_probabilities(rows, torch.log_softmax(raw, -1), chosen)
        return chosen

    def _pick(self, logits: Tensor, rows: list[int]) -> Tensor:
        """A token for each of `rows` (N,), given the logits (N, V) after bans and penalties."""
        if self.settings.temperature == 0:
            return likeliest(logits)
        uniform = [self.draws[row].random() for row in rows]  # type: ignore[union-attr]
        return sample(logits, self.settings, torch.tensor(uniform, dtype=torch.float64))

    def _ban(self, logits: Tensor, inputs: list[int], new: list[list[int]]) -> None:
        """Apply the rules to the logits (N, V), in place: rows that are equally long together."""
        order = sorted(range(len(new)), key=lambda n: len(new[n]))
        for step, members in groupby(order, key=lambda n: len(new[n])):
            group = list(members)
            part = logits if len(group) == len(new) else logits[group]
            past = np.array([new[n] for n in group], np.int64).reshape(len(group), step)
            for ban in self.rules:
                ban(part, DecodingState(step, [inputs[n] for n in group], past))
            if part is not logits:
                logits[group] = part

    def _keep_log_probabilities(self, rows: list[int], logprobs: Tensor, chosen: Tensor) -> None:
        """Store the log-probability of the chosen tokens, and the likeliest tokens if they are asked for."""
        outputs = [self.out[row] for row in rows]
        for out, value in zip(outputs, logprobs.gather(1, chosen[:, None]).squeeze(1).tolist(), strict=True):
            out.logprobs.append(value)
        if self.settings.top_logprobs:
            values, ids = logprobs.topk(min(self.settings.top_logprobs, logprobs.shape[1]))
            for out, *best in zip(outputs, ids.tolist(), values.tolist(), strict=True):
                out.top.append(list(zip(*best, strict=True)))

    def _record(self, row: int, token: int) -> bool:
        """Append the token to its row; whether the row goes on."""
        out = self.out[row]
        if token == self.eos:
            out.finish = "eos"
            return False
        out.ids.append(token)
        if self.watch is not None and self.watch(row, out):
            out.finish = "stop"
            return False
        return len(out.ids) < self.limits[row // self.settings.drawn]

    def _leave_windows(self) -> dict[int, list[int]]:
        """Remove the rows with a full window from the batch; returns their new windows."""
        moved: dict[int, list[int]] = {}
        if self.window is None:
            return moved
        for place in list(self.live):
            row = self.rows[place]
            seen = self.window.moved(self.prompts[row // self.settings.drawn], self.out[row].ids)
            if seen is not None:
                moved[row] = seen
                self.live.remove(place)
        return moved

    def _advance(self, chosen: dict[int, int]) -> None:
        """Feed the chosen tokens to the unfinished rows. Finished ones leave the batch when there are enough of them."""
        if not self.live:
            self.rows, self.state, self.logits = [], None, None
            return
        assert self.state is not None
        # rows that have finished get any token
        tokens = torch.tensor([chosen.get(place, 0) for place in range(len(self.rows))])
        if self._compacts():
            kept = torch.tensor(self.live)
            tokens, self.rows = tokens[kept], [self.rows[place] for place in self.live]
            self.state, self.live = self.state.select(kept.to(self.backend.device)), list(range(len(kept)))
        hidden, self.state = self.model(tokens[:, None].to(self.backend.device), self.state)
        self.logits = next_logits(self.model, hidden)

    def _compacts(self) -> bool:
        """Whether the finished rows leave the batch now."""
        gone = set(range(len(self.rows))).difference(self.live)
        self.idle = self.idle + 1 if gone else 0
        if not gone or len(gone) * _COMPACT >= len(self.rows):
            return bool(gone)
        rows = [self.rows[place] for place in gone]
        longest = max(len(self.prompts[row // self.settings.drawn]) + len(self.out[row].ids) for row in rows)
        # they go on growing in the batch, and must not outgrow the context
        return self.model.max_context is not None and longest + self.idle >= self.model.max_context

    def _expand(self, logits: Tensor, state: State, inputs: Sequence[int]) -> None:
        """Begin a batch with the samples of inputs, given the logits and the state of each."""
        samples = self.settings.drawn
        if samples > 1:
            rows = torch.arange(len(logits), device=logits.device).repeat_interleave(samples)
            # on a CPU, each sample has its own past, so that it does not depend on the others
            logits, state = logits[rows], state.select(rows, 1 if self.backend.exact_rows else samples)
        self.logits, self.state = logits, state
        self.rows = [i * samples + k for i in inputs for k in range(samples)]
        self.live = list(range(len(self.rows)))

    def _join(self, model: LanguageModel, inputs: list[int], moved: dict[int, list[int]], room: int) -> None:
        """Read prompts, and the windows of rows that have moved on, and let them join the batch."""
        parts = [self._batch()] if self.rows else []
        for group in _alike(inputs, self.prompts):
            self._expand(*self._read(model, [list(self.prompts[i]) for i in group], room), group)
            parts.append(self._batch())
        for group in _alike(list(moved), moved):
            opened = self._read(model, [moved[row] for row in group], room)
            parts.append((*opened, group, list(range(len(group)))))
        if len(parts) > 1:
            logits, states, _, _ = zip(*parts, strict=True)
            self.logits, self.state = torch.cat(logits), states[0].join(states[1:])
            self.rows, self.live = [], []
            for *_, rows, live in parts:
                self.live += [len(self.rows) + place for place in live]
                self.rows += rows
        elif parts:
            self.logits, self.state, self.rows, self.live = parts[0]

    def _batch(self) -> tuple[Tensor, LanguageState, list[int], list[int]]:
        """The logits, the state, the samples and the unfinished places of the batch of a language model."""
        assert self.logits is not None
        return self.logits, cast(LanguageState, self.state), self.rows, self.live

    def _read(self, model: LanguageModel, rows: list[list[int]], room: int) -> tuple[Tensor, LanguageState]:
        """See `continuation.read`."""
        return read(model, rows, room, self.backend)


def _alike(keys: list[int], rows: Sequence[Sequence[int]] | Mapping[int, Sequence[int]]) -> Iterator[list[int]]:
    """The keys in groups with rows of similar length, the longest first."""
    order, begin = sorted(keys, key=lambda k: -len(rows[k])), 0
    for end in range(1, len(order) + 1):
        if end == len(order) or len(rows[order[end]]) < _LIKE * len(rows[order[begin]]):
            yield order[begin:end]
            begin = end
