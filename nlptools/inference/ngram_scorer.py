"""An n-gram model at work: scores of lines and of texts, without PyTorch."""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from nlptools import bundle
from nlptools.arrays import Longs
from nlptools.configs.scoring import Score
from nlptools.corpora import token_file
from nlptools.corpora.token_file import TextCounts
from nlptools.errors import UsageError, display
from nlptools.files.streams import LineBlock
from nlptools.inference.line_score import TOTAL, LineScore, refuse_streams, token_name
from nlptools.inference.mixture_parts import Mixed
from nlptools.inference.opening import Asked, Opened
from nlptools.inference.perplexity import perplexities
from nlptools.inference.words import (
    BOUNDARY,
    COLUMNS,
    ENTROPY,
    IMPOSSIBLE,
    LOG_PROBABILITY,
    RANK,
    Wanted,
    WordScore,
    WordScorer,
)
from nlptools.json_types import JsonObject
from nlptools.models.language.ngram import NGrams
from nlptools.text.builtin import AT_WHITE_SPACE
from nlptools.text.flat_ids import flat_ids
from nlptools.text.unknown import UnknownTokens

_NATS = math.log(10)  # of a log10


class NGramScorer:
    """Scores as `inference.language_model.TextLanguageModel` does; returned by `nlptools.load`."""

    total_columns = TOTAL

    roundings = ()  # nothing that `quantization.quantize` rounds

    @property
    def mixed(self) -> Mixed | None:
        """See `uses.Scores`."""
        return None

    def __init__(self, loaded: bundle.Bundle[NGrams], model: NGrams) -> None:
        assert loaded.tokenizer.vocab is not None
        self.bundle, self.model, self.vocab = loaded, model, loaded.tokenizer.vocab
        self.unknown = UnknownTokens(loaded.tokenizer, "the text")

    @classmethod
    def opened(cls, asked: Asked[Score], model: Opened[NGrams]) -> NGramScorer:
        """See `uses`. Raises UsageError for options that see the text as one stream."""
        refuse_streams(display(str(model.path)), asked.settings)
        return cls(model.bundle, model.bundle.model)

    def score(self, lines: Iterable[str], settings: Score | None = None) -> Iterator[LineScore]:
        """The score of each line, in order, each line on its own; some thousand lines at a time."""
        settings, lines = settings or Score(), iter(lines)
        while batch := list(itertools.islice(lines, 4096)):
            yield from self.score_batch(batch, settings)

    def totals(self, lines: Sequence[str], settings: Score) -> list[tuple[float, int]]:
        """(log-probability in nats, number of tokens) of each line; faster than `score_batch`."""
        scores, lengths, _ = self._scores(lines)
        starts = np.cumsum(lengths) - lengths
        totals = np.add.reduceat(scores, starts) if len(lines) else scores
        if not settings.eos:
            totals, lengths = totals - scores[starts + lengths - 1], lengths - 1
        return list(zip(totals.tolist(), lengths.tolist(), strict=True))

    def score_batch(self, lines: Sequence[str], settings: Score) -> list[LineScore]:
        """The scores of some lines."""
        scores, lengths, flat = self._scores(lines)
        values, names = scores.tolist(), [token_name(self.vocab, i) for i in flat.tolist()]
        left = 0 if settings.eos else 1  # the end-of-text token
        ends = np.cumsum(lengths).tolist()
        spans = [slice(end - length, end - left) for length, end in zip(lengths.tolist(), ends, strict=True)]
        return [LineScore(names[span], values[span]) for span in spans]

    def words(self, lines: Sequence[str], settings: Score) -> list[WordScore]:
        """The surprisals of the words of each line, see `inference.words`."""
        words = WordScorer(self.bundle.tokenizer, settings, self.model.vocab_size, self.bundle.eos)
        scores, lengths, flat = self._scores(lines)
        details = np.zeros((len(scores), COLUMNS))
        details[:, LOG_PROBABILITY] = scores
        rows = np.split(np.arange(len(scores)), np.cumsum(lengths)[:-1]) if len(lines) else []
        if words.wanted.whole:
            for row in rows:
                self._fill(details[row[0] : row[-1] + 1], flat[row], words.wanted)
        return [words.scores(line, details[row], flat[row]) for line, row in zip(lines, rows, strict=True)]

    def _fill(self, details: NDArray[np.float64], ids: Longs, wanted: Wanted) -> None:
        """Fill in the other columns of the details (T, 4) of a line; `ids` (T,) ends with the end of the text."""
        context = [self.model.config.bos]
        reach = self.model.order - 1
        for row, word in zip(details, ids.tolist(), strict=True):
            log_probs = self.model.next_words(context).astype(np.float64) * _NATS
            if wanted.rank:
                row[RANK] = 1 + np.count_nonzero(log_probs > log_probs[word])
            probs = np.exp(log_probs)
            if wanted.entropy:
                row[ENTROPY] = -np.dot(probs, np.where(probs > 0, log_probs, 0.0))
            if wanted.begins is not None:
                row[BOUNDARY] = max(IMPOSSIBLE, math.log(probs[wanted.begins].sum() or sys.float_info.min))
            context = [*context, word][-reach:] if reach else []

    def _scores(self, lines: Sequence[str]) -> tuple[NDArray[np.float64], Longs, Longs]:
        """Log-probabilities (T,) in nats of the tokens of all lines, tokens per line, and the tokens; the last is the end."""
        eos, bos = self.bundle.eos, self.model.config.bos
        flat, ends = self._encoded(lines)
        self.unknown.count(lines, np.delete(flat, ends))
        ids = sentences(flat, eos, bos, self.vocab.unk)
        scores = self.model.score(ids).log_probs[ids != bos] * np.float64(_NATS)
        return scores, np.diff(ends, prepend=-1), flat

    def _encoded(self, lines: Sequence[str]) -> tuple[Longs, Longs]:
        """The ids of the tokens of all lines, with the end-of-text token after each, and the places of these.

        Words between white space are looked up all at once, in half the time, unless one of them is the end-of-text token.
        """
        tokenizer, eos = self.bundle.tokenizer, self.bundle.eos
        if tokenizer.kind in AT_WHITE_SPACE and not tokenizer.lowercase and self.vocab.unk is not None:
            end = token_name(self.vocab, eos)
            words = tokenizer.tokens(f" {end} ".join([*lines, ""]))
            flat = np.fromiter(map(self.vocab.ids.get, words, itertools.repeat(self.vocab.unk)), np.int64, len(words))
            ends = np.flatnonzero(flat == eos)
            if len(ends) == len(lines):
                return flat, ends
        flat, lengths = flat_ids(tokenizer.encode_lines(lines))
        return np.insert(flat, np.cumsum(lengths), eos), np.cumsum(lengths + 1) - 1

    def perplexity(self, blocks: Iterable[LineBlock], settings: Score | None = None) -> JsonObject:
        """Perplexities of a text, and the protocol: which tokens count, in which context, unknown words included."""
        settings = settings or Score(per="total")
        if not settings.eos:
            raise UsageError(
                "--no-eos with --per total cannot be combined with n-gram models: their sentences have an end"
            )
        document = settings.document or self.bundle.document
        total, counts = total_score(
            self.model,
            token_file.encode(blocks, self.unknown, self.bundle.eos, document, 1),
            self.bundle.eos,
            self.vocab.unk,
        )
        return {
            "log_probability": total,
            **perplexities(total, counts),
            **vars(counts),
            "protocol": {
                "context": self.model.order - 1,
                "document": document,
                "before_first_token": "<s>",
                "end_of_text_counted": True,
                "words": "separated by white space in the text as given",
                "unknown_tokens": "scored as the unknown token" if self.vocab.unk is not None else "none possible",
                "logarithm": "natural",
            },
        }


