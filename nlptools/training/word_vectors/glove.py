"""GloVe: dot products of vectors approximate the logarithms of co-occurrence counts.

Pennington et al. 2014, "GloVe: Global vectors for word representation" (D14-1162): minimise the sum over pairs (i, j) of
f(X_ij) (w_i . c_j + b_i + b'_j - log X_ij)^2 / 2 with f(X) = min(1, (X / x_max)^alpha), by AdaGrad (Duchi et al. 2011) as
in their C code: the gradient is multiplied by the learning rate before it is squared, and the sums of squares start at 1, so
the first steps use the learning rate itself. The result is w + c.

Departures: a step processes some hundred pairs, all with the values from before the step, and a row that occurs in several
pairs gets the sum of their updates. A pair and its mirror image are in the same step. The sums of squares include the
gradients of the current step, as in AdaGrad but not in the C code; so no update is much longer than 1, and a high learning
rate is bad but does not diverge. Numbers are float32; the initial 1 of the sums of squares is stored separately, which keeps
small sums exact. There is no subsampling, as in the C code, and no row for unknown words.

Shapes: V words, D dimensions, K = D + 2, B pairs of a step, E entries of a step (2B with mirror images, else B).
"""

from __future__ import annotations

import math
import time
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from nlptools import messages
from nlptools.configs.word_vectors import TrainW2V
from nlptools.corpora.word_sequences import Sequences
from nlptools.training.word_vectors.chunks import BAD, DONE, LOSS, WEIGHT, Chunks, Plan
from nlptools.training.word_vectors.cooccurrences import Cooccurrences, count
from nlptools.training.word_vectors.trainer import seeded

CHUNK = 1 << 15  # pairs of a chunk
_PAIRS = {"cpu": 256, "cuda": 1 << 14}  # maximum number of pairs of a step: fits a core's caches; keeps a GPU busy
# Maximum of the learning rate times the sum of the weights f of all pairs of one word that are processed at once. Up to 2 the
# loss on English text falls as with single pairs, at 7 it falls more slowly; small vocabularies diverge at high rates.
IN_FLIGHT = 1.0
_SAMPLE = 1 << 20  # pairs from which the frequency of words in pairs is estimated
_INITIAL_SQUARES = 1.0


def shapes(words: int, dimensions: int) -> dict[str, tuple[int, int]]:
    """The shapes of the tables: a row for each word, each followed by its row as context; and their sums of squares.

    The row of a word is (w, b, 1), the row of a context (c, 1, b'): their dot product is the prediction w.c + b + b'.
    """
    return {"rows": (2 * words, dimensions + 2), "squares": (2 * words, dimensions + 2)}


def initialize(tables: dict[str, Tensor], generator: torch.Generator) -> None:
    """Fill the rows with small random numbers."""
    rows = tables["rows"]
    reach = 0.5 / (rows.shape[1] - 1)  # as in the C code, which counts the bias
    rows.uniform_(-reach, reach, generator=generator)
    rows[0::2, -1] = 1
    rows[1::2, -2] = 1


def start_from(tables: dict[str, Tensor], words: Tensor, vectors: Tensor) -> None:
    """Set word + context to `vectors` (N, D) for the int64 `words` (N,), with a small random difference between the two."""
    rows, D = tables["rows"], vectors.shape[1]
    words, vectors = words.to(rows.device), vectors.to(rows.device)
    differences = rows[2 * words, :D].clone()
    rows[2 * words, :D] = vectors / 2 + differences
    rows[2 * words + 1, :D] = vectors / 2 - differences


def sums(tables: dict[str, Tensor]) -> Tensor:
    """(V, D) the sums of word and context vectors."""
    rows = tables["rows"]
    return rows[0::2, :-2] + rows[1::2, :-2]


