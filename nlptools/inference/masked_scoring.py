"""Pseudo-log-likelihoods: scores of text under an encoder that predicts masked tokens.

Salazar et al. 2020, "Masked language model scoring" (arXiv:1910.14659): each token is masked in turn, and its log-probability
given all others is summed (`pll`). Kauf & Ivanova 2023 (arXiv:2305.10588): the later pieces of the same word are masked with
it, since they would give it away (`within-word`).
Shapes: T tokens of a line without [CLS] and [SEP], M copies of lines with masks, L tokens of each, V vocabulary.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import torch

from nlptools import bundle
from nlptools.batches.encoder_rows import marks_of
from nlptools.compute import memory
from nlptools.compute.backend import Backend
from nlptools.configs.scoring import Score
from nlptools.corpora.token_file import TextCounts, text_counts
from nlptools.errors import BundleError, display
from nlptools.files import streams
from nlptools.files.streams import LineBlock
from nlptools.inference.line_score import TOTAL, LineScore, token_name
from nlptools.inference.mixture_parts import Mixed
from nlptools.inference.opening import Asked, Opened
from nlptools.inference.perplexity import perplexities
from nlptools.inference.token_details import TokenDetails
from nlptools.inference.words import COLUMNS, LOG_PROBABILITY, Details, Wanted, WordScore, WordScorer
from nlptools.json_types import JsonObject
from nlptools.layers.quantized import Rounding
from nlptools.layers.query_positions import QueryPositions
from nlptools.models.encoders.bert_with_heads import BertWithHeads
from nlptools.text.unknown import UnknownTokens
from nlptools.text.word_bounds import word_bounds
from nlptools.text.word_marks import word_marks

_LINES = 1024  # lines that are scored together


class MaskedScorer:
    """Scores as `line_score.Scorer` does; returned by `nlptools.load` with `Score.masked`.

    An empty line has no tokens and the score 0. In a line longer than the context, each token is scored in the middle of as
    many tokens as fit, or nearer to an end of the line.
    """

    total_columns = TOTAL

    @property
    def roundings(self) -> list[Rounding]:
        """See `quantization.Quantizable`."""
        return [Rounding(self.model, self.model.encoder, self.model.output)]

    @property
    def mixed(self) -> Mixed | None:
        """See `uses.Scores`."""
        return None

    def __init__(self, loaded: bundle.Bundle[BertWithHeads], backend: Backend) -> None:
        """
        Raises:
            BundleError: its tokenizer has no [MASK], [CLS] or [SEP].
        """
        vocab = loaded.tokenizer.vocab
        assert vocab is not None
        marks = marks_of(loaded.tokenizer)
        if vocab.mask is None:
            raise BundleError(f"{display(str(loaded.path))}: the tokenizer has no [MASK]")
        self.bundle, self.vocab, self.tokenizer = loaded, vocab, loaded.tokenizer
        self.cls, self.sep, self.mask = int(marks.cls or 0), int(marks.sep or 0), vocab.mask
        self.unknown = UnknownTokens(loaded.tokenizer, "the text")
        self.backend = backend.for_model(loaded.model)
        self.model: BertWithHeads = self.backend.for_inference(loaded.model)
        self.output = self.model.output
        assert self.model.masked is not None
        self.masked = self.model.masked
        self.most = self.model.encoder.max_context - 2  # tokens of a line that the model sees at once

    @classmethod
    def opened(cls, asked: Asked[object], model: Opened[BertWithHeads]) -> MaskedScorer:
        """See `uses`."""
        memory.expect_new_shapes()
        return cls(model.bundle, Backend.detect(asked.compute))

    def score(self, lines: Iterable[str], settings: Score | None = None) -> Iterator[LineScore]:
        """The score of each line, in order, each on its own; 1,024 lines are read at a time."""
        settings, lines = settings or Score(masked="pll"), iter(lines)
        while batch := list(itertools.islice(lines, _LINES)):
            yield from self.score_batch(batch, settings)

    def score_batch(self, lines: Sequence[str], settings: Score) -> list[LineScore]:
        """The scores of some lines."""
        rows, details = self._scores(lines, settings, Wanted())
        return [
            LineScore([token_name(self.vocab, i) for i in ids], numbers[:, LOG_PROBABILITY].tolist())
            for ids, numbers in zip(rows, details, strict=True)
        ]

    def totals(self, lines: Sequence[str], settings: Score) -> list[tuple[float, int]]:
        """(pseudo-log-likelihood in nats, number of tokens) of each line."""
        _, details = self._scores(lines, settings, Wanted())
        return [(float(row[:, LOG_PROBABILITY].sum(dtype=np.float64)), len(row)) for row in details]

    def words(self, lines: Sequence[str], settings: Score) -> list[WordScore]:
        """The words of each line; surprisals are of words given both sides, and are not corrected."""
        words = WordScorer(self.tokenizer, settings, self.output.vocab_size)
        rows, details = self._scores(lines, settings, words.wanted)
        return [words.scores(line, row, ids) for line, row, ids in zip(lines, details, rows, strict=True)]

    def perplexity(self, blocks: Iterable[LineBlock], settings: Score | None = None) -> JsonObject:
        """Pseudo-perplexities of a text, scored line by line, and the protocol."""
        settings = settings or Score(per="total", masked="pll")
        total, counts = 0.0, TextCounts()
        for block in streams.windows(blocks, _LINES):
            before = self.unknown.unknown
            sums = self.totals(block.lines, settings)
            total += sum(score for score, _ in sums)
            tokens = sum(length for _, length in sums)
            counted = text_counts(block.lines, tokens, len(block.lines), self.unknown.unknown - before)
            counts += replace(counted, tokens=tokens)
        return {
            "log_probability": total,
            **perplexities(total, counts),
            **vars(counts),
            "protocol": {
                "masked": settings.masked,
                "context": self.most + 2,
                "document": "line",
                "end_of_text_counted": False,
                "words": "separated by white space in the text as given",
                "unknown_tokens": "scored as the unknown token" if self.vocab.unk is not None else "none possible",
                "logarithm": "natural",
                **self.backend.describe(),
            },
        }

    # -- masked copies --------------------------------------------------------------------------------------------

    @torch.inference_mode()
    def _scores(self, lines: Sequence[str], settings: Score, wanted: Wanted) -> tuple[list[np.ndarray], list[Details]]:
        """The ids (T,) and the details (T, 4) of each line."""
        encoded = self.tokenizer.encode_lines(lines, self.backend.threads)
        self.unknown.count(lines, encoded)
        rows = [np.array(ids, np.int64) for ids in encoded]
        ends = [self._ends(line, ids, settings) for line, ids in zip(lines, rows, strict=True)]
        out = [np.zeros((len(ids), COLUMNS), np.float32) for ids in rows]
        measure = TokenDetails(wanted, self.backend.device)
        length_of = [min(len(ids), self.most) for ids in rows]
        for length in sorted({*length_of} - {0}, reverse=True):
            same = [number for number, each in enumerate(length_of) if each == length]
            jobs = [(number, place) for number in same for place in range(len(rows[number]))]
            size = max(1, settings.batch_tokens // (length + 2))
            for start in range(0, len(jobs), size):
                batch = jobs[start : start + size]
                for (number, place), numbers in zip(batch, self._batch(batch, rows, ends, measure), strict=True):
                    out[number][place] = numbers
        return rows, out

    def _batch(
        self,
        jobs: Sequence[tuple[int, int]],
        rows: Sequence[np.ndarray],
        ends: Sequence[np.ndarray],
        measure: TokenDetails,
    ) -> np.ndarray:
        """The details (M, 4) of tokens, given as (line, place); as many tokens of each line fit into the context."""
        length = min(len(rows[jobs[0][0]]), self.most)
        ids = np.empty((len(jobs), length + 2), np.int64)
        ids[:, 0], ids[:, -1] = self.cls, self.sep
        places, targets = np.empty((2, len(jobs)), np.int64)
        for copy, (number, place) in enumerate(jobs):
            line = rows[number]
            first = min(max(0, place - length // 2), len(line) - length)
            ids[copy, 1:-1] = line[first : first + length]
            ids[copy, 1 + place - first : 1 + min(int(ends[number][place]) - first, length)] = self.mask
            places[copy], targets[copy] = 1 + place - first, line[place]
        put = self.backend.put
        # the last block and the head are computed for one position of each copy
        wanted = QueryPositions(put(places[:, None]), torch.arange(len(jobs), device=self.backend.device))
        hidden = self.masked(self.model.encoder.at(put(ids), wanted))
        return measure(self.output, hidden, put(targets)).cpu().numpy()

    def _ends(self, line: str, ids: np.ndarray, settings: Score) -> np.ndarray:
        """The end (T,) of what is masked from each token on: the token, or the rest of its word."""
        after = np.arange(1, len(ids) + 1)
        if settings.masked == "pll" or not len(ids):
            return after
        return self._word_ends(line, ids)

    def _word_ends(self, line: str, ids: np.ndarray) -> np.ndarray:
        """The end (T,) of the word of each token: the next token with the mark of a word, as the tokenizer writes it."""
        marks = word_marks(self.tokenizer)
        if marks.begins is not None:
            starts = np.flatnonzero(marks.begins[ids])
        elif marks.at_end:
            starts = word_bounds(self.tokenizer, line, marks.at_end)
        else:
            starts = np.arange(len(ids))
        places = np.append(starts, len(ids))
        return places[np.searchsorted(starts, np.arange(len(ids)), side="right")]
