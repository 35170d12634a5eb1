"""Fillers of the gaps of a text from a T5, which was trained to predict spans of tokens (Raffel et al. 2020, arXiv:1910.10683,
section 3.1.4).

The encoder reads a sentinel token for each gap. The decoder writes each sentinel and the tokens of its gap, in order; a span
ends at the next sentinel or at the end of the output. The probability of a filler is the product of the probabilities of its
tokens and of the end after them. Gaps are filled from left to right: a gap is predicted given the best filler of each before it.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from nlptools.configs.fill import Fill
from nlptools.configs.generation import Generate
from nlptools.errors import BundleError, DataError, display
from nlptools.files.streams import LineBlock
from nlptools.inference import source_parts
from nlptools.inference.filling import Filler, FillerTexts, check_choices, split_at_masks, without_space_before_masks
from nlptools.inference.generation import decoding
from nlptools.inference.generation.beam import BeamSearch
from nlptools.inference.generation.constraints import Ban, DecodingState, bans
from nlptools.inference.generation.continuation import Continuation, read_sources
from nlptools.inference.opening import Asked, Opened
from nlptools.inference.translation import Translator
from nlptools.layers.quantized import Rounding
from nlptools.models.contract import EncoderDecoder
from nlptools.text.vocab import Vocab

MOST_TOKENS = 16  # of a filler
_MASK = "[MASK]"
_SENTINEL = re.compile(r"▁?<extra_id_(\d+)>")  # as T5 and mT5 write it
_LEAST_BEAM = 8


class _Job(NamedTuple):
    """A gap to fill: the tokens of the line, and the first tokens of the output. `chosen`: tokens to score in the gap."""

    source: list[int]
    begins: list[int]
    chosen: list[int]

    @property
    def limit(self) -> int:
        """The most tokens of the output, with the end of the span."""
        return len(self.begins) + (len(self.chosen) or MOST_TOKENS) + 1


class SpanFiller:
    """Predicts spans at the gaps of a text, see the module's docstring. Fulfils `uses.FillsMasks`."""

    def __init__(self, translator: Translator, settings: Fill) -> None:
        """
        Raises:
            BundleError: the tokenizer has no sentinel tokens.
            UsageError: a choice without a token.
        """
        self.translator, self.settings = translator, settings
        self.tokenizer, self.unknown = translator.source_tokenizer, translator.unknown
        self.sentinels = sentinels(translator.target_vocab)
        if len(self.sentinels) < 2:  # a gap, and the end of its span
            path = display(str(translator.bundle.path))
            raise BundleError(
                f"{path}: the tokenizer has no sentinel tokens <extra_id_0>, <extra_id_1>, ..., with which a T5 marks gaps"
            )
        self.mask = settings.mask or _MASK
        self.texts = FillerTexts(self.tokenizer)
        check_choices(settings.choices, self.tokenizer)
        self.marks = translator.format.marks()
        beam = max(_LEAST_BEAM, 2 * settings.top)  # some tokens may spell the same text
        self.search = Generate(beam=beam, nbest=beam, length_penalty=0.0, max_new_tokens=MOST_TOKENS)
        self.forced = Generate(beam=1, length_penalty=0.0, max_new_tokens=MOST_TOKENS)

    @classmethod
    def opened(cls, asked: Asked[Fill], model: Opened[EncoderDecoder]) -> SpanFiller:
        """See `uses`."""
        return cls(Translator.opened(asked, model), asked.settings or Fill())

    @property
    def roundings(self) -> list[Rounding]:
        """See `quantization.Quantizable`."""
        return self.translator.roundings

    def fill(self, block: LineBlock) -> list[list[list[Filler]]]:
        """See `uses.FillsMasks`."""
        sources, gaps = self._sources(block)
        out: list[list[list[Filler]]] = [[] for _ in sources]
        begun: list[list[int]] = [[] for _ in sources]  # the output so far: sentinels and best fillers
        for gap in range(max(gaps, default=0)):
            lines = [line for line, count in enumerate(gaps) if count > gap]
            for line in lines:
                begun[line].append(self.sentinels[gap])
            ranked = self._ranked if self.settings.choices else self._likeliest
            found = ranked([_Job(sources[line], begun[line], []) for line in lines], self.sentinels[gap + 1])
            for line, (best, fillers) in zip(lines, found, strict=True):
                out[line].append(fillers)
                begun[line] += best
        return out

    def _sources(self, block: LineBlock) -> tuple[list[list[int]], list[int]]:
        """The tokens of each line with sentinels, and the number of its gaps."""
        parts = [without_space_before_masks(each) for each in split_at_masks(block, self.mask)]
        texts = [part for each in parts for part in each]
        lists = self.tokenizer.encode_lines(texts, self.translator.backend.threads)
        self.unknown.count(texts, lists)
        encoded, sources = iter(lists), []
        for number, each in enumerate(parts, block.start):
            if len(each) > len(self.sentinels):
                message = f"{len(each) - 1} gaps, and the model tells {len(self.sentinels) - 1} apart"
                raise DataError(message, path=block.path, line=number)
            ids = list(next(encoded))
            for sentinel, _ in zip(self.sentinels, each[1:], strict=False):
                ids += [sentinel, *next(encoded)]
            if len(ids) > source_parts.LIMIT:
                message = f"{len(ids)} tokens, and at most {source_parts.LIMIT} are read"
                raise DataError(message, path=block.path, line=number)
            sources.append(ids)
        return sources, [len(each) - 1 for each in parts]

    def _likeliest(self, jobs: Sequence[_Job], end: int) -> list[tuple[list[int], list[Filler]]]:
        """For each job the tokens of the best filler, and the fillers."""
        out = []
        for spans in self._continued(jobs, end, self.search):
            texts: dict[str, float] = {}
            for ids, probability in spans:
                texts.setdefault(self.texts.of(ids), probability)  # the likeliest spelling of a text comes first
            out.append((spans[0][0], [Filler(*each) for each in texts.items()][: self.settings.top]))
        return out

    def _ranked(self, jobs: Sequence[_Job], end: int) -> list[tuple[list[int], list[Filler]]]:
        """As `_likeliest`, of the choices."""
        choices = self.settings.choices
        spellings = [self.tokenizer.encode(choice) for choice in choices]
        every = [job._replace(chosen=ids) for job in jobs for ids in spellings]
        probabilities = [spans[0][1] for spans in self._continued(every, end, self.forced)]
        out = []
        for first in range(0, len(every), len(choices)):
            row = probabilities[first : first + len(choices)]
            order = sorted(range(len(choices)), key=lambda number: -row[number])
            fillers = [Filler(choices[number], row[number]) for number in order[: self.settings.top]]
            out.append((spellings[order[0]], fillers))
        return out

    @torch.inference_mode()
    def _continued(self, jobs: Sequence[_Job], end: int, settings: Generate) -> list[list[tuple[list[int], float]]]:
        """The spans of each job with their probabilities, best first."""
        out: list[list[tuple[list[int], float]]] = [[] for _ in jobs]
        for group in decoding.alike([job.source for job in jobs], settings, 1):
            for number, found in zip(group, self._searched([jobs[i] for i in group], end, settings), strict=True):
                start = len(jobs[number].begins)
                out[number] = [(each.ids[start:], float(np.exp(np.sum(each.logprobs[start:])))) for each in found]
        return out

    def _searched(self, jobs: Sequence[_Job], end: int, settings: Generate) -> list[list[Continuation]]:
        translator = self.translator
        model, eos = translator.model, self.marks.eos
        opening = read_sources(
            model,
            [job.source for job in jobs],
            settings,
            translator.backend,
            marks=self.marks,
            prefixes=[[*job.begins, *job.chosen] for job in jobs],
        )
        never = translator.target_vocab.never_generated(end, model.output.vocab_size)
        others = {*never, *self.sentinels} - {end, eos}
        rules = bans(settings, end, sorted(others), opening.prefixes, (eos,), _within(jobs, end))
        opening = replace(opening, limits=[job.limit for job in jobs])
        return BeamSearch(model, opening, settings, translator.backend, end, rules, 0.0).run()


def sentinels(vocab: Vocab) -> list[int]:
    """The sentinel tokens <extra_id_0>, <extra_id_1>, ... of a vocabulary, in order, as far as there are all."""
    numbered = {int(match[1]): id for token, id in vocab.ids.items() if (match := _SENTINEL.fullmatch(token))}
    return [numbered[number] for number in itertools.takewhile(numbered.__contains__, itertools.count())]


def _within(jobs: Sequence[_Job], end: int) -> Ban:
    """A span has at least one token, and ends at its limit."""

    def ban(scores: Tensor, rows: DecodingState) -> None:
        for row, number in enumerate(rows.inputs):
            if rows.step == jobs[number].limit - 1:
                kept = scores[row, end].clone()
                scores[row] = -torch.inf
                scores[row, end] = kept
            elif rows.step == len(jobs[number].begins):
                scores[row, end] = -torch.inf

    return ban
