"""Stochastic gradient descent over the text in chunks, by several processes over shared tables.

The processes do not wait for each other (Recht et al. 2011, "Hogwild!"): updates of the same row at the same moment may be
lost, which is rare and harmless as long as few tokens are under way at once. Each takes the next chunk that nobody has,
and draws all its random numbers from a generator seeded by the number of the chunk, so that what is drawn does not depend
on who draws it. One process alone gives the same bytes every time.
"""

from __future__ import annotations

import math
import mmap
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nlptools.embeddings.architectures import Architecture
from nlptools.embeddings.outputs import Output
from nlptools.embeddings.windows import Windows
from nlptools.errors import Diverged, NlptoolsError

IN_FLIGHT = 25.0  # tokens whose updates are under way at once, times the learning rate
_LOSS_EVERY = 32  # steps
_LOWEST = 1e-4  # of the learning rate at the start
_WORDS, _LOSS, _WEIGHT, _BAD = range(4)  # what the board tells of each process


@dataclass(frozen=True)
class Plan:
    """How a text is gone through."""

    ids: int  # of the text, ends of sequences included
    epochs: int
    lr: float
    seed: int
    chunk: int = 1 << 16  # ids
    tokens: int = 512  # of one step, at most

    @property
    def chunks(self) -> int:
        """Chunks of one epoch."""
        return max(1, math.ceil(self.ids / self.chunk))

    @property
    def total(self) -> int:
        """Chunks of all epochs."""
        return self.chunks * self.epochs


@dataclass
class Model:
    """What is trained: an architecture over an output layer."""

    windows: Windows
    architecture: Architecture
    output: Output


@dataclass
class Progress:
    """What has been done."""

    chunk: int = 0  # the next one
    words: int = 0  # in-vocabulary words, those that were thinned out too
    seconds: float = 0.0
    loss: float = math.nan  # mean over the pairs of the last part that was measured, in nats


def shared(rows: int, columns: int) -> Tensor:
    """float32 zeros that forked processes share."""
    memory = mmap.mmap(-1, max(1, rows * columns * 4))
    return torch.frombuffer(memory, dtype=torch.float32, count=rows * columns).view(rows, columns)


