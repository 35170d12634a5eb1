"""Output layers: negative sampling, hierarchical softmax, full softmax.

Each returns the gradient of the hidden vectors, and adds the gradient of its table times the learning rate to the table. Both
are in closed form.

Shapes: N tiles, T tokens of a tile, J target words of a tile, D dimensions, V words, K negatives of a tile.
"""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from nlptools.training.word_vectors.architectures import Prediction
from nlptools.training.word_vectors.damping import damping
from nlptools.training.word_vectors.huffman import huffman
from nlptools.training.word_vectors.negatives import Negatives

_LOGITS = 1 << 22  # maximum number of logits in memory at a time
# Number of pairs that a target of the full softmax counts as. On 2 MB of English with 2, training diverged after the first of
# five epochs at the default rate; with 8 it ended with a lower loss than with shorter steps instead of damping.
_PAIRS_PER_TARGET = 8.0


class OutputLayer(Protocol):
    """An output layer."""

    table: Tensor
    scores: float  # mean number of scores that a target needs

    def untrained_loss(self, shares: Tensor) -> float:
        """Loss of a target, in nats, when all scores are zero, given the shares (V,) of words among the targets."""

    def damp(self, targets: Tensor, lr: float) -> None:
        """Set the damping for steps in which each word is a target `targets` (V,) times."""

    def choose(self, targets: Tensor, generator: torch.Generator) -> tuple[Tensor, ...]:
        """The words to score the tokens of tiles against, given their targets (N, J): tensors with a row per tile."""

    def step(self, prediction: Prediction, chosen: tuple[Tensor, ...], lr: float) -> Tensor:
        """Update the table; returns the negative gradient (N, T, D) of the hidden vectors."""

    def loss(self, prediction: Prediction, chosen: tuple[Tensor, ...]) -> Tensor:
        """Sum over tokens and targets of weight times negative log-likelihood, in nats; a float64 scalar."""


class NegativeSampling:
    """Targets against words drawn at random (Mikolov et al. 2013, arXiv:1310.4546).

    The tokens of a tile share the sampled words, which are weighted so that the expected loss equals `number` negatives
    per target; Ji et al. 2016 (arXiv:1604.04661) share them in a window. Departure from word2vec: a negative that is equal
    to the target is not skipped.

    Args:
        table: (V, D) float32, changed in place.
        number: negatives per target.
        shared: negatives drawn per tile.
    """

    def __init__(self, table: Tensor, negatives: Negatives, number: int, shared: int) -> None:
        self.table, self.negatives, self.number, self.shared = table, negatives, number, shared
        self.scores = 1.0 + number
        self._damping: Tensor | None = None

    def untrained_loss(self, shares: Tensor) -> float:
        return self.scores * math.log(2)

    def damp(self, targets: Tensor, lr: float) -> None:
        self._damping = damping(targets + self.number * targets.sum() * self.negatives.shares, lr)

    def choose(self, targets: Tensor, generator: torch.Generator) -> tuple[Tensor, ...]:
        words = torch.cat([targets, self.negatives.draw((len(targets), self.shared), generator)], 1)  # N J+K
        if self._damping is None:
            return words, torch.ones_like(words, dtype=torch.float32)
        return words, self._damping.index_select(0, words.flatten()).view(words.shape)

    def step(self, prediction: Prediction, chosen: tuple[Tensor, ...], lr: float) -> Tensor:
        words, factors = chosen
        hidden, flat, J = prediction.hidden, words.flatten(), words.shape[1] - self.shared
        rows = self.table.index_select(0, flat).view(*words.shape, -1)  # N J+K D
        if prediction.weights is None:
            below, change = self._step_alone(prediction, rows, factors * lr)
        else:
            gradient = torch.bmm(hidden, rows.transpose(1, 2)).sigmoid_()  # N T J+K
            positive = gradient[..., :J]
            torch.addcmul(prediction.weights, positive, prediction.weights, value=-1, out=positive)
            gradient[..., J:].mul_(prediction.totals * (-self.number / self.shared))
            below = torch.bmm(gradient, rows)
            gradient.mul_((factors * lr)[:, None])
            change = torch.bmm(gradient.transpose(1, 2), hidden)
        self.table.index_add_(0, flat, change.flatten(0, 1))
        return below

    def _step_alone(self, prediction: Prediction, rows: Tensor, factors: Tensor) -> tuple[Tensor, Tensor]:
        """`step` for at most one target per token: (negative gradient of hidden vectors, change of the rows (N, T+K, D)).

        A token without a target changes nothing: its hidden vector is zero, and its gradient is added to no word.
        """
        hidden, each = prediction.hidden, -self.number / self.shared
        T = hidden.shape[1]
        own, noise = rows[:, :T], rows[:, T:]
        positive = (hidden * own).sum(-1, keepdim=True).neg_().sigmoid_()  # N T 1
        gradient = torch.bmm(hidden, noise.transpose(1, 2)).sigmoid_()  # N T K
        below = (own * positive).baddbmm_(gradient, noise, alpha=each)
        gradient.mul_(factors[:, None, T:] * each)
        change = torch.empty_like(rows)
        torch.mul(hidden, positive * factors[:, :T, None], out=change[:, :T])
        change[:, T:] = torch.bmm(gradient.transpose(1, 2), hidden)
        return below, change

    def loss(self, prediction: Prediction, chosen: tuple[Tensor, ...]) -> Tensor:
        J = chosen[0].shape[1] - self.shared
        scores = torch.bmm(prediction.hidden, self.table[chosen[0]].transpose(1, 2))
        good = -(F.logsigmoid(scores[..., :J]) * prediction.dense_weights()).sum(dtype=torch.float64)
        each = -F.logsigmoid(-scores[..., J:]).mean(-1, keepdim=True) * self.number
        return good + (each * prediction.totals).sum(dtype=torch.float64)


