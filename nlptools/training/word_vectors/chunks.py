"""Training over numbered chunks, epoch by epoch, by one process or by several with shared tables.

The processes do not wait for each other (Recht et al. 2011, "Hogwild!"): simultaneous updates of the same row may be lost,
which is rare and harmless as long as the processes work on few pairs at a time. Each process takes the next free chunk and
draws all random numbers from a generator seeded by the number of the chunk, so they do not depend on which process draws
them. A single process gives the same bytes every time.
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

DONE, LOSS, WEIGHT, BAD = range(4)  # columns of the shared board, which has a row for each process
_LOWEST = 1e-4  # lowest learning rate, as a share of the initial one


@dataclass(frozen=True)
class Plan:
    """The division of a text, or of counted pairs, into epochs and chunks."""

    ids: int  # number of ids of the text, ends of sequences included; or of pairs
    epochs: int
    lr: float
    seed: int
    chunk: int = 1 << 16  # ids of a chunk
    tokens: int = 384  # maximum number of tokens of a step

    @property
    def chunks(self) -> int:
        """Chunks of one epoch."""
        return max(1, math.ceil(self.ids / self.chunk))

    @property
    def total(self) -> int:
        """Chunks of all epochs."""
        return self.chunks * self.epochs


@dataclass
class ChunkProgress:
    """The progress of a run."""

    chunk: int = 0  # the next chunk
    done: int = 0  # in-vocabulary words, including those that subsampling drops; or pairs
    seconds: float = 0.0
    loss: float | None = None  # mean over the pairs since the last call of `Chunks.run`; None without pairs


# trains from the progress up to a chunk, or until the function returns True: `Chunks.run`, or `merging.MergedChunks.run`
Advance = Callable[[ChunkProgress, int, Callable[[ChunkProgress], bool]], None]


class Chunks(abc.ABC):
    """Training, chunk by chunk.

    Attributes:
        unit: the unit of `ChunkProgress.done`.
        size: their number in an epoch.
        untrained_loss: the loss of untrained vectors.
    """

    unit = "words"
    untrained_loss = math.inf
    size: int

    def __init__(self, plan: Plan, workers: int) -> None:
        self.plan, self.workers = plan, workers
        self._board = np.frombuffer(mmap.mmap(-1, 8 * 4 * workers), np.float64).reshape(workers, 4)

    def run(
        self,
        progress: ChunkProgress,
        last: int,
        report: Callable[[ChunkProgress], bool],
        rank: int = 0,
        world_size: int = 1,
    ) -> None:
        """Train on the chunks from `progress.chunk` up to `last`, or until `report` returns True.

        With `world_size` processes, on each n-th chunk only, beginning with chunk number `rank`.

        Raises:
            Diverged: the loss is not finite.
            NlptoolsError: a process has died.
        """
        self._board[:] = 0
        before = ChunkProgress(progress.chunk, progress.done, progress.seconds)
        began = time.monotonic()

        def look() -> bool:
            done, loss, weight, bad = self._board.sum(0).tolist()  # Python floats divide inf by inf without a warning
            progress.done = before.done + int(done)
            progress.seconds = before.seconds + time.monotonic() - began
            progress.loss = loss / weight if weight else progress.loss
            if bad:
                raise Diverged("the loss is not finite", hint=f"use a lower --lr than {self.plan.lr:g}")
            return report(progress)

        mine = range(progress.chunk + rank, last, world_size)

        def work(piece: int, worker: int) -> None:
            if self.workers > 1:
                torch.set_num_threads(1)
            with torch.inference_mode():  # autograd would take a tenth of the time
                self._chunk(mine[piece], worker)
            progress.chunk = mine[piece] + 1  # for `look` when there is only one process

        pieces = deal(0, len(mine), self.workers, work, look, lambda: bool(self._board[:, BAD].any()))
        progress.chunk = before.chunk + pieces * world_size
        look()

    def sums(self) -> list[float]:
        """Of the last call of `run`: words or pairs that were processed, the sum of losses, and the number of losses."""
        sums: list[float] = self._board.sum(0).tolist()
        return [sums[column] for column in (DONE, LOSS, WEIGHT)]

    def rate(self, done: float) -> float:
        """The learning rate after the share `done` of all chunks."""
        return self.plan.lr * max(_LOWEST, 1 - done)

    @abc.abstractmethod
    def _chunk(self, chunk: int, rank: int) -> None:
        """Train on one chunk."""

    @abc.abstractmethod
    def held_out(self, ids: np.ndarray) -> float | None:
        """Mean loss per pair of words of a held-out text, None without pairs; the same every time."""
