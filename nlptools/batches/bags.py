"""Batches of bags of words and n-grams: rows end to end, in random order, without padding.

Shapes: N examples, B of a batch, C texts of an example (1 or 2), P words and n-grams of a batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count

import numpy as np

from nlptools.batches.encoder_rows import bounds_of, ranges
from nlptools.batches.features import WEIGHT, Features
from nlptools.batches.source import CHECKPOINT, WHOLE, BatchSource, Share
from nlptools.files.json_fields import whole
from nlptools.files.prefetch import one_ahead
from nlptools.json_types import JsonObject

_BLOCK = 8192  # examples gathered together


@dataclass(frozen=True)
class BagBatch:
    """Some examples.

    Attributes:
        ids: (P,) int64, of the first text, the second and so on.
        lengths: (B C,) int64, the number of ids of each text.
        targets: in the order of `Features.targets`.
        weight: sum of the weights, the divisor of the loss.
    """

    ids: np.ndarray
    lengths: np.ndarray
    targets: tuple[np.ndarray, ...]
    weight: float

    @property
    def inputs(self) -> tuple[np.ndarray, ...]:
        """The arguments of the model: ids and lengths."""
        return self.ids, self.lengths


def text_lengths(features: Features, texts: int) -> np.ndarray:
    """(N, C) words and n-grams of each text of each row."""
    whole = features.lengths
    if texts == 1:
        return whole[:, None]
    seconds = np.concatenate([[0], np.cumsum(features.rows.types, dtype=np.int64)])
    second = np.diff(seconds[features.rows.bounds])
    return np.stack([whole - second, second], 1)


def bag_rows(features: Features, lengths: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(P,) ids and (B C,) lengths of some rows; `lengths`: `text_lengths` of all."""
    places = ranges(features.rows.bounds[rows], features.lengths[rows])
    return np.take(features.rows.ids, places).astype(np.int64), lengths[rows].ravel()


class BagBatches(BatchSource):
    """Batches in random order: each example exactly once per epoch. The next batches are gathered while one is used."""

    def __init__(self, features: Features, batch_size: int, *, texts: int, seed: int, share: Share = WHOLE) -> None:
        """`batch_size`: examples of a joint batch; `texts`: C."""
        self.share, self.features, self.batch_size, self.texts, self.seed = share, features, batch_size, texts, seed
        self._epoch, self._position = 0, 0
        self._steps = -(-len(features) // batch_size)
        self.batches_per_epoch = float(self._steps)
        self._lengths = text_lengths(features, texts)

    @property
    def epoch(self) -> float:
        """Epochs done, with their fraction."""
        return self._epoch + self._position / self._steps

    def state(self) -> JsonObject:
        """See `BatchSource`."""
        return {"epoch": self._epoch, "position": self._position}

    def restore(self, state: JsonObject) -> None:
        """See `BatchSource`."""
        self._epoch, self._position = whole(state, "epoch", CHECKPOINT), whole(state, "position", CHECKPOINT)

    def __iter__(self) -> Iterator[BagBatch]:
        for batches in one_ahead(self._blocks(self._epoch, self._position)):
            if self._position == self._steps:
                self._epoch, self._position = self._epoch + 1, 0
            for begin in range(0, len(batches), self.share.parts):
                self._position += 1
                yield from batches[begin : begin + self.share.parts]

    def _blocks(self, epoch: int, position: int) -> Iterator[list[BagBatch]]:
        """The batches from a position on, made of some thousand examples of one epoch at a time."""
        size = max(1, _BLOCK // self.batch_size) * self.batch_size
        for number in count(epoch):
            order = np.random.default_rng([self.seed, number]).permutation(len(self.features))
            for begin in range(position * self.batch_size, len(order), size):
                yield list(self._batches(order[begin : begin + size]))
            position = 0

    def _batches(self, rows: np.ndarray) -> Iterator[BagBatch]:
        """The parts of this process of the batches of the examples `rows`."""
        joint = (rows[begin : begin + self.batch_size] for begin in range(0, len(rows), self.batch_size))
        parts = [some[self.share.rows(part)] for some in joint for part in range(self.share.parts)]
        mine = np.concatenate(parts)
        ids, lengths = bag_rows(self.features, self._lengths, mine)
        bounds = bounds_of(lengths)
        targets = {name: np.array(array[mine]) for name, array in self.features.targets.items()}
        ends = np.cumsum([len(part) for part in parts])
        for begin, end in zip(ends - [len(part) for part in parts], ends, strict=True):
            first, last = begin * self.texts, end * self.texts
            some = {name: array[begin:end] for name, array in targets.items()}
            weight = float(some[WEIGHT].sum(dtype=np.float64))
            yield BagBatch(ids[bounds[first] : bounds[last]], lengths[first:last], tuple(some.values()), weight)