class HierarchicalSoftmax:
    """A binary decision at each node from the root of a Huffman tree to the word (Morin and Bengio 2005; Mikolov et al. 2013).

    The nodes on the paths to the targets of a tile are scored once per tile.

    Args:
        table: (V - 1, D) float32 rows of nodes, changed in place.
        counts: (V,) how often each word occurs.
    """

    def __init__(self, table: Tensor, counts: np.ndarray) -> None:
        self.table = table
        lengths, nodes, turns = (torch.from_numpy(array).to(table.device) for array in huffman(counts))
        self._lengths, self._starts = lengths, lengths.cumsum(0) - lengths
        self._nodes, self._turns = nodes, turns
        self.scores = float((lengths * torch.from_numpy(counts).to(lengths)).sum() / max(1, counts.sum()))
        self._damping: Tensor | None = None

    def untrained_loss(self, shares: Tensor) -> float:
        return float((self._lengths * shares).sum()) * math.log(2)

    def damp(self, targets: Tensor, lr: float) -> None:
        uses = targets.new_zeros(len(self.table)).index_add_(0, self._nodes, targets.repeat_interleave(self._lengths))
        self._damping = damping(uses, lr)

    def choose(self, targets: Tensor, generator: torch.Generator) -> tuple[Tensor, ...]:
        return (targets,)

    def step(self, prediction: Prediction, chosen: tuple[Tensor, ...], lr: float) -> Tensor:
        hidden, weights = prediction.hidden, prediction.dense_weights()
        nodes, passing, left = self._passed(chosen[0])
        rows = self.table[nodes]  # N U D
        scores = torch.bmm(hidden, rows.transpose(1, 2)).sigmoid_()
        gradient = torch.bmm(weights, left).sub_(scores.mul_(torch.bmm(weights, passing)))  # N T U
        below = torch.bmm(gradient, rows)
        gradient.mul_(lr if self._damping is None else (self._damping[nodes] * lr)[:, None])
        self.table.index_add_(0, nodes.flatten(), torch.bmm(gradient.transpose(1, 2), hidden).flatten(0, 1))
        return below

    def loss(self, prediction: Prediction, chosen: tuple[Tensor, ...]) -> Tensor:
        nodes, passing, left = self._passed(chosen[0])
        scores = torch.bmm(prediction.hidden, self.table[nodes].transpose(1, 2))
        weights = prediction.dense_weights()
        lefts = torch.bmm(weights, left)
        rights = torch.bmm(weights, passing) - lefts
        return -(F.logsigmoid(scores) * lefts + F.logsigmoid(-scores) * rights).sum(dtype=torch.float64)

    def _passed(self, targets: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(distinct nodes (N, U), whether node u is on the path to target j (N, J, U), whether it turns left (N, J, U))."""
        N, J = targets.shape
        R = len(self.table)
        flat = targets.flatten()
        lengths = self._lengths[flat]
        owner = torch.arange(N * J, device=flat.device).repeat_interleave(lengths)
        ends = lengths.cumsum(0)
        entries = torch.arange(len(owner), device=flat.device) + (self._starts[flat] - ends + lengths)[owner]
        tile = owner // J
        distinct, inverse = torch.unique(tile * R + self._nodes[entries], return_inverse=True)
        per_tile = torch.bincount(distinct // R, minlength=N)
        place = torch.arange(len(distinct), device=flat.device) - (per_tile.cumsum(0) - per_tile)[distinct // R]
        U = int(per_tile.max()) if len(distinct) else 0
        nodes = torch.zeros(N, U, dtype=torch.int64, device=flat.device)
        nodes[distinct // R, place] = distinct % R
        passing = torch.zeros(2, N, J, U, device=flat.device)
        at = owner * U + place[inverse]
        passing[0].view(-1)[at] = 1
        passing[1].view(-1)[at] = (self._turns[entries] == 0).to(passing.dtype)
        return nodes, passing[0], passing[1]


class FullSoftmax:
    """The softmax over all words: the p(o|c) of the textbooks.

    The scores of a hidden vector do not depend on its targets, so they are computed once for all of them.

    Args:
        table: (V, D) float32, changed in place.
        dtype: number format of the matrix products.
    """

    def __init__(self, table: Tensor, dtype: torch.dtype = torch.float32) -> None:
        self.table, self.dtype = table, dtype
        self.scores = _PAIRS_PER_TARGET
        self._damping: Tensor | None = None

    def untrained_loss(self, shares: Tensor) -> float:
        return math.log(len(self.table))

    def damp(self, targets: Tensor, lr: float) -> None:
        self._damping = damping(_PAIRS_PER_TARGET * targets, lr)

    def choose(self, targets: Tensor, generator: torch.Generator) -> tuple[Tensor, ...]:
        return (targets,)

    def step(self, prediction: Prediction, chosen: tuple[Tensor, ...], lr: float) -> Tensor:
        hidden, weights = prediction.hidden, prediction.dense_weights().flatten(0, 1)  # M J
        totals = prediction.totals.flatten(0, 1)  # M 1
        rows = hidden.flatten(0, 1).to(self.dtype)  # M D
        table = self.table.to(self.dtype)
        wanted = chosen[0][:, None].expand(-1, hidden.shape[1], -1).flatten(0, 1)  # M J
        below = torch.empty(len(rows), rows.shape[1], dtype=self.dtype, device=rows.device)
        size = max(1, _LOGITS // len(table))
        for start in range(0, len(rows), size):
            part = slice(start, start + size)
            gradient = torch.mm(rows[part], table.t()).float()
            gradient = torch.softmax(gradient, -1).mul_(-totals[part])  # M V
            gradient.scatter_add_(1, wanted[part], weights[part])
            gradient = gradient.to(self.dtype)
            torch.mm(gradient, table, out=below[part])
            change = torch.mm(gradient.t(), rows[part])
            self.table.add_(change if self._damping is None else change * self._damping[:, None], alpha=lr)
        return below.to(hidden.dtype).view_as(hidden)

    def loss(self, prediction: Prediction, chosen: tuple[Tensor, ...]) -> Tensor:
        total = torch.zeros((), dtype=torch.float64, device=self.table.device)
        for vectors, words, wanted in zip(prediction.hidden, chosen[0], prediction.dense_weights(), strict=True):
            logs = torch.log_softmax(vectors @ self.table.t(), -1)  # T V
            total -= (logs[:, words] * wanted).sum(dtype=torch.float64)
        return total
