"""Stochastic gradient descent over the text, chunk by chunk (see `chunks`), on tables that processes share."""

from __future__ import annotations

import math
import mmap
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from nlptools.corpora.word_sequences import occurrences
from nlptools.training.word_vectors.architectures import WordVectorArchitecture
from nlptools.training.word_vectors.chunks import BAD, DONE, LOSS, WEIGHT, Chunks, Plan
from nlptools.training.word_vectors.damping import limited
from nlptools.training.word_vectors.outputs import OutputLayer
from nlptools.training.word_vectors.windows import ContextWindows, Tiles

# Maximum number of pairs processed at once, by all processes together, times the learning rate: of all words, and of the most
# frequent word. On English 1,900 converged and 2,700 diverged before updates were limited (see `damping`).
IN_FLIGHT, IN_FLIGHT_OF_ONE = 2000.0, 20.0
_LOSS_EVERY = 32  # steps between measurements of the loss


@dataclass
class Model:
    """An architecture with an output layer."""

    windows: ContextWindows
    architecture: WordVectorArchitecture
    output: OutputLayer

    def prepare(self, shares: Tensor, most: int, workers: int, lr: float) -> int:
        """Choose the number of tiles of a step, and set the damping for it.

        Args:
            shares: (V,) share of each word among the tokens after subsampling.
            most: maximum number of tokens of a step.

        Returns:
            number of tiles of a step.
        """
        pairs = lr * self.architecture.number * self.output.scores * workers  # per token, times the learning rate
        tokens = min(
            most, int(IN_FLIGHT / max(pairs, 1e-9)), int(IN_FLIGHT_OF_ONE / max(pairs * float(shares.max()), 1e-9))
        )
        tiles = max(1, tokens // self.windows.tile)
        expected = shares * (tiles * self.windows.tile * workers)
        self.output.damp(expected * self.architecture.number, lr)
        self.architecture.damp(expected, self.output.scores, lr)
        return tiles


def shared(rows: int, columns: int) -> Tensor:
    """A (rows, columns) float32 tensor of zeros in memory that forked processes share."""
    memory = mmap.mmap(-1, max(1, rows * columns * 4))
    return torch.frombuffer(memory, dtype=torch.float32, count=rows * columns).view(rows, columns)


class Trainer(Chunks):
    """Trains a model on token ids.

    Args:
        ids: int32 ids of the text; see `nlptools.corpora.word_sequences`.
        end: the id that ends a sequence.
        workers: number of processes; with 1 this process trains.
    """

    def __init__(self, model: Model, ids: np.ndarray, end: int, plan: Plan, workers: int, device: torch.device) -> None:
        super().__init__(plan, workers)
        self.model, self.ids, self.end, self.device = model, ids, end, device
        counts = torch.from_numpy(occurrences(ids, end + 1)).to(device)
        kept = (counts * model.windows.keep.double())[:end]
        shares = kept / kept.sum().clamp(min=1)
        self.tiles = model.prepare(shares, plan.tokens, workers, plan.lr)
        self.untrained_loss = model.output.untrained_loss(shares)
        self.size = int(counts[:end].sum())

    def _chunk(self, chunk: int, rank: int) -> None:
        """Train on one chunk."""
        model, plan, board = self.model, self.plan, self._board[rank]
        generator = seeded(plan.seed, chunk, self.device)
        start = chunk % plan.chunks * plan.chunk
        ids, tiles, chosen = self._tiles(self.ids[start : start + plan.chunk], generator)
        steps = -(-len(tiles.tokens) // self.tiles)
        for place, (part, against) in enumerate(_steps(tiles, chosen, self.tiles)):
            lr = self.rate((chunk + place / steps) / plan.total)
            prediction = model.architecture.predict(part)
            if place % _LOSS_EVERY == 0:
                loss = float(model.output.loss(prediction, against))
                if not math.isfinite(loss):
                    board[BAD] = 1
                    return
                board[LOSS] += loss
                board[WEIGHT] += float(prediction.totals.sum())
            gradient = model.output.step(prediction, against, lr)
            model.architecture.spread(part, prediction, limited(gradient, lr), lr)
        board[DONE] += int((ids != self.end).sum())

    def held_out(self, ids: np.ndarray) -> float | None:
        """Mean loss per pair of words of a held-out text, in nats, None without pairs; draws the same numbers every time."""
        total, weight = 0.0, 0.0
        for number, start in enumerate(range(0, len(ids), self.plan.chunk)):
            generator = seeded(self.plan.seed, -1 - number, self.device)
            _, tiles, chosen = self._tiles(ids[start : start + self.plan.chunk], generator)
            for part, against in _steps(tiles, chosen, 64):
                prediction = self.model.architecture.predict(part)
                total += float(self.model.output.loss(prediction, against))
                weight += float(prediction.totals.sum())
        return total / weight if weight else None

    def _tiles(self, part: np.ndarray, generator: torch.Generator) -> tuple[Tensor, Tiles, tuple[Tensor, ...]]:
        """(ids on the device, tiles, words to score them against) of a part of a text."""
        ids = torch.from_numpy(part.astype(np.int64)).to(self.device)
        tiles = self.model.windows.tiles(ids, generator)
        return ids, tiles, self.model.output.choose(self.model.architecture.targets(tiles), generator)


def _steps(tiles: Tiles, chosen: tuple[Tensor, ...], size: int) -> Iterator[tuple[Tiles, tuple[Tensor, ...]]]:
    """(tiles, words to score them against), `size` tiles at a time."""
    if not len(tiles.tokens):
        return iter(())
    return zip(tiles.split(size), zip(*(torch.split(tensor, size) for tensor in chosen), strict=True), strict=True)


def seeded(seed: int, part: int, device: torch.device) -> torch.Generator:
    """A random generator for part `part` of the work."""
    state = np.random.SeedSequence([seed, part & 0xFFFFFFFFFFFF]).generate_state(1, np.uint64)[0]
    return torch.Generator(device).manual_seed(int(state >> np.uint64(1)))
