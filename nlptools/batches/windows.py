"""Batches of language-model windows of a corpus: each token is a target exactly once per epoch.

Shapes: B batch, T length.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nlptools.batches.source import WHOLE, EpochSource, Share
from nlptools.corpora.token_file import Corpus

NO_TARGET = -1
_RESTARTS = 0.02  # share of the batches of streams that reset the state


@dataclass(frozen=True)
class TextBatch:
    """Windows of text. `targets[b, t]` is the token after `ids[b, t]`, or NO_TARGET where there is none."""

    ids: np.ndarray  # (B, T) int64
    targets: np.ndarray  # (B, T) int64
    continues: bool = False  # each row continues the same row of the batch before

    @property
    def num_targets(self) -> int:
        """Number of real targets."""
        return int((self.targets != NO_TARGET).sum())


class ShuffledWindows(EpochSource[TextBatch, np.ndarray]):
    """Windows in random order, cut anew every epoch at a random offset; for models that see one window at a time."""

    def __init__(self, corpus: Corpus, length: int, batch_size: int, *, seed: int, share: Share = WHOLE) -> None:
        """`batch_size`: windows of a joint batch."""
        super().__init__(seed, share)
        self.corpus, self.length = corpus, length
        self.step = batch_size  # a position is a window
        self.batches_per_epoch = len(self._starts(0)) / self.step

    def _length(self) -> int:
        return len(self._starts(self._offset(self._epoch)))

    def _offset(self, epoch: int) -> int:
        """Length of the first window of an epoch; it is shortened so that the others start elsewhere each time."""
        return int(np.random.default_rng([self.seed, epoch]).integers(self.length))

    def _starts(self, offset: int) -> range:
        """First positions of the windows in their order; the first may lie before the text."""
        return range(offset - self.length if offset else 0, len(self.corpus) - 1, self.length)

    def _make_plan(self, epoch: int) -> np.ndarray:
        """First positions of the windows, shuffled."""
        starts = self._starts(self._offset(epoch))
        order = np.arange(starts.start, starts.stop, starts.step)
        return np.random.default_rng([self.seed, epoch, 1]).permutation(order)

    def _batch(self, plan: np.ndarray, position: int, mine: slice) -> TextBatch:
        starts = plan[position : position + self.step][mine]
        T, last = self.length, len(self.corpus) - 1
        rows = [(max(0, int(start)), min(int(start) + T, last)) for start in starts]
        return TextBatch(*_windows(self.corpus.ids, rows or [(0, 0)], T))


class ContiguousStreams(EpochSource[TextBatch, np.ndarray]):
    """`batch_size` streams of consecutive text side by side; for models that carry a state from batch to batch.

    One batch in 50 resets the state, so the model learns to start a text. A model that sees the initial state only once per epoch
    may not get from there to the states that it is trained in, which cells of an LSTM reach by counting up without a limit: two
    layers of 256 units, trained by AdamW on characters, have a loss of 3.5 nats on held-out text and 2.3 on training text; with
    these batches it is 2.2 on both.

    With `varied`, batches have random lengths, so that they begin elsewhere in each epoch (Merity et al. 2018,
    arXiv:1708.02182, section 5): normal around `length` with standard deviation 5, at least 5; one in 20 around half of it.
    The learning rate is proportional to the length.
    """

    def __init__(
        self,
        corpus: Corpus,
        length: int,
        batch_size: int,
        *,
        seed: int,
        share: Share = WHOLE,
        varied: bool = False,
    ) -> None:
        super().__init__(seed, share)
        self.corpus, self.length, self.streams, self.varied = corpus, length, batch_size, varied
        self._stream = -(-(len(corpus) - 1) // batch_size)  # targets per stream
        self.batches_per_epoch = float(len(self._make_plan(0)) - 1)

    def _length(self) -> int:
        return len(self.plan) - 1

    def _make_plan(self, epoch: int) -> np.ndarray:
        """First positions of the batches in their streams, and the end of the streams."""
        if not self.varied:
            return np.append(np.arange(0, self._stream, self.length), self._stream)
        rng = np.random.default_rng([self.seed, epoch])
        most = self._stream // min(5, self.length) + 1
        means = np.where(rng.random(most) < 0.95, self.length, self.length / 2)
        lengths = np.maximum(rng.normal(means, 5).astype(np.int64), min(5, self.length))
        starts = np.append(0, lengths.cumsum())
        return np.append(starts[starts < self._stream], self._stream)

    def _batch(self, plan: np.ndarray, position: int, mine: slice) -> TextBatch:
        last = len(self.corpus) - 1
        first, end = plan[position : position + 2].tolist()
        # the last batch may be shorter than planned: as long as the others, if lengths do not vary
        T = end - first if self.varied else self.length
        self.rate = T / self.length
        begins = [row * self._stream for row in range(self.streams)[mine]] or [last]
        ends = [min(begin + self._stream, last) for begin in begins]
        rows = [(begin + first, min(begin + first + T, stop)) for begin, stop in zip(begins, ends, strict=True)]
        begins_anew = np.random.default_rng([self.seed, self._epoch, position]).random() < _RESTARTS
        return TextBatch(*_windows(self.corpus.ids, rows, T), continues=position > 0 and not begins_anew)


def _windows(ids: np.ndarray, rows: list[tuple[int, int]], length: int) -> tuple[np.ndarray, np.ndarray]:
    """(B, T) ids and targets of windows from `first` to `last`, filled up with 0 and NO_TARGET on the right."""
    inputs = np.zeros((len(rows), length), np.int64)
    targets = np.full_like(inputs, NO_TARGET)
    for row, (first, last) in enumerate(rows):
        if last > first:
            inputs[row, : last - first] = ids[first:last]
            targets[row, : last - first] = ids[first + 1 : last + 1]
    return inputs, targets