def sentences(flat: Longs, eos: int, bos: int, unk: int | None, begins: bool = True) -> Longs:
    """Ids in which `eos` ends each sentence, with `bos` before each; a `bos` in the text itself is unknown.

    Args:
        begins: whether the first id begins a sentence.
    """
    inner = flat == bos
    if bos != eos and inner.any():
        flat = np.where(inner, eos if unk is None else unk, flat)
    starts = np.flatnonzero(flat[:-1] == eos) + 1
    if begins and len(flat):
        starts = np.append(0, starts)
    return np.insert(flat.astype(np.int64), starts, bos)


def total_score(
    model: NGrams, encoded: Iterable[tuple[np.ndarray, TextCounts]], eos: int, unk: int | None
) -> tuple[float, TextCounts]:
    """(log-probability in nats, counts) of a text given as chunks of ids in which `eos` ends each document."""
    total, counts, rest = 0.0, TextCounts(), np.zeros(0, np.int64)
    for ids, part in encoded:
        counts += part
        rest = np.concatenate([rest, ids])
        end = int(np.flatnonzero(rest == eos)[-1]) + 1 if (rest == eos).any() else 0
        if end >= 1 << 16:
            total += float(
                model.score(sentences(rest[:end], eos, model.config.bos, unk)).log_probs.sum(dtype=np.float64)
            )
            rest = rest[end:]
    total += float(model.score(sentences(rest, eos, model.config.bos, unk)).log_probs.sum(dtype=np.float64))
    return total * _NATS, counts
