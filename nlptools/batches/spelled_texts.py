"""Batches of texts for bidirectional language models of words that are read as their spellings.

A text is its words between its two boundaries. Long texts are cut into pieces that share the word at the cut, so that in each
direction every word, and the boundary at the end, is a target once per epoch. A batch has its different words once.
Shapes: B pieces, T words of the longest piece, U different words, C columns of a spelling.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from nlptools.arrays import places_in_rows
from nlptools.batches.pairs import cut_batches
from nlptools.batches.source import WHOLE, EpochSource, Share
from nlptools.batches.windows import NO_TARGET
from nlptools.corpora.token_file import Corpus
from nlptools.text import byte_spelling

_POOL = 1 << 14  # pieces that are sorted by length before they are batched


@dataclass(frozen=True)
class SpelledBatch:
    """Pieces of texts, padded on the right."""

    spellings: np.ndarray  # (U, C) int16
    places: np.ndarray  # (B, T) int64: the number of each word, boundaries included, among the different ones
    lengths: np.ndarray  # (B,) int64
    following: np.ndarray  # (B, T) int64: the token after each word, or NO_TARGET
    preceding: np.ndarray  # (B, T) int64: the token before each word, or NO_TARGET

    @property
    def num_targets(self) -> int:
        """Number of targets in each direction."""
        return int((self.following != NO_TARGET).sum())


class SpellingPlan(NamedTuple):
    """The plan of an epoch: positions in the text of the first and the last word of each piece, and the first piece of each
    batch, with the end; the order of the batches.
    """

    first: np.ndarray
    last: np.ndarray
    bounds: np.ndarray
    turns: np.ndarray


class SpelledTexts(EpochSource[SpelledBatch, SpellingPlan]):
    """Batches of pieces of similar length, in random order; long texts are cut elsewhere in each epoch."""

    def __init__(
        self,
        corpus: Corpus,
        tokens: list[str],
        length: int,
        batch_size: int,
        *,
        eos: int,
        unk: int | None,
        seed: int,
        share: Share = WHOLE,
    ) -> None:
        """
        Args:
            corpus: with the spellings of words outside the vocabulary.
            tokens: of the vocabulary, one for each id.
            length: most targets of a piece in each direction.
            batch_size: pieces of that length in a joint batch; of shorter ones there are as many more.
            eos, unk: the token of both boundaries, and the token of targets outside the vocabulary.
        """
        super().__init__(seed, share)
        assert corpus.spellings is not None
        self.corpus, self.length, self.batch_words = corpus, length, batch_size * (length + 1)
        self.eos, self.unk, self.vocab_size = eos, unk, len(tokens)
        known = byte_spelling.spell(tokens)
        self._spellings = np.concatenate([known, corpus.spellings, byte_spelling.boundaries()])
        self._ends = np.flatnonzero(corpus.ids == eos)
        self.batches_per_epoch = float(self._length())

    def _length(self) -> int:
        return len(self.plan.turns)

    def _make_plan(self, epoch: int) -> SpellingPlan:
        random = np.random.default_rng([self.seed, epoch])
        begins, ends = self._ends[:-1], self._ends[1:]
        # the first piece of a long text is shorter, so that the others begin elsewhere in each epoch
        missing = np.where(ends - begins > self.length, random.integers(self.length, size=len(begins)), 0)
        counts = -(-(ends - begins + missing) // self.length)
        number = places_in_rows(counts)
        first = np.repeat(begins - missing, counts) + number * self.length
        last = np.minimum(first + self.length, np.repeat(ends, counts))
        first = np.maximum(first, np.repeat(begins, counts))
        order = random.permutation(len(first))
        widths = (last - first + 1)[order]
        order = order[np.lexsort((widths, np.arange(len(order)) // _POOL))]
        first, last = first[order], last[order]
        bounds = cut_batches(last - first + 1, self.batch_words)
        return SpellingPlan(first, last, bounds, random.permutation(len(bounds) - 1))

    def _batch(self, plan: SpellingPlan, position: int, mine: slice) -> SpelledBatch:
        batch = plan.turns[position]
        rows = np.arange(plan.bounds[batch], plan.bounds[batch + 1])
        chosen = rows[mine]
        real = len(chosen) > 0  # else a piece is repeated without targets
        chosen = chosen if real else rows[:1]
        made = self._pieces(plan.first[chosen], plan.last[chosen])
        if real:
            return made
        nothing = np.full_like(made.following, NO_TARGET)
        return SpelledBatch(made.spellings, made.places, made.lengths, nothing, nothing)

    def _pieces(self, first: np.ndarray, last: np.ndarray) -> SpelledBatch:
        """The pieces from `first` to `last`, (B,) each."""
        lengths = last - first + 1
        columns = np.arange(int(lengths.max()))
        real = columns < lengths[:, None]
        numbers = np.full(real.shape, self.eos, np.int64)
        numbers[real] = self.corpus.ids[(first[:, None] + columns)[real]]
        targets = numbers if self.unk is None else np.where(numbers < self.vocab_size, numbers, self.unk)
        following, preceding = np.full_like(numbers, NO_TARGET), np.full_like(numbers, NO_TARGET)
        following[:, :-1][real[:, 1:]] = targets[:, 1:][real[:, 1:]]
        preceding[:, 1:][real[:, 1:]] = targets[:, :-1][real[:, 1:]]
        boundary = numbers == self.eos
        begin = len(self._spellings) - 2
        numbers[boundary] = np.where(np.broadcast_to(columns == 0, real.shape)[boundary], begin, begin + 1)
        different, places = np.unique(numbers, return_inverse=True)
        return SpelledBatch(self._spellings[different], places.reshape(numbers.shape), lengths, following, preceding)
