"""Going through numbered chunks of work, epoch by epoch, by one process or by several over shared tables.

The processes do not wait for each other (Recht et al. 2011, "Hogwild!"): updates of the same row at the same moment may be
lost, which is rare and harmless as long as little is under way at once. Each takes the next chunk that nobody has, and
draws all its random numbers from a generator seeded by the number of the chunk, so that what is drawn does not depend on
who draws it. One process alone gives the same bytes every time.
"""

from __future__ import annotations

import abc
import math
import mmap
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from nlptools.errors import Diverged
from nlptools.training.word_vectors.processes import deal

DONE, LOSS, WEIGHT, BAD = range(4)  # what the board tells of each process
_LOWEST = 1e-4  # of the learning rate at the start


@dataclass(frozen=True)
class Plan:
    """How a text, or counts of pairs, are gone through."""

    ids: int  # of the text, ends of sequences included; or pairs
    epochs: int
    lr: float
    seed: int
    chunk: int = 1 << 16  # ids
    tokens: int = 384  # of one step, at most

    @property
    def chunks(self) -> int:
        """Chunks of one epoch."""
        return max(1, math.ceil(self.ids / self.chunk))

    @property
    def total(self) -> int:
        """Chunks of all epochs."""
        return self.chunks * self.epochs


@dataclass
class Progress:
    """What has been done."""

    chunk: int = 0  # the next one
    done: int = 0  # in-vocabulary words, those that were thinned out too; or pairs
    seconds: float = 0.0
    loss: float = math.nan  # mean over the pairs of the last part that was measured


class Chunks(abc.ABC):
    """Training that takes one chunk after the other.

    Attributes:
        unit: what `Progress.done` counts.
        size: how many of them an epoch has.
        unlearned: the loss of vectors that know nothing.
    """

    unit = "words"
    unlearned = math.inf
    size: int

    def __init__(self, plan: Plan, workers: int) -> None:
        self.plan, self.workers = plan, workers
        self._board = np.frombuffer(mmap.mmap(-1, 8 * 4 * workers), np.float64).reshape(workers, 4)

    def run(self, progress: Progress, last: int, report: Callable[[Progress], bool]) -> None:
        """Train on the chunks from `progress.chunk` up to `last`, or until `report` says that it is enough.

        Raises:
            Diverged: the loss is not finite.
            NlptoolsError: a process has died.
        """
        self._board[:] = 0
        before = Progress(progress.chunk, progress.done, progress.seconds)
        began = time.monotonic()

        def look() -> bool:
            done, loss, weight, bad = self._board.sum(0).tolist()  # Python's numbers divide inf by inf without a word
            progress.done = before.done + int(done)
            progress.seconds = before.seconds + time.monotonic() - began
            progress.loss = loss / weight if weight else progress.loss
            if bad:
                raise Diverged("the loss is not finite", hint=f"a lower --lr than {self.plan.lr:g}")
            return report(progress)

        def work(chunk: int, rank: int) -> None:
            if self.workers > 1:
                torch.set_num_threads(1)
            with torch.inference_mode():  # a tenth of the time goes into what derivatives would need
                self._chunk(chunk, rank)
            progress.chunk = chunk + 1  # one process: what `look` tells of

        progress.chunk = deal(progress.chunk, last, self.workers, work, look, lambda: bool(self._board[:, BAD].any()))
        look()

    def rate(self, done: float) -> float:
        """The learning rate when this share of all chunks is done."""
        return self.plan.lr * max(_LOWEST, 1 - done)

    @abc.abstractmethod
    def _chunk(self, chunk: int, rank: int) -> None:
        """Train on one chunk."""

    @abc.abstractmethod
    def held_out(self, ids: np.ndarray) -> float:
        """Mean loss of a pair of words of another text; the same every time."""
