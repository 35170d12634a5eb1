"""A trained language model at work: score and generate text.

The methods take and return text, not ids.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property, partial
from typing import cast

import numpy as np
import torch
from torch import nn

from nlptools import bundle
from nlptools.compute.backend import Backend
from nlptools.configs.generation import Generate
from nlptools.configs.scoring import Score
from nlptools.corpora import token_file
from nlptools.errors import DataError, shown
from nlptools.files.streams import LineBlock
from nlptools.formats.examples import Place
from nlptools.inference import adaptation, likelihoods, scoring
from nlptools.inference.generation import automaton, decoding
from nlptools.inference.generation.continuation import limit
from nlptools.inference.generation.generated import Generated, as_text, continuation_text, text_ids
from nlptools.inference.generation.matching import Spelling, TextConstraint
from nlptools.inference.generation.pieces import OnText, PieceSpeller
from nlptools.inference.generation.prompt_tokens import PromptTokens
from nlptools.inference.generation.requests import CompletionRequest
from nlptools.inference.generation.stop_texts import TextWatch
from nlptools.inference.likelihoods import Likelihood
from nlptools.inference.line_score import TOTAL, LineScore, token_name
from nlptools.inference.mixture_parts import Mixed
from nlptools.inference.opening import Asked, Opened
from nlptools.inference.perplexity import perplexities
from nlptools.inference.token_details import TokenDetails
from nlptools.inference.words import WordScore, WordScorer
from nlptools.json_types import JsonObject
from nlptools.layers.output import Measure
from nlptools.layers.quantized import Rounding
from nlptools.models import contract
from nlptools.text.unknown import UnknownTokens


class TextLanguageModel:
    """See the module's docstring; returned by `nlptools.load`."""

    total_columns = TOTAL

    @property
    def mixed(self) -> Mixed | None:
        """See `uses.Scores`."""
        return None

    def __init__(self, loaded: bundle.Bundle, backend: Backend) -> None:
        self.bundle, self.backend = loaded, backend.for_model(loaded.model)
        self.tokenizer = loaded.tokenizer
        assert loaded.tokenizer.vocab is not None
        self.vocab = loaded.tokenizer.vocab
        self.unknown = UnknownTokens(loaded.tokenizer, "the text")
        self.model: contract.LanguageModel = self.backend.for_inference(loaded.model)
        self.prompts = PromptTokens(loaded, self.model)
        self._stream: tuple[Score, scoring.Scores] | None = None  # with the settings that it began with

    @classmethod
    def opened(cls, asked: Asked[object], model: Opened) -> TextLanguageModel:
        """See `uses`."""
        return cls(model.bundle, Backend.detect(asked.compute))

    @property
    def roundings(self) -> list[Rounding]:
        """See `quantization.Quantizable`."""
        return [
            Rounding(cast(nn.Module, self.model), cast(nn.Module, self.model), self.model.output, self.model.streams)
        ]

    # -- scoring --------------------------------------------------------------------------------------------------

    @torch.inference_mode()
    def score(self, lines: Iterable[str], settings: Score | None = None) -> Iterator[LineScore]:
        """The score of each line, in order, each scored independently unless `settings.carry`; 1,024 lines are read at a time.

        Lines of one call are one stream.
        """
        settings = settings or Score()
        lines, self._stream = iter(lines), None
        while batch := list(itertools.islice(lines, 1024)):
            yield from self.score_batch(batch, settings)

    @torch.inference_mode()
    def score_batch(self, lines: Sequence[str], settings: Score) -> list[LineScore]:
        """The scores of lines that are computed together. With `settings.carry`, they continue the previous call."""
        ids = self.tokenizer.encode_lines(lines, self.backend.threads)
        self.unknown.count(lines, ids)
        # in a stream, the end of text is context of the next line, whether it counts or not
        ends = [self.bundle.eos] if settings.eos or settings.one_stream else []
        left = 0 if settings.eos else len(ends)
        whole = [[*row, *ends] for row in ids]
        scores = self._scores(whole, settings)
        return [
            LineScore([token_name(self.vocab, i) for i in row[: len(row) - left]], s[: len(row) - left].tolist())
            for row, s in zip(whole, scores, strict=True)
        ]

    def _scores(
        self,
        documents: Sequence[Sequence[int] | np.ndarray],
        settings: Score,
        measure: Measure = scoring.log_probabilities,
    ) -> list[np.ndarray]:
        """The log-probability of each token of each document, in nats, or what else `measure` returns."""
        if settings.one_stream:
            if self._stream is None or self._stream[0] != settings:
                self._stream = settings, self._new_stream(settings, measure)
            scores = self._stream[1](documents, None)
        else:
            scores = scoring.document_scores(
                self.model,
                documents,
                self.backend,
                start=self.bundle.start,
                stride=settings.stride,
                batch_tokens=settings.batch_tokens,
                measure=measure,
            )
        assert scores is not None
        return scores

    def _new_stream(self, settings: Score, measure: Measure = scoring.log_probabilities) -> scoring.Scores:
        """Scores a text as one stream."""
        if settings.cache and measure is scoring.log_probabilities:
            measure = self._cached(adaptation.NeuralCache.of(settings))
        return adaptation.stream(self.model, self.backend, settings, self.bundle.start, measure)

    def cache_grid(self, size: int, factors: Sequence[float]) -> Measure:
        """The measure from which the settings of a cache of this model are chosen, see `adaptation.tune_cache`."""
        return adaptation.CacheGrid(size, factors)

    def _cached(self, cache: Measure) -> Measure:
        """The measure that applies a cache to this model."""
        return cache

    def totals(self, lines: Sequence[str], settings: Score) -> list[tuple[float, int]]:
        """(log-probability in nats, number of tokens) of each line."""
        return [(row.logprob, len(row.logprobs)) for row in self.score_batch(lines, settings)]

    @torch.inference_mode()
    def words(self, lines: Sequence[str], settings: Score) -> list[WordScore]:
        """The surprisals of the words of each line, see `inference.words`."""
        eos = self.bundle.eos
        words = WordScorer(self.tokenizer, settings, self.model.output.vocab_size, eos)
        ids = self.tokenizer.encode_lines(lines, self.backend.threads)
        self.unknown.count(lines, ids)
        whole = [[*row, eos] for row in ids]
        details = self._scores(whole, settings, TokenDetails(words.wanted, self.backend.device))
        return [words.scores(line, row, each) for line, row, each in zip(lines, details, whole, strict=True)]

    @torch.inference_mode()
    def likelihoods(
        self,
        pairs: Sequence[tuple[str, str]],
        *,
        batch_tokens: int = 4096,
        strict: bool = False,
        places: Sequence[Place] | None = None,
    ) -> list[Likelihood]:
        """The likelihood of each continuation, given the context before it, which may be empty. Both are cut into tokens
        together, as in lm-evaluation-harness; see `inference.likelihoods`.

        Args:
            strict: refuse contexts that do not fit in the model's context. Otherwise, they are cut from the left.
            places: of the pairs, for errors.

        Raises:
            DataError: a continuation has no tokens, or more than the model's context; or `strict`.
        """
        texts = [likelihoods.split(*pair) for pair in pairs]
        different = list(dict.fromkeys(text for a, b in texts for text in (a, a + b)))
        ids = dict(zip(different, self.tokenizer.encode_lines(different, self.backend.threads), strict=True))
        rows = [self._pair_ids(ids[a], ids[a + b]) for a, b in texts]
        cut_contexts: dict[str, int] = {}  # tokens that each loses
        for number, (context, continuation) in enumerate(rows):
            lost, wrong = likelihoods.misfit(len(context), len(continuation), self.model.max_context, strict)
            if wrong is not None:
                message = f"{shown(pairs[number][1])}: {wrong}"
                raise DataError(message) if places is None else places[number].error(message)
            cut_contexts[texts[number][0]] = max(lost, cut_contexts.get(texts[number][0], 0))
        for lost in filter(None, cut_contexts.values()):
            self.prompts.warn_cut(lost)
        return likelihoods.likelihoods(self.model, rows, self.backend, batch_tokens)

    def _pair_ids(self, context: list[int], whole: list[int]) -> tuple[list[int], list[int]]:
        """The ids of a context, including the start token, and of the rest of the `whole`."""
        start = [self.bundle.start]
        if not context and whole[:1] == start:
            return start, whole[1:]
        return self.prompts.started(context), whole[len(context) :]

    @torch.inference_mode()
    def perplexity(self, blocks: Iterable[LineBlock], settings: Score | None = None) -> JsonObject:
        """Perplexities of a text, and the protocol: which tokens count, in which context, unknown words included."""
        settings = settings or Score(per="total")
        eos, document = self.bundle.eos, settings.document or self.bundle.document
        encoded = token_file.encode(blocks, self.unknown, eos, document, self.backend.threads)
        if settings.one_stream:
            scored = scoring.total(self._new_stream(settings), (([ids], part) for ids, part in encoded))
        else:
            scored = scoring.score_stream(
                self.model,
                encoded,
                self.backend,
                eos=eos,
                start=self.bundle.start,
                stride=settings.stride,
                batch_tokens=settings.batch_tokens,
                score_ends=settings.eos,
            )
        assert scored is not None
        total, counts = scored
        return {
            "log_probability": total,
            **perplexities(total, counts),
            **vars(counts),
            "protocol": {
                "name": None if settings.eos or settings.stride else scoring.ROLLING,
                **self._context(settings),
                "memory": vars(self.model.config).get("inference_memory"),
                "document": document,
                "before_first_token": token_name(self.vocab, self.bundle.start),
                "end_of_text_counted": settings.eos,
                "words": "separated by white space in the text as given",
                "unknown_tokens": "scored as the unknown token" if self.vocab.unk is not None else "none possible",
                "logarithm": "natural",
                **self.backend.describe(),
                **({"weights": settings.quantize} if settings.quantize else {}),
            },
        }

    def _context(self, settings: Score) -> JsonObject:
        """The context of each token, for the protocol."""
        return {**scoring.describe_context(self.model.max_context, settings), **adaptation.describe(settings)}

    @torch.inference_mode()
    def measured(self, blocks: Iterable[LineBlock], settings: Score, measure: Measure) -> np.ndarray:
        """(T,) or (T, K): the results of a measure for each token of a text, scored as by `perplexity`."""
        eos, document = self.bundle.eos, settings.document or self.bundle.document
        encoded = token_file.encode(blocks, self.unknown, eos, document, self.backend.threads)
        self._stream = None
        rows = [row for ids, _ in scoring.whole_documents(encoded, eos) for row in self._scores(ids, settings, measure)]
        self._stream = None
        return np.concatenate(rows) if rows else np.zeros((0, 1), np.float32)

    # -- generating -----------------------------------------------------------------------------------------------

    def generate(
        self, prompts: Iterable[str], settings: Generate | None = None, *, seed: int = 1
    ) -> Iterator[list[Generated]]:
        """The continuations of each prompt, in order; `settings.window` prompts are read at a time."""
        settings = settings or Generate()
        prompts, first = iter(prompts), 0
        while batch := list(itertools.islice(prompts, settings.window)):
            yield from self.generate_batch(batch, settings, seed=seed, first=first)
            first += len(batch)

    def generate_batch(
        self,
        prompts: Sequence[str],
        settings: Generate,
        *,
        seed: int = 1,
        first: int = 0,
        on_text: Callable[[str], None] | None = None,
    ) -> list[list[Generated]]:
        """The continuations of some prompts, decoded together; `first` is the number of the first, for seeding.

        `on_text` is called with the text of a single prompt as it grows, piece by piece.
        """
        seeds = [(seed, first + i) for i in range(len(prompts))]
        return self._generate(
            prompts, settings, seeds, None if on_text is None else lambda _number, _sample, text, _: on_text(text)
        )

    def answer(
        self,
        requests: Sequence[CompletionRequest],
        *,
        seed: int = 1,
        first: int = 0,
        numbers: Sequence[int] | None = None,
        on_text: OnText | None = None,
        ended: Callable[[int], bool] | None = None,
    ) -> list[list[Generated]]:
        """The continuations for requests. Each has its own options; requests with the same options are decoded together.

        The continuations of a request with its own seed do not depend on its place.

        Args:
            numbers: of the requests, for seeding; None: they are numbered from `first`.
            on_text: called with the number of a request in `requests` and of a continuation of it, and its text as it grows.
            ended: whether the continuations of a request are to end where they are.
        """
        out: list[list[Generated]] = [[] for _ in requests]
        groups: dict[Generate, list[int]] = {}
        for i, request in enumerate(requests):
            groups.setdefault(request.settings, []).append(i)
        for settings, members in groups.items():
            own = [requests[i].seed for i in members]
            places = [first + i if numbers is None else numbers[i] for i in members]
            seeds = [(seed, place) if s is None else (s, 0) for place, s in zip(places, own, strict=True)]
            rows = self._generate(
                [requests[i].prompt if requests[i].ids is None else requests[i].ids or () for i in members],
                settings,
                seeds,
                None if on_text is None else lambda row, *grown, members=members: on_text(members[row], *grown),
                None if ended is None else lambda row, members=members: ended(members[row]),  # type: ignore[misc]
            )
            for i, row in zip(members, rows, strict=True):
                out[i] = row
        return out

    def _generate(
        self,
        prompts: Sequence[str | Sequence[int]],
        settings: Generate,
        seeds: Sequence[tuple[int, int]],
        on_text: OnText | None = None,
        ended: Callable[[int], bool] | None = None,
    ) -> list[list[Generated]]:
        """As `generate_batch` and `answer`, for prompts that are texts or tokens; `on_text` and `ended` get their numbers."""
        ids = [self.prompts.read(prompt, settings) for prompt in prompts]
        echoed = self._pieces.of_prompts(
            prompts, list(map(self.prompts.encoded, prompts)), self.prompts.started, settings
        )

        def text_of(row: int, new: Sequence[int]) -> str:
            return continuation_text(self.bundle, ids[row // settings.drawn], new)

        watch = None
        if settings.stop or on_text or ended:
            gone = ended and (lambda row: ended(row // settings.drawn))
            grown = None if on_text is None else self._pieces.passing(on_text, settings, echoed)
            watch = TextWatch(text_of, settings.stop, grown, gone, settings.logprobs)
        constraint = None
        if settings.constrains_text:
            at_start = [not self.tokenizer.decode(text_ids(self.bundle, row)) for row in ids]
            limits = [limit(row, settings, self.model) for row in ids]
            constraint = TextConstraint(settings, self._spelling, self.bundle.eos, at_start, limits, ended)
        continuations = decoding.generate(
            self.model,
            ids,
            settings,
            self.backend,
            eos=self.bundle.eos,
            ends=self.bundle.ends,
            seeds=seeds,
            watch=watch,
            forbidden=self.vocab.never_generated(self.bundle.eos, self.model.output.vocab_size),
            constraint=constraint,
        )
        if constraint is not None:
            constraint.report(continuations)
        if on_text is not None and watch is not None:
            for number, row in enumerate(continuations):
                for sample, new in enumerate(row):
                    watch.finish(number * settings.drawn + sample, new)
        return [
            [
                as_text(
                    new, partial(continuation_text, self.bundle, prompt), len(prompt), settings, self._pieces, before
                )
                for new in row
            ]
            for prompt, before, row in zip(ids, echoed, continuations, strict=True)
        ]

    @cached_property
    def _pieces(self) -> PieceSpeller:
        return PieceSpeller(self.bundle, self.model, self.backend)

    @cached_property
    def _spelling(self) -> Spelling:
        return Spelling(self.tokenizer)

    def check_request(self, asked: CompletionRequest) -> None:
        """Raise DataError for a prompt that is longer than the context, with `strict`, and what `automaton.check` raises."""
        if asked.settings.strict:
            self.prompts.check(asked.prompt if asked.ids is None else asked.ids, asked.settings)
        automaton.check(asked.settings)