def trainer(
    settings: TrainW2V,
    text: Sequences,
    valid: Sequences | None,
    tables: dict[str, Tensor],
    place: Path,
    seed: int,
    workers: int,
    counters: int,
) -> Glove:
    """Count co-occurrences into files of the directory `place` with `counters` processes, and create the trainer.

    Raises:
        DataError: no sequence of the text, or of the held-out text, has two words.
        UsageError, StreamError: see `cooccurrences.count`.
    """
    began = time.monotonic()

    def counted(part: Sequences, name: str) -> Cooccurrences:
        return count(
            part.ids, len(part.words), place / name, window=settings.window, symmetric=settings.symmetric,
            weighted=settings.distance_weighting, workers=counters,
        )  # fmt: skip

    cooccurrences = counted(text, "pairs.bin")
    messages.note(f"co-occurrences: {len(cooccurrences.pairs):,} pairs ({time.monotonic() - began:.1f} s)")
    held_out = None
    if valid is not None:
        ratio = text.tokens / max(1, valid.tokens)
        held_out = (counted(valid, "valid-pairs.bin"), ratio)
    plan = Plan(len(cooccurrences.pairs), settings.epochs, settings.rate, seed, chunk=CHUNK)
    workers = min(workers, plan.chunks)
    return Glove(tables, cooccurrences, plan, workers, x_max=settings.x_max, alpha=settings.alpha, valid=held_out)


