"""Sources of batches: endless iterators with a state, so that a stopped run continues with its next batch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, Generic, Protocol, TypeVar

from nlptools.files.json_fields import whole
from nlptools.json_types import JsonObject

B = TypeVar("B")
P = TypeVar("P")
CHECKPOINT = "the checkpoint"  # in messages about values of `BatchSource.state`


class BatchSource(Protocol):
    """Where training batches come from.

    Attributes:
        rate: factor of the learning rate for the last batch.
    """

    batches_per_epoch: float
    rate: float = 1.0

    @property
    def ended(self) -> bool:
        """Whether training ends before its last step."""
        return False

    def collect(self, model: Any) -> None:
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
    Batches go to the ranks in turn; every rank makes the same number of steps.
    """

    step = 1  # positions per batch

    def __init__(self, seed: int = 0, rank: int = 0, world_size: int = 1) -> None:
        self.seed, self.rank, self.world_size = seed, rank, world_size
        self._epoch, self._position = 0, 0
        self._planned: tuple[int, P] | None = None

    @abstractmethod
    def _length(self) -> int:
        """The number of positions in this epoch."""

    @abstractmethod
    def _make_plan(self, epoch: int) -> P:
        """The plan of an epoch."""

    @abstractmethod
    def _batch(self, plan: P, position: int) -> B:
        """The batch at a position."""

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
                yield self._batch(self.plan, position)
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
