"""Vectors of lines from a file of word vectors: the plain or weighted mean of their words.

tf-idf: the weight of a word is its inverse document frequency, ln((1 + N) / (1 + n)) + 1 for a word in n of N documents.
sif: smooth inverse frequency (Arora et al. 2017, "A simple but tough-to-beat baseline for sentence embeddings"): a word of
probability p has the weight a / (a + p), a = 1e-3, and the common component of all lines is removed: the projection onto
their first principal component (of the vectors without centering).

Departures. The common component is computed from the lines in which words are counted (the first 100,000), not from the
embedded lines: the vector of a line does not depend on the other lines. Without a file of counts, probabilities come from the
counts in the file of vectors, or from the ranks of the words by Zipf's law, and the component is computed for lines of ten
words drawn independently. tf-idf computes the weighted mean, not the sum.

A word that is not in the file is looked up in other letter cases (all lower, all upper, capitalized), the most frequent
first; otherwise its vector is computed from n-grams if the file has them; otherwise the word is left out. Lines
without any known word have zero vectors.

Shapes: N lines, D dimensions, R rows of words that have occurred so far.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from nlptools import messages
from nlptools.arrays import Array, Floats, Longs
from nlptools.configs.embed import Embed, EmbedWords
from nlptools.errors import DataError, UsageError, display
from nlptools.files import streams
from nlptools.inference.embedding.units import Units
from nlptools.inference.opening import Asked
from nlptools.text import tokenizer as tokenizers
from nlptools.text.tokenizer import Tokenizer
from nlptools.vectors.files import formats
from nlptools.vectors.rows import unit
from nlptools.vectors.table import Vectors

SMOOTH = 1e-3  # the a of Arora et al.
_SAMPLE = 100_000  # number of lines, or words, from which the common component is computed
_DRAWN = 10  # words of a random line, where there is no text
_BLOCK = 256  # lines summed at a time: their sums stay in the cache
CACHED_NUMBERS = 1 << 24  # maximum size of the table of cached rows, in numbers

Weigh = Callable[[str, int], float]  # (word, its row in the file, or -1 if computed from n-grams) -> weight


class LineWords(NamedTuple):
    """The words of some lines."""

    flat: list[str]
    counts: Longs  # (N,)


@dataclass(frozen=True)
class WordCounts:
    """WordCounts of the words of a text.

    Attributes:
        words: number of occurrences of each word.
        lines: number of lines that contain each word.
        total: number of lines.
    """

    words: Counter[str]
    lines: Counter[str]
    total: int


def load(
    path: str, settings: Embed | None = None, words: EmbedWords | None = None, errors: str = "strict"
) -> WordEmbedder:
    """The embedder of a file or directory of word vectors.

    Raises:
        UsageError: word vectors do not support the settings.
        InputError, BundleError: see `nlptools.vectors.files.formats.load` and `nlptools.text.tokenizer.load`.
        DataError: the file of counts has no words, or is not UTF-8.
    """
    settings, words = settings or Embed(), words or EmbedWords()
    check(settings, words)
    tokenizer = tokenizers.load(words.tokenizer, lowercase=words.lowercase)
    made = WordEmbedder(formats.load(path, errors=errors), tokenizer, settings)
    if words.word_weights != "uniform":
        counts = None if words.counts is None else count(words.counts, tokenizer, errors)
        if words.word_weights == "tf-idf":
            assert counts is not None
            made.weigh_by_documents(counts)
        elif counts is None:
            made.smooth()
        else:
            assert words.counts is not None
            made.smooth(counts, (block.lines for block in streams.blocks(words.counts, errors)))
    return made


def check(settings: Embed, words: EmbedWords) -> None:
    """Raise UsageError for settings that word vectors do not support."""
    refusals = (
        (settings.layers != "last", "--layers: word vectors have one layer"),
        (settings.pooling not in (None, "mean"), f"--pooling {settings.pooling}: word vectors support only mean"),
        (
            bool(settings.prompt),
            "--prompt: word vectors ignore word order, a prompt would add the same words to all lines",
        ),
        (words.word_weights == "tf-idf" and words.counts is None, "--word-weights tf-idf needs --counts FILE"),
        (words.counts == "-", "--counts is read twice: it cannot be standard input"),
        (words.word_weights != "uniform" and settings.unit != "sentence", "--word-weights needs --unit sentence"),
        (words.word_weights == "uniform" and words.counts is not None, "--counts is for --word-weights tf-idf and sif"),
    )
    for found, message in refusals:
        if found:
            raise UsageError(message)


def count(path: str, tokenizer: Tokenizer, errors: str = "strict") -> WordCounts:
    """Count the words of a text with a document per line; memory grows with its vocabulary. Raises DataError."""
    words, lines, total = Counter[str](), Counter[str](), 0
    for block in streams.blocks(path, errors):
        found = tokenizer.tokens_lines(block.lines)
        words.update(chain.from_iterable(found))
        lines.update(chain.from_iterable(map(set, found)))
        total += len(found)
    if not words:
        raise DataError("no words to count", path=path)
    return WordCounts(words, lines, total)


class WordEmbedder:
    """See the module's docstring. Implements `uses.Embeds`."""

    roundings = ()  # nothing that `quantization.quantize` rounds

    def __init__(self, vectors: Vectors, tokenizer: Tokenizer | None = None, settings: Embed | None = None) -> None:
        """Uses plain means until `weigh_by_documents` or `smooth` is called. Raises UsageError, see `check`."""
        self.vectors = vectors
        self.tokenizer = tokenizer or tokenizers.load("whitespace")
        self.settings = settings or Embed()
        check(self.settings, EmbedWords())
        self._weigh: Weigh | None = None
        self._by_weight = False  # whether sums are divided by their total weight, or by their number of words
        self._common: Floats | None = None  # (D,), of length 1
        self._windows = self._words = self._missing = self._composed = self._lines = self._blank = 0
        self._forget()

    @classmethod
    def opened(cls, asked: Asked[Embed]) -> WordEmbedder:
        """See `uses`."""
        return load(str(asked.path), asked.settings, asked.words, asked.errors)

    @property
    def dimensions(self) -> int:
        """D, the width of the resulting vectors."""
        return min(self.settings.truncate_dim or self.vectors.dimensions, self.vectors.dimensions)

    def prepare(self, lines: Sequence[str]) -> LineWords:
        """The words of the lines."""
        found = self.tokenizer.tokens_lines(lines)
        return LineWords(list(chain.from_iterable(found)), np.fromiter(map(len, found), np.int64, len(found)))

    def embed(self, lines: Sequence[str], prepared: Any = None) -> Floats:
        """One vector per line, float32 (N, D). Raises BundleError if a vector of the file is not finite."""
        rows, counts = self._known(prepared or self.prepare(lines))
        self._lines += len(counts)
        self._blank += int((counts == 0).sum())
        return self._finished(self._means(rows, counts))

    def embed_units(self, lines: Sequence[str], prepared: Any = None) -> list[Units]:
        """The words of each line and their vectors; unknown words have zeros."""
        flat, counts = prepared or self.prepare(lines)
        table = self._rows_of(flat)
        vectors = self._scaled(self._table[table])
        ends = np.cumsum(counts)
        spans = zip((ends - counts).tolist(), ends.tolist(), strict=True)
        return [Units(flat[start:end], vectors[start:end]) for start, end in spans]

    def count_tokens(self, text: str) -> int:
        """The number of words between white space."""
        return len(text.split())

    def finish(self) -> None:
        """Report how many words had no vector, and how many lines had no known word."""
        if self._missing:
            messages.warn(f"{self._missing:,} of {self._words:,} words have no vector and were left out")
        if self._composed:
            messages.note(f"{self._composed:,} of {self._words:,} words have vectors made of their n-grams")
        if self._blank:
            messages.warn(f"{self._blank:,} of {self._lines:,} lines have no known word: their vectors are zeros")

    # -- weights ------------------------------------------------------------------------------------------------------

    def weigh_by_documents(self, counts: WordCounts) -> None:
        """Weight words by inverse document frequency from now on."""
        lines, total = counts.lines, counts.total
        self._weigh, self._by_weight = lambda word, _: float(np.log((1 + total) / (1 + lines[word])) + 1), True
        self._forget()

    def smooth(self, counts: WordCounts | None = None, text: Iterable[Sequence[str]] = ()) -> None:
        """Weight words by smooth inverse frequency from now on, and remove the common component of lines.

        Args:
            counts: counts of words; None: the counts in the file of vectors, or Zipf's law.
            text: blocks of the lines in which `counts` were counted; without `counts`, random lines are assumed, with
                words drawn by their probabilities.
        """
        self._common, self._by_weight = None, False
        if counts is not None:
            occurrences, total = counts.words, counts.words.total()
            self._weigh = lambda word, _: SMOOTH / (SMOOTH + occurrences[word] / total)
        else:
            shares = self._shares()
            self._weigh = lambda _, place: SMOOTH / (SMOOTH + (float(shares[place]) if place >= 0 else 0.0))
            moment = self._moment_drawn(shares)
        self._forget()
        if counts is not None:
            moment = self._moment(text)
        if moment.any():
            self._common = np.linalg.eigh(moment)[1][:, -1].astype(np.float32)
        self._windows = self._words = self._missing = self._composed = 0

    def _shares(self) -> Array:
        """The probability of each word of the file, float64 (V,)."""
        kept = np.array(self.vectors.counts or [], np.float64)
        if kept.sum() > 0:
            return np.asarray(kept / kept.sum())
        messages.note(f"{display(self.vectors.path)} has no counts: using word frequencies by rank (Zipf's law)")
        ranks = 1 / np.arange(1, len(self.vectors) + 1, dtype=np.float64)
        return np.asarray(ranks / ranks.sum())

    def _moment(self, text: Iterable[Sequence[str]]) -> Array:
        """The sum of the outer products of the vectors of lines, float64 (D, D)."""
        moment = np.zeros((self.vectors.dimensions, self.vectors.dimensions))
        left = _SAMPLE
        for block in text:
            for start in range(0, len(block[:left]), 4096):
                rows = self._means(*self._known(self.prepare(block[:left][start : start + 4096]))).astype(np.float64)
                moment += rows.T @ rows
            left -= len(block)
            if left <= 0:
                break
        return moment

    def _moment_drawn(self, shares: Array) -> Array:
        """The expected outer product of the vector of a line of words drawn independently, float64 (D, D)."""
        size = self.vectors.dimensions
        each, mean = np.zeros((size, size)), np.zeros(size)
        for start, rows in self.vectors.blocks(_SAMPLE):
            p = shares[start : start + len(rows)]
            weighted = rows.astype(np.float64) * (SMOOTH / (SMOOTH + p))[:, None]
            each += (weighted * p[:, None]).T @ weighted
            mean += p @ weighted
        return np.asarray(each / _DRAWN + np.outer(mean, mean) * (1 - 1 / _DRAWN))

    # -- words to rows ------------------------------------------------------------------------------------------------

    def _forget(self) -> None:
        """Empty the cache of rows. Row 0 is for words without a vector."""
        self._places: dict[str, int] = {}
        self._table: Floats = np.zeros((1, self.vectors.dimensions), np.float32)
        self._weights: Floats = np.zeros(1, np.float32)
        self._used = 1
        self._made: set[int] = set()  # rows computed from n-grams

    def _known(self, words: LineWords) -> tuple[Longs, Longs]:
        """The rows of the words that have vectors, and the number of such words in each line, (N,)."""
        rows = self._rows_of(words.flat)
        known = rows > 0
        if known.all():
            return rows, words.counts
        ends = np.concatenate([[0], np.cumsum(known)])
        last = np.cumsum(words.counts)
        return rows[known], ends[last] - ends[last - words.counts]

    def _rows_of(self, flat: list[str]) -> Longs:
        """The row of `_table` of each word; 0 where it has no vector."""
        get = self._places.get
        rows = np.fromiter((get(word, -1) for word in flat), np.int64, len(flat))
        new = rows < 0
        if new.any():
            if max(len(self._places), self._used) * self.vectors.dimensions > CACHED_NUMBERS:  # the cache is full
                self._forget()
            fresh = dict.fromkeys(flat) if not self._places else dict.fromkeys(flat[i] for i in np.flatnonzero(new))
            self._meet(list(fresh))
            get = self._places.get
            rows = np.fromiter((get(word, 0) for word in flat), np.int64, len(flat))
        self._words += len(flat)
        self._missing += int((rows == 0).sum())
        if self._made:
            self._composed += int(np.isin(rows, list(self._made)).sum())
        return rows

    def _meet(self, words: list[str]) -> None:
        """Assign a row to each of these new words; 0 to words without a vector."""
        self._windows += 1
        if self._windows == 2:  # with more than one window of lines, an index is worth its cost
            self.vectors.words.hold_index()
        cases = {word: (word, *_cases(word)) for word in words}
        found = self.vectors.words.find(chain.from_iterable(cases.values()))
        places: dict[str, int] = {}
        for word, names in cases.items():
            if word in found:
                places[word] = found[word]
            elif others := [found[name] for name in names if name in found]:
                places[word] = min(others)
        rows = self.vectors.take(list(places.values())) if places else np.empty((0, self.vectors.dimensions))
        self._places.update(dict.fromkeys(words, 0))
        self._keep(list(places), rows, list(places.values()))
        if self.vectors.subwords is not None:
            missing = [word for word in words if word not in places]
            made = [(word, row) for word in missing if (row := self.vectors.subwords.compose(word)) is not None]
            if made:
                names, vectors = zip(*made, strict=True)
                self._made.update(range(self._used, self._used + len(made)))
                self._keep(list(names), np.stack(vectors), [-1] * len(made))

    def _keep(self, words: list[str], rows: Array, places: list[int]) -> None:
        """Append rows, times their weights, to the table."""
        end = self._used + len(words)
        if end > len(self._table):
            size = max(end, len(self._table) * 3 // 2)
            self._table = np.concatenate([self._table, np.zeros((size - len(self._table), rows.shape[1]), np.float32)])
            self._weights = np.concatenate([self._weights, np.zeros(size - len(self._weights), np.float32)])
        self._table[self._used : end] = rows
        if self._weigh is not None:
            weights = [self._weigh(word, place) for word, place in zip(words, places, strict=True)]
            self._weights[self._used : end] = weights
            self._table[self._used : end] *= self._weights[self._used : end, None]
        self._places.update(zip(words, range(self._used, end), strict=True))
        self._used = end

    # -- rows to vectors ----------------------------------------------------------------------------------------------

    def _means(self, rows: Longs, counts: Longs) -> Floats:
        """The plain or weighted mean of the rows of each line, float32 (N, D).

        Adds the first words of many lines at once, then the second words, and so on: the order of a line's sum is fixed.
        """
        out = np.zeros((len(counts), self.vectors.dimensions), np.float32)
        room = np.empty((_BLOCK, self.vectors.dimensions), np.float32)
        starts = np.cumsum(counts) - counts
        divisors = counts
        if self._by_weight:
            divisors = np.bincount(np.repeat(np.arange(len(counts)), counts), self._weights[rows], len(counts))
        shares = (1 / np.where(divisors > 0, divisors, 1)).astype(np.float32)
        for first in range(0, len(counts), _BLOCK):
            here = slice(first, first + _BLOCK)
            order = np.argsort(-counts[here], kind="stable")
            begins, lengths = starts[here][order], counts[here][order]
            sums = np.zeros((len(order), out.shape[1]), np.float32)
            for word in range(int(lengths[0])):
                active = int(np.searchsorted(-lengths, -word))  # number of lines with more words than this
                np.take(self._table, rows[begins[:active] + word], axis=0, out=room[:active], mode="clip")
                sums[:active] += room[:active]
            sums *= shares[here][order, None]  # here, while they are in the cache
            out[first + order] = sums
        return out

    def _finished(self, rows: Floats) -> Floats:
        if self._common is not None:
            rows = rows - np.einsum("ij,j->i", rows, self._common)[:, None] * self._common
        return self._scaled(rows)

    def _scaled(self, rows: Floats) -> Floats:
        """The first dimensions, scaled to length 1 if the settings ask for it; rows of zeros remain zero."""
        rows = np.ascontiguousarray(rows[:, : self.dimensions])
        return unit(rows) if self.settings.normalize else rows


def _cases(word: str) -> tuple[str, ...]:
    """`word` in other letter cases."""
    return tuple({word.lower(), word.upper(), word.lower().capitalize()} - {word})