class Trainer:
    """Trains a model on token ids.

    Args:
        ids: int32, those of the text; see `nlptools.data.sequences`.
        end: the id that ends a sequence.
        workers: processes; 1: this one.
    """

    def __init__(self, model: Model, ids: np.ndarray, end: int, plan: Plan, workers: int, device: torch.device) -> None:
        self.model, self.ids, self.end, self.plan, self.workers, self.device = model, ids, end, plan, workers, device
        tokens = int(min(plan.tokens, IN_FLIGHT / plan.lr / workers))
        self.tiles = max(1, tokens // model.windows.tile)  # of a step
        self.words = int((ids != end).sum())  # of an epoch
        self._board = np.frombuffer(mmap.mmap(-1, 8 * 4 * workers), np.float64).reshape(workers, 4)

    def run(self, progress: Progress, last: int, report: Callable[[Progress], bool]) -> None:
        """Train on the chunks from `progress.chunk` up to `last`, or until `report` says that it is enough.

        Raises:
            Diverged: the loss is not finite.
            NlptoolsError: a process has died.
        """
        self._board[:] = 0
        before = Progress(progress.chunk, progress.words, progress.seconds)
        began = time.monotonic()

        def look() -> bool:
            words, loss, weight, bad = self._board.sum(0)
            progress.words = before.words + int(words)
            progress.seconds = before.seconds + time.monotonic() - began
            progress.loss = loss / weight if weight else progress.loss
            if bad:
                raise Diverged("the loss is not finite", hint=f"a lower --lr than {self.plan.lr:g}")
            return report(progress)

        if self.workers > 1:
            progress.chunk = self._fork(progress.chunk, last, look)
        else:
            while progress.chunk < last:
                self._chunk(progress.chunk, 0)
                progress.chunk += 1
                if look():
                    break
        look()

    def _fork(self, first: int, last: int, look: Callable[[], bool]) -> int:
        """Train in other processes; returns the number of the next chunk."""
        context: Any = multiprocessing.get_context("fork")
        counter, enough = context.Value("q", first), context.Value("b", 0)
        workers = [
            context.Process(target=self._work, args=(rank, counter, last, enough, os.getpid()), daemon=True)
            for rank in range(self.workers)
        ]
        try:
            for worker in workers:
                worker.start()
            while any(worker.is_alive() for worker in workers):
                workers[0].join(0.1) if workers[0].is_alive() else time.sleep(0.02)
                if look():
                    enough.value = 1
            for worker in workers:
                worker.join()
                if worker.exitcode:
                    raise NlptoolsError(f"a training process ended with status {worker.exitcode}")
        finally:
            for worker in workers:
                worker.kill()
        return min(int(counter.value), last)

    def _work(self, rank: int, counter: Any, last: int, enough: Any, parent: int) -> None:
        """What one process does."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1):
            signal.signal(number, signal.SIG_IGN)  # the parent decides when it is enough
        torch.set_num_threads(1)
        while not enough.value and os.getppid() == parent and not self._board[:, _BAD].any():
            with counter.get_lock():
                chunk = counter.value
                if chunk >= last:
                    return
                counter.value += 1
            self._chunk(chunk, rank)

    def _chunk(self, chunk: int, rank: int) -> None:
        """Train on one chunk."""
        model, plan, board = self.model, self.plan, self._board[rank]
        generator = seeded(plan.seed, chunk, self.device)
        start = chunk % plan.chunks * plan.chunk
        ids = torch.from_numpy(self.ids[start : start + plan.chunk].astype(np.int64)).to(self.device)
        tiles = model.windows.tiles(ids, generator)
        drawn = model.output.draw(len(tiles.tokens), generator)
        for place, first in enumerate(range(0, len(tiles.tokens), self.tiles)):
            part, noise = tiles.part(first, first + self.tiles), drawn[first : first + self.tiles]
            done = (chunk + first / len(tiles.tokens)) / plan.total
            lr = plan.lr * max(_LOWEST, 1 - done)
            prediction = model.architecture.predict(part, lr)
            hidden, targets, weights = prediction.hidden, prediction.targets, prediction.weights
            if place % _LOSS_EVERY == 0:
                loss, weight = float(model.output.loss(hidden, targets, weights, noise)), float(weights.sum())
                board[_LOSS] += loss / lr
                board[_WEIGHT] += weight / lr
                board[_BAD] = not math.isfinite(loss)
            gradient = model.output.step(hidden, targets, weights, noise)
            model.architecture.spread(part, prediction, gradient)
        board[_WORDS] += int((ids != self.end).sum())

    def held_out(self, ids: np.ndarray) -> float:
        """Mean loss of a pair of words of another text, in nats; the same numbers are drawn every time."""
        total, weight = 0.0, 0.0
        for number, batch in enumerate(_parts(ids, self.plan.chunk)):
            generator = seeded(self.plan.seed, -1 - number, self.device)
            tiles = self.model.windows.tiles(torch.from_numpy(batch.astype(np.int64)).to(self.device), generator)
            drawn = self.model.output.draw(len(tiles.tokens), generator)
            for first in range(0, len(tiles.tokens), 64):
                part = tiles.part(first, first + 64)
                hidden, targets, weights, _ = self.model.architecture.predict(part, 1.0)
                total += float(self.model.output.loss(hidden, targets, weights, drawn[first : first + 64]))
                weight += float(weights.sum())
        return total / weight if weight else math.nan


def _parts(ids: np.ndarray, size: int) -> Iterator[np.ndarray]:
    return (ids[start : start + size] for start in range(0, len(ids), size))


def seeded(seed: int, part: int, device: torch.device) -> torch.Generator:
    """A generator for one part of the work."""
    state = np.random.SeedSequence([seed, part & 0xFFFFFFFFFFFF]).generate_state(1, np.uint64)[0]
    return torch.Generator(device).manual_seed(int(state >> np.uint64(1)))
