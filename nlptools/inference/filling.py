"""Fillers of masked positions, from the output head of an encoder (Devlin et al. 2019, arXiv:1810.04805).

Shapes: M masked positions, L tokens of a row, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from nlptools.configs.fill import Fill
from nlptools.errors import DataError, UsageError
from nlptools.files.streams import LineBlock
from nlptools.inference.masked_scoring import MaskedScorer
from nlptools.layers.query_positions import QueryPositions
from nlptools.text.word_marks import word_marks

_BATCH_TOKENS = 1 << 13  # tokens that are computed together
_CONTINUES = "##"  # shown before a piece that continues a word, as WordPiece writes it


class Filler(NamedTuple):
    """A word or piece for a mask, and its probability."""

    text: str
    probability: float


class _Row(NamedTuple):
    """A line as ids: its masks, and whether white space comes before each of them."""

    ids: np.ndarray
    places: list[int]
    after_space: list[bool]


class _Job(NamedTuple):
    """A position of a row to predict."""

    ids: np.ndarray
    place: int


class MaskFiller:
    """Predicts the words at the masks of a text. All masks of a line stay masked while each is predicted."""

    def __init__(self, scorer: MaskedScorer, settings: Fill) -> None:
        """Raises UsageError for a choice without a token."""
        self.scorer, self.settings = scorer, settings
        self.vocab, self.tokenizer = scorer.vocab, scorer.tokenizer
        self.mask = settings.mask or self.vocab.tokens[scorer.mask]
        self.subwords = self.tokenizer.kind in ("sentencepiece", "tokenizers")
        for choice in settings.choices:
            if not self.tokenizer.encode(choice):
                raise UsageError(f"--choices: {choice!r} has no token")
        marks = word_marks(self.tokenizer).begins
        self.continues = ~marks if marks is not None and self.subwords else np.zeros(len(self.vocab.tokens), bool)
        special = set(self.vocab.roles.values())
        self.special = torch.tensor(sorted(special), dtype=torch.int64, device=scorer.backend.device)

    def fill(self, block: LineBlock) -> list[list[list[Filler]]]:
        """The fillers of each mask of each line, the most probable first; none for an empty line.

        Raises DataError for a line without a mask.
        """
        rows = self._rows(block)
        ranked = iter(self._ranked(rows) if self.settings.choices else self._likeliest(rows))
        return [[next(ranked) for _ in row.places] for row in rows]

    def _rows(self, block: LineBlock) -> list[_Row]:
        parts = [line.split(self.mask) if line else [""] for line in block.lines]
        for number, each in enumerate(parts):
            if len(each) == 1 and block.lines[number]:
                message = f"no {self.mask} in the line"
                hint = "mark each gap with it, or name another mark with --mask"
                raise DataError(message, path=block.path, line=block.start + number, hint=hint)
        spaced = [[part[-1:].isspace() for part in each[:-1]] for each in parts]
        if self.subwords:  # the space before a word belongs to its first piece, which is masked
            parts = [[*(part.rstrip() for part in each[:-1]), each[-1]] for each in parts]
        texts = [part for each in parts for part in each]
        lists = self.tokenizer.encode_lines(texts, self.scorer.backend.threads)
        self.scorer.unknown.count(texts, lists)
        encoded = iter(lists)
        return [self._joined([next(encoded) for _ in each], after) for each, after in zip(parts, spaced, strict=True)]

    def _joined(self, parts: Sequence[Sequence[int]], after_space: list[bool]) -> _Row:
        ids, places = list(parts[0]), []
        for part in parts[1:]:
            places.append(len(ids))
            ids += [self.scorer.mask, *part]
        return _Row(np.array(ids, np.int64), places, after_space)

    def _likeliest(self, rows: Sequence[_Row]) -> list[list[Filler]]:
        jobs = [_Job(row.ids, place) for row in rows for place in row.places]
        out: list[list[Filler]] = [[] for _ in jobs]
        for numbers, log_p_MV in self._predictions(jobs):
            log_p_MV = log_p_MV.index_fill(1, self.special, -torch.inf)
            values, ids = log_p_MV.topk(min(self.settings.top, log_p_MV.shape[1]))
            for number, row, chosen in zip(numbers, values.exp().tolist(), ids.tolist(), strict=True):
                out[number] = [Filler(self._text(id), p) for id, p in zip(chosen, row, strict=True)]
        return out

    def _ranked(self, rows: Sequence[_Row]) -> list[list[Filler]]:
        """The choices for each mask. A choice of n pieces takes n masks, which are filled from left to right."""
        jobs: list[_Job] = []
        targets: list[int] = []
        owners: list[int] = []  # the mask and choice of each job
        choices, count = self.settings.choices, 0
        pieces_of = {
            (choice, space): self.tokenizer.encode(f" {choice}" if space and self.subwords else choice)
            for choice in choices
            for space in (False, True)
        }
        for row in rows:
            for place, after_space in zip(row.places, row.after_space, strict=True):
                for choice in choices:
                    pieces = pieces_of[choice, after_space]
                    for done, piece in enumerate(pieces):
                        between = [*pieces[:done], *[self.scorer.mask] * (len(pieces) - done)]
                        ids = np.concatenate([row.ids[:place], between, row.ids[place + 1 :]])
                        jobs.append(_Job(ids, place + done))
                        targets.append(piece)
                        owners.append(count)
                    count += 1
        sums = np.zeros(count)
        for numbers, log_p_MV in self._predictions(jobs):
            chosen = log_p_MV.gather(1, torch.tensor([[targets[n]] for n in numbers], device=log_p_MV.device))
            np.add.at(sums, [owners[n] for n in numbers], chosen[:, 0].tolist())
        per_mask = np.exp(sums).reshape(-1, len(choices))
        return [
            sorted(map(Filler, choices, each.tolist()), key=lambda filler: -filler.probability)[: self.settings.top]
            for each in per_mask
        ]

    def _predictions(self, jobs: Sequence[_Job]) -> Iterator[tuple[list[int], Tensor]]:
        """Numbers of jobs, and log-probabilities (M, V) of the tokens at their positions, batch by batch."""
        most = self.scorer.most
        lengths = [min(len(job.ids), most) for job in jobs]
        order = sorted(range(len(jobs)), key=lambda number: lengths[number])
        start = 0
        while start < len(order):
            length, end = lengths[order[start]], start
            while end < len(order) and lengths[order[end]] == length and (end - start) * (length + 2) < _BATCH_TOKENS:
                end += 1
            numbers = order[start:end]
            yield numbers, self._batch([jobs[number] for number in numbers], length)
            start = end

    @torch.inference_mode()
    def _batch(self, jobs: Sequence[_Job], length: int) -> Tensor:
        """Log-probabilities (M, V), float32. A row longer than the context is cut to the tokens around its position."""
        scorer = self.scorer
        ids_ML = np.empty((len(jobs), length + 2), np.int64)
        ids_ML[:, 0], ids_ML[:, -1] = scorer.cls, scorer.sep
        places = np.empty(len(jobs), np.int64)
        for number, job in enumerate(jobs):
            first = min(max(0, job.place - length // 2), len(job.ids) - length)
            ids_ML[number, 1:-1] = job.ids[first : first + length]
            places[number] = 1 + job.place - first
        put = scorer.backend.put
        wanted = QueryPositions(put(places[:, None]), torch.arange(len(jobs), device=scorer.backend.device))
        hidden = scorer.masked(scorer.model.encoder.at(put(ids_ML), wanted))
        logits_MV: Tensor = scorer.output.logits(hidden)
        return logits_MV.float().log_softmax(-1)

    def _text(self, id: int) -> str:
        token = self.vocab.tokens[id]
        if id < len(self.continues) and self.continues[id]:
            return _CONTINUES + (self.tokenizer.decode([id]).strip().removeprefix(_CONTINUES) or token)
        return self.tokenizer.decode([id]).strip() or token
