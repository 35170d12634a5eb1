"""Decoding for all language models: greedy, sampling, contrastive and beam search over (ids, state) -> (hidden, state).

Prompts are decoded in batches padded on the left, sources in batches padded on the right. The random generator of a sample is
seeded by (seed, number of the prompt, number of the sample).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import torch

from nlptools.compute.backend import Backend
from nlptools.configs.generation import Generate
from nlptools.inference.generation.beam import BeamSearch
from nlptools.inference.generation.constraints import Ban, bans
from nlptools.inference.generation.continuation import (
    Continuation,
    Watch,
    limit,
    prefill,
    read_sources,
    readable,
)
from nlptools.inference.generation.contrastive import ContrastiveSearch
from nlptools.inference.generation.lookup import LookupSearch
from nlptools.inference.generation.samples import Samples
from nlptools.models.contract import EncoderDecoder, LanguageModel
from nlptools.text.pair_format import PairMarks

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
    constraint: Ban | None = None,
) -> list[list[Continuation]]:
    """`settings.count` continuations of each prompt, which `eos`, or one of `ends`, ends. Prompts must not be empty: they begin
    with the start token.

    Prompts are numbered from `first` for seeding, or have `seeds`, pairs of a seed and a number; `forbidden` tokens (unknown,
    padding, ...) are never chosen. Of a prompt that is longer than the model's context, the last tokens are read; a row that
    outgrows it continues in a `SlidingWindow`, or ends there with `settings.strict`.
    """
    if settings.room == 0:
        return [[Continuation() for _ in range(settings.count)] for _ in prompts]
    context = readable(model, settings)
    kept = [list(prompt)[-(context or len(prompt)) :] for prompt in prompts]
    limits = [limit(prompt, settings, model) for prompt in kept]
    seeds = [(seed, first + i) for i in range(len(kept))] if seeds is None else seeds
    rules = bans(settings, eos, forbidden, None, ends, constraint)
    if settings.beam:
        out: list[list[Continuation]] = []
        for begin in range(0, len(kept), settings.batch):
            part = slice(begin, begin + settings.batch)
            opening = prefill(model, kept[part], limits[part], settings, backend)
            out += BeamSearch(model, opening, settings, backend, eos, rules, 0.0).run()
        return out
    kind = LookupSearch if settings.lookup else Samples if settings.contrastive is None else ContrastiveSearch
    draws = _draws(settings, seeds)
    samples = kind(model, kept, limits, settings, backend, eos=eos, draws=draws, watch=watch, rules=rules)
    return _best(samples.run(model, settings.room), settings)


@torch.inference_mode()
def translate(
    model: EncoderDecoder,
    sources: Sequence[Sequence[int]],
    settings: Generate,
    backend: Backend,
    *,
    marks: PairMarks,
    seed: int = 1,
    first: int = 0,
    seeds: Sequence[tuple[int, ...]] | None = None,
    forbidden: Sequence[int] = (),
    prefixes: Sequence[Sequence[int]] | None = None,
    coverage_penalty: float = 0.0,
    stop: Callable[[], bool] | None = None,
) -> list[list[Continuation]] | None:
    """`settings.count` outputs of an encoder-decoder for each source, in the order of the sources.

    Sources (without `marks`) of like length are decoded together. They are numbered from `first` for seeding, or have `seeds`.
    `prefixes`: the tokens that each output has to begin with. Returns None when `stop()` turned true.
    """
    continuations: list[list[Continuation]] = [[] for _ in sources]
    seeds = [(seed, first + i) for i in range(len(sources))] if seeds is None else seeds
    for group in alike(sources, settings, model.config.ids_per_position):
        if stop is not None and stop():
            return None
        opening = read_sources(
            model,
            [sources[i] for i in group],
            settings,
            backend,
            marks=marks,
            prefixes=None if prefixes is None else [list(prefixes[i]) for i in group],
            keeps_attention=coverage_penalty != 0.0,
        )
        least = max(0, settings.min_new_tokens - opening.given)
        rules = bans(replace(settings, min_new_tokens=least), marks.eos, forbidden, opening.prefixes)
        if settings.beam:
            done = BeamSearch(model, opening, settings, backend, marks.eos, rules, coverage_penalty).run()
        else:
            draws = _draws(settings, [seeds[i] for i in group])
            rows = Samples(
                model, opening.prompts, opening.limits, settings, backend, eos=marks.eos, draws=draws, rules=rules
            )
            done = _best(rows.run_opened(opening), settings)
        for i, outputs in zip(group, done, strict=True):
            continuations[i] = outputs
    return continuations


def alike(sources: Sequence[Sequence[int]], settings: Generate, ids_per_position: int) -> Iterator[list[int]]:
    """Groups of sources to decode together, the longest first, so that a lack of memory shows at once."""
    order = sorted(range(len(sources)), key=lambda i: -len(sources[i]))
    width = max(settings.beam or 1, settings.num_samples)
    begin = 0
    while begin < len(order):
        positions = len(sources[order[begin]]) // ids_per_position + 1
        most = min(_MOST_TOKENS // positions, _MOST_ROWS // width)
        size = settings.batch_size or max(_FEWEST_SOURCES, most)
        yield order[begin : begin + size]
        begin += size


def _draws(settings: Generate, seeds: Sequence[tuple[int, ...]]) -> list[np.random.Generator | None]:
    """The random generator of each sample of each input, given a seed and a number, or more, for each input."""
    return [
        np.random.default_rng([*seed, i]) if settings.temperature > 0 and settings.contrastive is None else None
        for seed in seeds
        for i in range(settings.drawn)
    ]


def _best(samples: list[Continuation], settings: Generate) -> list[list[Continuation]]:
    """The best samples of each input."""
    drawn = settings.drawn
    return [best(samples[i : i + drawn], settings.num_samples) for i in range(0, len(samples), drawn)]


def best(drawn: list[Continuation], count: int) -> list[Continuation]:
    """The `count` samples with the highest mean log-probability of a token, best first; all, unsorted, if no more
    were drawn.
    """
    if len(drawn) == count:
        return drawn
    return sorted(drawn, key=lambda c: float(np.mean(c.logprobs)) if c.logprobs else -np.inf, reverse=True)[:count]
