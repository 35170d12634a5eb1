"""Sources of batches: endless iterators with a state, so that a stopped run continues with its next batch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from nlptools.files.json_fields import whole
from nlptools.json_types import JsonObject

B = TypeVar("B")
P = TypeVar("P")
CHECKPOINT = "the checkpoint"  # in messages about values of `BatchSource.state`


@dataclass(frozen=True)
class Share:
    """The rows of each joint batch that one of several processes trains on.

    A joint batch is a function of the seed and of its number, whatever the number of processes. Its rows go to the processes in
    turn. A process that has too many for its memory trains on them in several parts, one after the other.
    """

    rank: int = 0
    world_size: int = 1
    parts: int = 1

    @property
    def all_parts(self) -> int:
        """Number of parts of all processes."""
        return self.world_size * self.parts

    def rows(self, part: int) -> slice:
        """The rows of a part of this process."""
        return slice(part * self.world_size + self.rank, None, self.all_parts)

    @classmethod
    def of(cls, size: int, joint: int, rank: int, world_size: int) -> tuple[int, Share]:
        """The size of the joint batches, and the share of a process.

        Args:
            size: the most rows (or tokens) that a process computes with at a time.
            joint: the size of the joint batches; 0: `size` for each process.
        """
        if not joint:
            return size * world_size, cls(rank, world_size)
        return joint, cls(rank, world_size, -(-joint // (size * world_size)))


WHOLE = Share()


class BatchSource(Protocol):
    """Where training batches come from.

    Attributes:
        share: this process's part of each batch; the batches of its parts come one after the other.
        rate: factor of the learning rate for the last batch.
        streams: rows of a joint batch, where each row continues the same row of the batch before; else 0.
    """

    share: Share = WHOLE
    streams: int = 0
    batches_per_epoch: float  # joint batches
    rate: float = 1.0

    @property
    def ended(self) -> bool:
        """Whether training ends before its last step."""
        return False

    def collect(self, model: object) -> None:
        """Prepare the next batch with the model that trains, where batches consist of its samples. Raises Interrupted."""
        return None

    @property
    def epoch(self) -> float:
        """Epochs done, with their fraction."""

    def __iter__(self) -> Iterator[Any]:
        """Batches without end, as the objective takes them."""

    def state(self) -> JsonObject:
        """The position of the source, as plain numbers."""

    def restore(self, state: JsonObject) -> None:
        """Go back to a `state()`."""


class EpochSource(BatchSource, ABC, Generic[B, P]):
    """A `BatchSource` of batches B that goes through the data epoch by epoch, each by its own plan P.

    The plan is a function of the seed and the number of the epoch, so the state is that number and the position in the plan.
    """

    step = 1  # positions per batch

    def __init__(self, seed: int = 0, share: Share = WHOLE) -> None:
        self.seed, self.share = seed, share
        self._epoch, self._position = 0, 0
        self._planned: tuple[int, P] | None = None

    @abstractmethod
    def _length(self) -> int:
        """The number of positions in this epoch."""

    @abstractmethod
    def _make_plan(self, epoch: int) -> P:
        """The plan of an epoch."""

    @abstractmethod
    def _batch(self, plan: P, position: int, mine: slice) -> B:
        """The rows `mine` of the joint batch at a position. If there are none, a batch without targets."""

    @property
    def epoch(self) -> float:
        """Epochs done, with their fraction."""
        return self._epoch + self._position / self._length()

    def __iter__(self) -> Iterator[B]:
        while True:
            length = self._length()
            while self._position < length:
                position = self._position
                self._position = min(position + self.step, length)
                for part in range(self.share.parts):
                    yield self._batch(self.plan, position, self.share.rows(part))
            self._epoch, self._position = self._epoch + 1, 0

    @property
    def plan(self) -> P:
        """The plan of this epoch, made once."""
        if self._planned is None or self._planned[0] != self._epoch:
            self._planned = None  # frees the plan of the last epoch
            self._planned = self._epoch, self._make_plan(self._epoch)
        return self._planned[1]

    def state(self) -> JsonObject:
        """See `BatchSource`."""
        return {"epoch": self._epoch, "position": self._position}

    def restore(self, state: JsonObject) -> None:
        """See `BatchSource`."""
        self._epoch, self._position = whole(state, "epoch", CHECKPOINT), whole(state, "position", CHECKPOINT)
