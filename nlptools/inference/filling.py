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
from nlptools.inference.opening import Asked, Opened
from nlptools.layers.quantized import Rounding
from nlptools.layers.query_positions import QueryPositions
from nlptools.models.encoders.bert_with_heads import BertWithHeads
from nlptools.text.tokenizer import Tokenizer
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


class FillerTexts:
    """The texts of fillers, given their tokens. A filler that continues a word begins with ##."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        assert tokenizer.vocab is not None
        self.tokenizer, self.tokens = tokenizer, tokenizer.vocab.tokens
        self.subwords = tokenizer.kind in ("sentencepiece", "tokenizers")
        marks = word_marks(tokenizer).begins
        self.continues = ~marks if marks is not None and self.subwords else np.zeros(len(self.tokens), bool)

    def of(self, ids: Sequence[int]) -> str:
        """The text of a filler; its tokens where they have no text."""
        text = self.tokenizer.decode(list(ids)).strip()
        shown = text or "".join(self.tokens[id] for id in ids)
        if ids[0] < len(self.continues) and self.continues[ids[0]]:
            return _CONTINUES + (text.removeprefix(_CONTINUES) or shown)
        return shown


def split_at_masks(block: LineBlock, mask: str) -> list[list[str]]:
    """The parts of each line around its masks; an empty line has one part. Raises DataError for a line without a mask."""
    parts = [line.split(mask) if line else [""] for line in block.lines]
    for number, each in enumerate(parts):
        if len(each) == 1 and block.lines[number]:
            message = f"no {mask} in the line"
            hint = "mark each gap with it, or name another mark with --mask"
            raise DataError(message, path=block.path, line=block.start + number, hint=hint)
    return parts


def without_space_before_masks(parts: Sequence[str]) -> list[str]:
    """The parts of a line for subwords: the space before a word belongs to its first piece, which is masked."""
    return [*(part.rstrip() for part in parts[:-1]), parts[-1]]


def check_choices(choices: Sequence[str], tokenizer: Tokenizer) -> None:
    """Raise UsageError for a choice without a token."""
    for choice in choices:
        if not tokenizer.encode(choice):
            raise UsageError(f"--choices: {choice!r} has no token")


class MaskFiller:
    """Predicts the words at the masks of a text. All masks of a line stay masked while each is predicted."""

    def __init__(self, scorer: MaskedScorer, settings: Fill) -> None:
        """Raises UsageError for a choice without a token."""
        self.scorer, self.settings = scorer, settings
        self.vocab, self.tokenizer = scorer.vocab, scorer.tokenizer
        self.mask = settings.mask or self.vocab.tokens[scorer.mask]
        self.texts, self.unknown = FillerTexts(self.tokenizer), scorer.unknown
        check_choices(settings.choices, self.tokenizer)
        special = set(self.vocab.roles.values())
        self.special = torch.tensor(sorted(special), dtype=torch.int64, device=scorer.backend.device)

    @classmethod
    def opened(cls, asked: Asked[Fill], model: Opened[BertWithHeads]) -> MaskFiller:
        """See `uses`."""
        return cls(MaskedScorer.opened(asked, model), asked.settings or Fill())

    @property
    def roundings(self) -> list[Rounding]:
        """See `quantization.Quantizable`."""
        return self.scorer.roundings

    def fill(self, block: LineBlock) -> list[list[list[Filler]]]:
        """See `uses.FillsMasks`."""
        rows = self._rows(block)
        ranked = iter(self._ranked(rows) if self.settings.choices else self._likeliest(rows))
        return [[next(ranked) for _ in row.places] for row in rows]

    def _rows(self, block: LineBlock) -> list[_Row]:
        parts = split_at_masks(block, self.mask)
        spaced = [[part[-1:].isspace() for part in each[:-1]] for each in parts]
        if self.texts.subwords:
            parts = [without_space_before_masks(each) for each in parts]
        texts = [part for each in parts for part in each]
        lists = self.tokenizer.encode_lines(texts, self.scorer.backend.threads)
        self.unknown.count(texts, lists)
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
                out[number] = [Filler(self.texts.of([id]), p) for id, p in zip(chosen, row, strict=True)]
        return out

    def _ranked(self, rows: Sequence[_Row]) -> list[list[Filler]]:
        """The choices for each mask. A choice of n pieces takes n masks, which are filled from left to right."""
        jobs: list[_Job] = []
        targets: list[int] = []
        owners: list[int] = []  # the mask and choice of each job
        choices, count = self.settings.choices, 0
        pieces_of = {
            (choice, space): self.tokenizer.encode(f" {choice}" if space and self.texts.subwords else choice)
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
