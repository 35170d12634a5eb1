"""Decoding for every language model alike: greedy, sampling, beam search over (ids, state) -> (hidden, state).

Prompts are decoded together, padded on the left; rows that are finished leave the batch. Each row draws from a generator
of its own, seeded by (seed, number of the prompt, number of the sample), so its continuation does not depend on its
batch mates. Shapes: B rows, T prompt length, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nlptools.backend import Backend
from nlptools.beam import beam_search
from nlptools.configs.lm import Generate
from nlptools.continuation import Continuation, Watch, cut, penalize, prefill


def generate(
    model: Any,
    prompts: Sequence[Sequence[int]],
    settings: Generate,
    backend: Backend,
    *,
    eos: int,
    seed: int = 1,
    first: int = 0,
    watch: Watch | None = None,
    forbidden: Sequence[int] = (),
) -> list[list[Continuation]]:
    """`settings.num_samples` continuations of each prompt; a prompt is never empty (it begins with the start token).

    Prompts are numbered from `first` for seeding; `forbidden` tokens (unknown, padding, ...) are never chosen. Prompts that
    leave too little room in the model's context are cut (see `cut`), and rows that reach its end finish there.
    """
    most = model.max_context
    kept = [list(p) if most is None else cut(p, most, settings.max_new_tokens) for p in prompts]
    if settings.beam:
        return [beam_search(model, prompt, settings, backend, eos=eos, forbidden=forbidden) for prompt in kept]
    samples = settings.num_samples
    rows = [prompt for prompt in kept for _ in range(samples)]
    draws = [
        np.random.default_rng([seed, first + i // samples, i % samples]) if settings.temperature > 0 else None
        for i in range(len(rows))
    ]
    done = _Rows(model, rows, settings, backend, eos, draws, watch, forbidden).run()
    return [done[i : i + samples] for i in range(0, len(done), samples)]


class _Rows:
    """A batch of rows on their way."""

    def __init__(
        self,
        model: Any,
        prompts: list[list[int]],
        settings: Generate,
        backend: Backend,
        eos: int,
        draws: list[np.random.Generator | None],
        watch: Watch | None,
        forbidden: Sequence[int],
    ) -> None:
        self.model, self.settings, self.backend, self.eos = model, settings, backend, eos
        self.draws, self.watch, self.forbidden = draws, watch, list(forbidden)
        self.prompts = prompts
        self.out = [Continuation() for _ in prompts]
        self.alive = list(range(len(prompts)))

    @torch.inference_mode()
    def run(self) -> list[Continuation]:
        """Decode until every row has ended."""
        logits, state = prefill(self.model, self.prompts, self.settings.max_new_tokens, self.backend)
        for step in range(self.settings.max_new_tokens):
            chosen = self._choose(logits, step)
            ended = self._record(chosen, step)
            if ended:
                stay = [i for i, row in enumerate(self.alive) if row not in ended]
                self.alive = [self.alive[i] for i in stay]
                if not self.alive:
                    break
                rows = torch.tensor(stay, device=self.backend.device)
                state, chosen = state.select(rows), chosen[rows]
            if step + 1 < self.settings.max_new_tokens:
                hidden, state = self.model(chosen[:, None], state)
                logits = self.model.head(hidden[:, -1]).float()
        return self.out

    def _choose(self, logits: Tensor, step: int) -> Tensor:
        """The next token of each live row (B,); remembers its log-probability."""
        settings = self.settings
        raw = logits
        banned = [*self.forbidden, self.eos] if step < settings.min_new_tokens else self.forbidden
        if banned:
            logits = logits.clone()
            logits[:, banned] = -torch.inf
        if settings.repetition_penalty != 1.0:
            seen = [self.prompts[r] + self.out[r].ids for r in self.alive]
            logits = penalize(logits, seen, settings.repetition_penalty)
        if settings.temperature == 0:
            chosen = likeliest(logits)
        else:
            uniform = [self.draws[row].random() for row in self.alive]  # type: ignore[union-attr]
            chosen = sample(logits, settings, torch.tensor(uniform, dtype=torch.float64))
        if settings.logprobs:
            logprobs = torch.log_softmax(raw, -1).gather(1, chosen[:, None]).squeeze(1)
            for row, value in zip(self.alive, logprobs.tolist(), strict=True):
                self.out[row].logprobs.append(value)
        return chosen

    def _is_full(self, row: int) -> bool:
        """Whether a row has no position left to feed its last token into."""
        most = self.model.max_context
        return most is not None and len(self.prompts[row]) + len(self.out[row].ids) > most

    def _record(self, chosen: Tensor, step: int) -> set[int]:
        """Add the tokens to their rows; returns the rows that ended."""
        ended = set()
        for row, token in zip(self.alive, chosen.tolist(), strict=True):
            out = self.out[row]
            if token == self.eos:
                out.finish = "eos"
                ended.add(row)
                continue
            out.ids.append(token)
            if self.watch is not None and self.watch(row, out):
                out.finish = "stop"
                ended.add(row)
            elif self._is_full(row) and len(out.ids) < self.settings.max_new_tokens:
                out.finish = "context"
                ended.add(row)
        return ended


def likeliest(logits: Tensor) -> Tensor:
    """The token with the highest logit in each row (B,), of several the first. On a CPU numpy looks five times as fast."""
    if logits.device.type == "cpu" and logits.dtype == torch.float32:
        return torch.from_numpy(logits.numpy().argmax(-1))
    return logits.argmax(-1)


def sample(logits: Tensor, settings: Generate, uniform: Tensor) -> Tensor:
    """A token per row (B,) by inversion of the cumulative distribution at `uniform` (B,), float64 in [0, 1).

    Filters in this order: temperature, top-k, top-p (the token that crosses the threshold stays), min-p. Tokens are
    ordered by probability, ties by id.
    """
    probabilities = torch.softmax(logits / settings.temperature, -1)
    if settings.top_k == 0 and settings.top_p == 1.0 and settings.min_p == 0.0:
        return _invert(probabilities.double().cumsum(-1), uniform)
    top, ids = _likeliest(probabilities, settings)
    if settings.top_k:
        top = top / top.sum(-1, keepdim=True)
    before = top.cumsum(-1) - top
    top = torch.where((before < settings.top_p) | (before == 0), top, 0.0)  # the likeliest always stays
    top = torch.where(top >= settings.min_p * top[:, :1], top, 0.0)
    place = _invert(top.cumsum(-1), uniform)
    return ids.gather(1, place[:, None]).squeeze(1)


def _likeliest(probabilities: Tensor, settings: Generate) -> tuple[Tensor, Tensor]:
    """(probabilities in falling order, float64; ids) of all tokens that may pass the filters, and perhaps more.

    Sorting a whole vocabulary takes longer than the model, and the first thousand nearly always hold enough.
    """
    k = min(settings.top_k or probabilities.shape[-1], probabilities.shape[-1])
    top, ids = probabilities.topk(min(k, 1024))
    enough_mass = settings.top_p < 1 and bool((top.double().sum(-1) >= settings.top_p).all())
    enough_share = settings.min_p > 0 and bool((top[:, -1] < settings.min_p * top[:, 0]).all())
    if k > 1024 and not enough_mass and not enough_share:
        top, ids = probabilities.topk(k)
    return top.double(), ids


def _invert(cumulative: Tensor, uniform: Tensor) -> Tensor:
    point = uniform.to(cumulative.device)[:, None] * cumulative[:, -1:]
    place = torch.searchsorted(cumulative, point, right=True).squeeze(1)
    return place.clamp_(max=cumulative.shape[-1] - 1)
