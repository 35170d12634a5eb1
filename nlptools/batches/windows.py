"""Batches of language-model windows out of a corpus: each token is a target exactly once per epoch.

A source is an iterator with `state()` and `restore()`, so that a run stopped after any batch goes on with the next one.
Shapes: B batch, T length.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from nlptools.corpora.token_file import Corpus

NO_TARGET = -1


@dataclass(frozen=True)
class Batch:
    """Windows of text. `targets[b, t]` is what follows `ids[b, t]`, or -1 where nothing is to be predicted."""

    ids: np.ndarray  # (B, T) int64
    targets: np.ndarray  # (B, T) int64
    continues: bool = False  # each row goes on where the same row of the batch before ended

    @property
    def num_targets(self) -> int:
        """Targets that count."""
        return int((self.targets != NO_TARGET).sum())


class Source(Protocol):
    """Where batches come from."""

    batches_per_epoch: float

    @property
    def epoch(self) -> float:
        """Epochs done, with their fraction."""

    def __iter__(self) -> Iterator[Any]:
        """Batches without end, as the objective takes them."""

    def state(self) -> dict[str, Any]:
        """Where the source stands, as plain numbers."""

    def restore(self, state: dict[str, Any]) -> None:
        """Go back to a `state()`."""


class ShuffledWindows:
    """Windows in random order, cut anew every epoch at a random offset; for models that see one window at a time."""

    def __init__(
        self, corpus: Corpus, length: int, batch_size: int, *, seed: int, rank: int = 0, world_size: int = 1
    ) -> None:
        self.corpus, self.length, self.batch_size = corpus, length, batch_size
        self.seed, self.rank, self.world_size = seed, rank, world_size
        self._epoch, self._position = 0, 0
        self._order: np.ndarray | None = None
        self.batches_per_epoch = self._num_windows(0) / (batch_size * world_size)

    @property
    def epoch(self) -> float:
        """Epochs done, with their fraction."""
        return self._epoch + self._position / self._num_windows(self._offset())

    def __iter__(self) -> Iterator[Batch]:
        share = self.batch_size * self.world_size
        while True:
            starts = self._starts()
            while self._position < len(starts):
                chosen = starts[self._position : self._position + share]
                self._position += len(chosen)
                mine = chosen[self.rank :: self.world_size]
                yield self._batch(mine)
            self._epoch, self._position, self._order = self._epoch + 1, 0, None

    def state(self) -> dict[str, Any]:
        """See `Source`."""
        return {"epoch": self._epoch, "position": self._position}

    def restore(self, state: dict[str, Any]) -> None:
        """See `Source`."""
        self._epoch, self._position, self._order = int(state["epoch"]), int(state["position"]), None

    def _offset(self) -> int:
        """Length of the first window of this epoch, which is cut short so that the others start elsewhere each time."""
        return int(np.random.default_rng([self.seed, self._epoch]).integers(self.length))

    def _num_windows(self, offset: int) -> int:
        return len(range(offset - self.length if offset else 0, len(self.corpus) - 1, self.length))

    def _starts(self) -> np.ndarray:
        """First positions of the windows of this epoch, shuffled; the first may lie before the text."""
        if self._order is None:
            offset = self._offset()
            starts = np.arange(offset - self.length if offset else 0, len(self.corpus) - 1, self.length)
            rng = np.random.default_rng([self.seed, self._epoch, 1])
            self._order = rng.permutation(starts)
        return self._order

    def _batch(self, starts: np.ndarray) -> Batch:
        T, ids = self.length, self.corpus.ids
        rows = np.zeros((max(1, len(starts)), T), np.int64)
        targets = np.full_like(rows, NO_TARGET)
        for row, start in enumerate(starts):
            first, last = max(0, int(start)), min(int(start) + T, len(ids) - 1)
            rows[row, : last - first] = ids[first:last]
            targets[row, : last - first] = ids[first + 1 : last + 1]
        return Batch(rows, targets)


class ContiguousStreams:
    """`batch_size` streams of consecutive text side by side; for models that carry a state from batch to batch."""

    def __init__(
        self, corpus: Corpus, length: int, batch_size: int, *, seed: int, rank: int = 0, world_size: int = 1
    ) -> None:
        self.corpus, self.length, self.batch_size = corpus, length, batch_size
        self.rank, self.world_size = rank, world_size
        streams = batch_size * world_size
        self._stream = -(-(len(corpus) - 1) // streams)  # targets per stream
        self._steps = -(-self._stream // length)
        self.batches_per_epoch = float(self._steps)
        self._epoch, self._position = 0, 0

    @property
    def epoch(self) -> float:
        """Epochs done, with their fraction."""
        return self._epoch + self._position / self._steps

    def __iter__(self) -> Iterator[Batch]:
        while True:
            while self._position < self._steps:
                self._position += 1
                yield self._batch(self._position - 1)
            self._epoch, self._position = self._epoch + 1, 0

    def state(self) -> dict[str, Any]:
        """See `Source`."""
        return {"epoch": self._epoch, "position": self._position}

    def restore(self, state: dict[str, Any]) -> None:
        """See `Source`."""
        self._epoch, self._position = int(state["epoch"]), int(state["position"])

    def _batch(self, step: int) -> Batch:
        T, ids = self.length, self.corpus.ids
        rows = np.zeros((self.batch_size, T), np.int64)
        targets = np.full_like(rows, NO_TARGET)
        for row in range(self.batch_size):
            begin = (self.rank * self.batch_size + row) * self._stream
            end = min(begin + self._stream, len(ids) - 1)
            first, last = begin + step * T, min(begin + (step + 1) * T, end)
            if last > first:
                rows[row, : last - first] = ids[first:last]
                targets[row, : last - first] = ids[first + 1 : last + 1]
        return Batch(rows, targets, continues=step > 0)
