"""Batches of sentence pairs of similar length: each pair exactly once per epoch.

Pairs are sorted by target length, then by source length, pairs of equal lengths in random order; consecutive ones make a
batch as long as they fit, and the batches come in random order. Source lengths rise within one target length and fall
within the next, so neighbours at the boundary are also similar. Shapes: B batch, T target length, S source length.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nlptools.batches.source import WHOLE, EpochSource, Share
from nlptools.batches.windows import NO_TARGET
from nlptools.corpora.parallel import ParallelCorpus
from nlptools.corpora.segmentations import Sentences
from nlptools.errors import UsageError
from nlptools.text.pair_format import PairMarks

POOL = 1 << 17  # pairs sorted together: few enough that the batches differ from epoch to epoch


@dataclass(frozen=True)
class PairBatch:
    """Sentence pairs, padded on the right. `targets[b, t]` is the token after `inputs[b, t]`, or -1 for padding, and for a token
    that every target begins with.
    """

    source: np.ndarray  # (B, S) int64: tokens, end, padding
    source_mask: np.ndarray  # (B, S) bool, True = real, the end included
    inputs: np.ndarray  # (B, T) int64: start, tokens, padding
    targets: np.ndarray  # (B, T) int64: tokens, end, then -1

    @property
    def num_targets(self) -> int:
        """Number of real targets."""
        return int((self.targets != NO_TARGET).sum())


@dataclass(frozen=True)
class _Marks:
    """The special tokens of rows."""

    pad: int
    pair: PairMarks

    def batch(self, source: Sentences, target: Sentences, rows: np.ndarray) -> PairBatch:
        """The pairs `rows`, one below the other. Without any, a row without targets."""
        if not len(rows):
            return self._nothing()
        source_ids, source_mask = self._side(source, rows, self.pad, self.pair.before, self.pair.ends)
        read = self.pair.read
        targets, _ = self._side(target, rows, NO_TARGET, (NO_TARGET,) * (len(read) - 1), (self.pair.eos,))
        inputs = np.empty_like(targets)
        inputs[:, : len(read)] = read
        inputs[:, len(read) :] = targets[:, len(read) - 1 : -1]
        # the end token is not an input: padding follows the last token
        inputs[:, len(read) :][targets[:, len(read) :] == NO_TARGET] = self.pad
        return PairBatch(source_ids, source_mask, inputs, targets)

    def _nothing(self) -> PairBatch:
        source, inputs, targets = (np.array([[id]], np.int64) for id in (self.pair.eos, self.pair.start, NO_TARGET))
        return PairBatch(source, source == self.pair.eos, inputs, targets)

    def _side(
        self, sentences: Sentences, rows: np.ndarray, fill: int, before: tuple[int, ...], after: tuple[int, ...]
    ) -> tuple[np.ndarray, np.ndarray]:
        """(B, L) tokens between those `before` and `after`, and `fill`; and (B, L) the mask of what is not `fill`."""
        starts = sentences.offsets[rows]
        lengths = sentences.offsets[rows + 1] - starts
        columns = np.arange(int(lengths.max()) + len(before) + len(after)) - len(before)
        real = (columns >= 0) & (columns < lengths[:, None])
        out = np.full(real.shape, fill, np.int64)
        out[real] = sentences.ids[(starts[:, None] + columns)[real]]
        out[:, : len(before)] = before
        for place, token in enumerate(after, len(before)):
            out[np.arange(len(rows)), lengths + place] = token
        return out, columns < lengths[:, None] + len(after)


@dataclass(frozen=True)
class _Plan:
    """The plan of an epoch: pairs in the order in which batches are cut, the first of each batch, and the end."""

    source: Sentences
    target: Sentences
    order: np.ndarray  # (pairs,)
    bounds: np.ndarray  # (batches + 1,)
    turns: np.ndarray  # (batches,): the order of the batches

    def rows(self, turn: int) -> np.ndarray:
        batch = self.turns[turn]
        return self.order[self.bounds[batch] : self.bounds[batch + 1]]


class PairBatches(EpochSource[PairBatch, _Plan]):
    """Batches of a parallel corpus.

    The plan of an epoch includes the segmentations, if the corpus has several.
    """

    def __init__(
        self,
        corpus: ParallelCorpus,
        *,
        batch_tokens: int,
        batch_size: int = 0,
        seed: int,
        pad: int,
        marks: PairMarks,
        ids_per_position: int = 1,
        share: Share = WHOLE,
    ) -> None:
        """Args:
            batch_tokens: most tokens of a joint batch: rows times the longest side of any, special tokens and padding
                included; a longer pair is a separate batch. 0: no limit.
            batch_size: most rows of a joint batch; 0: no limit.
            pad, marks: the tokens for padding, and around sources and targets.
            ids_per_position: source tokens that count as one.

        Raises:
            UsageError: neither `batch_tokens` nor `batch_size`.
        """
        if batch_tokens <= 0 and batch_size <= 0:
            raise UsageError("no limit for a batch: expected a number of tokens, or of sentence pairs")
        super().__init__(seed, share)
        self.corpus, self.batch_tokens, self.batch_size = corpus, batch_tokens, batch_size
        self._marks, self._ids_per_position = _Marks(pad, marks), ids_per_position
        self.batches_per_epoch = float(self._length())

    def _length(self) -> int:
        return len(self.plan.turns)

    def _batch(self, plan: _Plan, position: int, mine: slice) -> PairBatch:
        return self._marks.batch(plan.source, plan.target, plan.rows(position)[mine])

    def _make_plan(self, epoch: int) -> _Plan:
        source, target = self.corpus.draw(self.seed, epoch)
        random = np.random.default_rng([self.seed, epoch])
        order = _sorted(source.lengths, target.lengths, random)
        marks = self._marks.pair
        positions = source.lengths // self._ids_per_position + marks.of_source
        widest = np.maximum(positions, target.lengths + len(marks.read))[order]
        # start at a random pair of the first batch, so that all batches are cut elsewhere in each epoch
        shift = int(random.integers(_rows_that_fit(widest, self.batch_tokens, self.batch_size)))
        order, widest = np.roll(order, -shift), np.roll(widest, -shift)
        bounds = cut_batches(widest, self.batch_tokens, self.batch_size)
        return _Plan(source, target, order, bounds, random.permutation(len(bounds) - 1))


def cut_batches(widths: np.ndarray, batch_tokens: int, batch_size: int = 0) -> np.ndarray:
    """The first row of each batch, and the end, where each takes as many consecutive rows as fit, at least one.

    Rows fit as long as their number times the largest of their `widths` is at most `batch_tokens`, and they are at most
    `batch_size`; 0: no limit.
    """
    bounds = [0]
    while bounds[-1] < len(widths):
        bounds.append(bounds[-1] + _rows_that_fit(widths[bounds[-1] :], batch_tokens, batch_size))
    return np.array(bounds, np.int64)


def _rows_that_fit(widths: np.ndarray, batch_tokens: int, batch_size: int) -> int:
    """Rows of the first batch."""
    most = min(len(widths), batch_size or len(widths))
    if not batch_tokens:
        return most
    most = max(1, min(most, batch_tokens // int(widths[0])))  # the first row alone allows no more
    areas = np.maximum.accumulate(widths[:most]) * np.arange(1, most + 1)  # these only grow
    return max(1, int(np.searchsorted(areas, batch_tokens, "right")))


def _sorted(source: np.ndarray, target: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """An order of pairs by target length, then source length; equal ones in random order.

    Large corpora are first divided into random pools; every second pool is sorted from long to short.
    """
    pairs = len(source)
    order = random.permutation(pairs)
    pools = max(1, round(pairs / POOL))
    source, target = source[order], target[order]
    width, height = int(source.max()) + 1, int(target.max()) + 1
    key = target * width + np.where(target % 2, width - 1 - source, source)
    if pools > 1:
        pool = np.arange(pairs) * pools // pairs
        key = pool * width * height + np.where(pool % 2, width * height - 1 - key, key)
    result: np.ndarray = order[np.argsort(key, kind="stable")]
    return result