class Glove(Chunks):
    """Trains on co-occurrences, shuffled anew in each epoch.

    Args:
        tables: see `shapes`; changed in place.
        text: co-occurrences of the text.
        x_max, alpha: parameters of the weights f.
        valid: co-occurrences of a held-out text, and the ratio of the two text lengths: the model predicts counts that are
            higher by this factor.
    """

    unit = "pairs"

    def __init__(
        self,
        tables: dict[str, Tensor],
        text: Cooccurrences,
        plan: Plan,
        workers: int,
        *,
        x_max: float = 100.0,
        alpha: float = 0.75,
        valid: tuple[Cooccurrences, float] | None = None,
    ) -> None:
        super().__init__(plan, workers)
        self.rows, self.squares, self.text, self.valid = tables["rows"], tables["squares"], text, valid
        self.x_max, self.alpha, self.device = x_max, alpha, tables["rows"].device
        self.size = len(text.pairs)
        most = _PAIRS.get(self.device.type, _PAIRS["cpu"])
        self.pairs = max(1, int(min(most, IN_FLIGHT / (plan.lr * workers * self._heaviest()))))  # pairs of a step
        self._order = (-1, np.empty(0, np.int64))

    def rate(self, done: float) -> float:
        """The constant learning rate: AdaGrad shortens the steps by itself."""
        return self.plan.lr

    def _chunk(self, chunk: int, rank: int) -> None:
        plan, board = self.plan, self._board[rank]
        generator = seeded(plan.seed, chunk, self.device)
        places, logs, weights = self._entries(self.text, self._place(chunk), 1.0, generator)
        losses = torch.empty_like(logs)
        for first in range(0, len(logs), self.pairs):
            part = slice(first, first + self.pairs)
            self.step(places[:, part].flatten(1), logs[part].flatten(), weights[part].flatten(), losses[part])
        loss = float(losses.sum(dtype=torch.float64))
        board[LOSS] += loss
        board[WEIGHT] += float((weights > 0).sum())
        board[BAD] = not math.isfinite(loss)
        board[DONE] += len(logs)

    def step(self, places: Tensor, logs: Tensor, weights: Tensor, losses: Tensor) -> None:
        """One step of gradient descent.

        Args:
            places: (2, E) int64 rows of words and rows of contexts.
            logs: (E,) logarithms of the counts.
            weights: (E,) f of the counts.
            losses: any shape of E numbers; filled with the loss of each entry before the step.
        """
        used = places.flatten()
        vectors = self.rows.index_select(0, used).view(2, len(logs), -1)
        difference = (vectors[0] * vectors[1]).sum(-1).sub_(logs)
        error = weights * difference
        torch.mul(error, difference, out=difference)
        torch.mul(difference.view_as(losses), 0.5, out=losses)
        error.mul_(-self.plan.lr)
        gradient = torch.empty_like(vectors)  # negative gradient times the learning rate
        torch.mul(vectors[1], error[:, None], out=gradient[0])
        torch.mul(vectors[0], error[:, None], out=gradient[1])
        gradient[0, :, -1] = 0  # the constant ones, which multiply the bias of the other side, do not change
        gradient[1, :, -2] = 0
        gradient = gradient.flatten(0, 1)
        self.squares.index_add_(0, used, gradient.square())
        scale = self.squares.index_select(0, used).add_(_INITIAL_SQUARES).rsqrt_()
        self.rows.index_add_(0, used, scale.mul_(gradient))

    def held_out(self, ids: np.ndarray) -> float | None:
        """Mean loss of the pairs of the held-out text, None without pairs, with the weights f of its counts."""
        assert self.valid is not None
        text, scale = self.valid
        total, number = 0.0, 0
        for first in range(0, len(text.pairs), CHUNK):
            places, logs, weights = self._entries(text, slice(first, first + CHUNK), scale, None)
            for start in range(0, len(logs), _PAIRS["cpu"]):
                part = slice(start, start + _PAIRS["cpu"])
                words, contexts = self.rows[places[:, part]]
                difference = (words * contexts).sum(-1) - logs[part]
                total += float((weights[part] * difference.square_()).sum(dtype=torch.float64)) / 2
            number += int((weights > 0).sum())
        return total / number if number else None

    def _heaviest(self) -> float:
        """The largest mean weight per pair of any word, from a sample of the pairs, which are in random order."""
        places, _, weights = self._entries(self.text, slice(0, _SAMPLE), 1.0, None)
        sums = torch.zeros(len(self.rows), dtype=torch.float64, device=self.device)
        sums.index_add_(0, places.flatten(), weights.double().expand(places.shape).flatten())
        return max(1e-9, float(sums.max()) / len(weights))

    def _place(self, chunk: int) -> slice:
        """The pairs of a chunk; each epoch has a different order of chunks."""
        epoch, number = divmod(chunk, self.plan.chunks)
        if self._order[0] != epoch:
            self._order = (epoch, np.random.default_rng([self.plan.seed, epoch]).permutation(self.plan.chunks))
        first = int(self._order[1][number]) * self.plan.chunk
        return slice(first, first + self.plan.chunk)

    def _entries(
        self, text: Cooccurrences, part: slice, scale: float, generator: torch.Generator | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """(places (2, N, M), logarithms (N, M), weights (N, M)) of N pairs, each with its M - 1 mirror images.

        The generator shuffles the pairs, if given; `scale` multiplies the counts before taking logarithms.
        """
        pairs = text.pairs[part]
        ids = np.stack([pairs["row"], pairs["column"]]).astype(np.int64)
        rows = torch.from_numpy(ids).to(self.device)
        counts = torch.from_numpy(np.array(pairs["count"])).to(self.device)
        if generator is not None:
            order = torch.randperm(len(counts), generator=generator, device=self.device)
            rows, counts = rows[:, order], counts[order]
        weights = (counts / self.x_max).pow_(self.alpha).clamp_(max=1)
        logs = counts.mul(scale).log_()
        if not text.symmetric:
            return torch.stack([2 * rows[0], 2 * rows[1] + 1])[..., None], logs[:, None], weights[:, None]
        mirrored = weights * (rows[0] != rows[1])  # a pair of equal words is its own mirror image
        places = torch.stack([2 * rows, 2 * rows.flip(0) + 1]).transpose(1, 2)  # (word or context, pair, image)
        return places, torch.stack([logs, logs], 1), torch.stack([weights, mirrored], 1)
