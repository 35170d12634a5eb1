"""Decoding for all language models: greedy, sampling and beam search over (ids, state) -> (hidden, state).

Prompts are decoded in batches padded on the left, sources in batches padded on the right; finished rows leave the batch.
Each row has its own random generator, seeded by (seed, number of the prompt, number of the sample), so its continuation
does not depend on the other rows. Shapes: B rows, T prompt length, S source length, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from nlptools.compute.backend import Backend
from nlptools.configs.generation import Generate
from nlptools.inference.generation.beam import BeamSearch
from nlptools.inference.generation.constraints import Ban, Rows, bans, penalized
from nlptools.inference.generation.continuation import (
    Continuation,
    Opening,
    Watch,
    cut,
    next_logits,
    prefill,
    read_sources,
)
from nlptools.inference.generation.sampling import likeliest, sample
from nlptools.models.contract import Decoder, EncoderDecoder, LanguageModel

# Default limits of sources that are decoded together: rows of hypotheses or samples, source tokens, and the minimum number
# of sources. With fewer rows the matrix products are small, with more they do not fit the processor's cache.
_MOST_ROWS, _MOST_TOKENS, _FEWEST_SOURCES = 320, 4096, 8


@torch.inference_mode()
def generate(
    model: LanguageModel,
    prompts: Sequence[Sequence[int]],
    settings: Generate,
    backend: Backend,
    *,
    eos: int,
    ends: Sequence[int] = (),
    seed: int = 1,
    first: int = 0,
    seeds: Sequence[tuple[int, int]] | None = None,
    watch: Watch | None = None,
    forbidden: Sequence[int] = (),
) -> list[list[Continuation]]:
    """`settings.count` continuations of each prompt, which `eos`, or one of `ends`, ends. Prompts must not be empty: they begin
    with the start token.

    Prompts are numbered from `first` for seeding, or have `seeds`, pairs of a seed and a number; `forbidden` tokens (unknown,
    padding, ...) are never chosen. Prompts that leave too little room in the model's context are cut (see `cut`); a row that
    outgrows it continues in a `SlidingWindow`.
    """
    kept = [cut(prompt, model.max_context, settings.room) for prompt in prompts]
    opening = prefill(model, kept, settings, backend)
    return decode(
        model,
        opening,
        settings,
        backend,
        eos=eos,
        ends=ends,
        seeds=[(seed, first + i) for i in range(len(kept))] if seeds is None else seeds,
        watch=watch,
        forbidden=forbidden,
    )


@torch.inference_mode()
def translate(
    model: EncoderDecoder,
    sources: Sequence[Sequence[int]],
    settings: Generate,
    backend: Backend,
    *,
    eos: int,
    seed: int = 1,
    first: int = 0,
    forbidden: Sequence[int] = (),
    prefixes: Sequence[Sequence[int]] | None = None,
    coverage_penalty: float = 0.0,
    stop: Callable[[], bool] | None = None,
) -> list[list[Continuation]] | None:
    """`settings.count` outputs of an encoder-decoder for each source, in the order of the sources.

    Sources (without end token) of like length are decoded together. They are numbered from `first` for seeding.
    `prefixes`: the tokens that each output has to begin with. Returns None when `stop()` turned true.
    """
    continuations: list[list[Continuation]] = [[] for _ in sources]
    for group in _alike(sources, settings):
        if stop is not None and stop():
            return None
        opening = read_sources(
            model,
            [sources[i] for i in group],
            settings,
            backend,
            eos=eos,
            prefixes=None if prefixes is None else [list(prefixes[i]) for i in group],
            keeps_attention=coverage_penalty != 0.0,
        )
        done = decode(
            model,
            opening,
            settings,
            backend,
            eos=eos,
            seeds=[(seed, first + i) for i in group],
            forbidden=forbidden,
            coverage_penalty=coverage_penalty,
        )
        for i, outputs in zip(group, done, strict=True):
            continuations[i] = outputs
    return continuations


def _alike(sources: Sequence[Sequence[int]], settings: Generate) -> Iterator[list[int]]:
    """Groups of sources to decode together, the longest first, so that a lack of memory shows at once."""
    order = sorted(range(len(sources)), key=lambda i: -len(sources[i]))
    width = max(settings.beam or 1, settings.num_samples)
    begin = 0
    while begin < len(order):
        most = min(_MOST_TOKENS // (len(sources[order[begin]]) + 1), _MOST_ROWS // width)
        size = settings.batch_size or max(_FEWEST_SOURCES, most)
        yield order[begin : begin + size]
        begin += size


@torch.inference_mode()
def decode(
    model: Decoder,
    opening: Opening,
    settings: Generate,
    backend: Backend,
    *,
    eos: int,
    ends: Sequence[int] = (),
    seeds: Sequence[tuple[int, int]],
    watch: Watch | None = None,
    forbidden: Sequence[int] = (),
    coverage_penalty: float = 0.0,
) -> list[list[Continuation]]:
    """`settings.count` continuations of each input in `opening`; `seeds` has a seed and a number for each."""
    rules = bans(settings, eos, forbidden, opening.prefixes, ends)
    if settings.beam:
        return BeamSearch(model, opening, settings, backend, eos, rules, coverage_penalty).run()
    samples = settings.drawn
    draws = [
        np.random.default_rng([*seed, i]) if settings.temperature > 0 else None
        for seed in seeds
        for i in range(samples)
    ]
    done = _Rows(model, opening, settings, backend, eos, draws, watch, rules).run()
    return [best(done[i : i + samples], settings.num_samples) for i in range(0, len(done), samples)]


def best(drawn: list[Continuation], count: int) -> list[Continuation]:
    """The `count` samples with the highest mean log-probability of a token, best first; all of them as they are, if no more
    were drawn.
    """
    if len(drawn) == count:
        return drawn
    return sorted(drawn, key=lambda c: float(np.mean(c.logprobs)) if c.logprobs else -np.inf, reverse=True)[:count]


class _Rows:
    """A batch of unfinished samples, `settings.drawn` of each input."""

    def __init__(
        self,
        model: Decoder,
        opening: Opening,
        settings: Generate,
        backend: Backend,
        eos: int,
        draws: list[np.random.Generator | None],
        watch: Watch | None,
        rules: list[Ban],
    ) -> None:
        self.model, self.settings, self.backend, self.eos = model, settings, backend, eos
        self.opening, self.draws, self.watch, self.rules = opening, draws, watch, rules
        self.out = [Continuation() for _ in draws]
        self.alive = list(range(len(draws)))

    def run(self) -> list[Continuation]:
        """Decode until every row has ended."""
        logits, state = self.opening.logits, self.opening.state
        samples = self.settings.drawn
        if samples > 1:
            rows = torch.arange(len(logits), device=logits.device).repeat_interleave(samples)
            logits, state = logits[rows], state.select(rows, samples)
        step = 0
        while self.alive:
            chosen = self._choose(logits, step)
            ended = self._record(chosen)
            step += 1
            stay = [i for i, row in enumerate(self.alive) if row not in ended]
            self.alive = [self.alive[i] for i in stay]
            if not self.alive:
                break
            if ended:
                rows = torch.tensor(stay, device=self.backend.device)
                state, chosen = state.select(rows), chosen[rows]
            inputs = [row // samples for row in self.alive]
            window = self.opening.window
            again = window.read_again(inputs, [self.out[row].ids for row in self.alive]) if window else None
            if again is not None:
                logits, state = again
            else:
                hidden, state = self.model(chosen[:, None], state)
                logits = next_logits(self.model, hidden)
        return self.out

    def _choose(self, logits: Tensor, step: int) -> Tensor:
        """The next token of each live row (B,); stores its log-probability."""
        settings = self.settings
        logits = logits.float()
        keeps = settings.logprobs or settings.drawn > settings.num_samples
        raw = logits.clone() if keeps and self.rules else logits
        inputs = [row // settings.drawn for row in self.alive]
        if self.rules:
            past = np.array([self.out[row].ids for row in self.alive], np.int64).reshape(len(self.alive), step)
            for ban in self.rules:
                ban(logits, Rows(step, inputs, past))
        prompts, new = [self.opening.prompts[i] for i in inputs], [self.out[row].ids for row in self.alive]
        logits = penalized(logits, settings, prompts, new)
        if settings.temperature == 0:
            chosen = likeliest(logits)
        else:
            uniform = [self.draws[row].random() for row in self.alive]  # type: ignore[union-attr]
            chosen = sample(logits, settings, torch.tensor(uniform, dtype=torch.float64))
        if keeps:
            self._keep_log_probabilities(torch.log_softmax(raw, -1), chosen)
        return chosen

    def _keep_log_probabilities(self, logprobs: Tensor, chosen: Tensor) -> None:
        """Store the log-probability of the chosen tokens, and the likeliest tokens if they are asked for."""
        rows = [self.out[row] for row in self.alive]
        for out, value in zip(rows, logprobs.gather(1, chosen[:, None]).squeeze(1).tolist(), strict=True):
            out.logprobs.append(value)
        if self.settings.top_logprobs:
            values, ids = logprobs.topk(min(self.settings.top_logprobs, logprobs.shape[1]))
            for out, *best in zip(rows, ids.tolist(), values.tolist(), strict=True):
                out.top.append(list(zip(*best, strict=True)))

    def _record(self, chosen: Tensor) -> set[int]:
        """Append the tokens to their rows; returns the rows that end."""
        ended = set()
        for row, token in zip(self.alive, chosen.tolist(), strict=True):
            out = self.out[row]
            limit = self.opening.limits[row // self.settings.drawn]
            if token == self.eos:
                out.finish = "eos"
                ended.add(row)
                continue
            out.ids.append(token)
            if self.watch is not None and self.watch(row, out):
                out.finish = "stop"
                ended.add(row)
            elif len(out.ids) >= limit:
                ended.add(row)
        return ended
