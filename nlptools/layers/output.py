"""Output heads: from hidden states to a distribution over the vocabulary.

Decoding asks for logits, scoring for log-probabilities of given tokens, training for a loss. How these are computed (a
projection, an adaptive softmax, a table) is the head's business alone, and so is a bias.
Shapes: N rows, D hidden, V vocabulary.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor, nn

from nlptools.layers.cross_entropy import (
    chosen_log_probabilities,
    log_probabilities,
    summed_cross_entropy,
    summed_r_drop,
)
from nlptools.layers.linear import Packable

CHUNK = 1 << 22  # logits that exist at a time
_LOWEST = -1e4  # of a log-probability; exp(_LOWEST) is 0
ROWS = 64  # embeddings have a multiple of this many rows in memory, for aligned matrix products


def padded_embedding(rows: int, size: int, padding_idx: int | None = None) -> nn.Embedding:
    """An embedding with at least `rows` rows; a `Projection` gives rows of padding no probability."""
    return nn.Embedding(-(-rows // ROWS) * ROWS, size, padding_idx)


class OutputHead(Protocol):
    """A distribution over tokens, given a hidden state."""

    vocab_size: int  # V

    def logits(self, hidden: Tensor) -> Tensor:
        """(..., D) -> (..., V), in the type of `hidden`. Their softmax is the distribution."""

    def log_probabilities(self, hidden_ND: Tensor, targets_N: Tensor) -> Tensor:
        """The log-probability of one token for each row, (N,), float32, in nats. Targets are never negative."""

    def summed_loss(self, hidden_ND: Tensor, targets_N: Tensor, *, smoothing: float = 0.0) -> Tensor:
        """The sum of the cross-entropies (), float32, in nats; rows with target -1 do not count.

        With `smoothing`, the target distribution is 1 - smoothing on the target, and the rest spread evenly over the
        vocabulary, the target included (Szegedy et al. 2016, arXiv:1512.00567).
        """

    def chosen_log_probabilities(
        self, hidden_ND: Tensor, targets_N: Tensor, forbidden: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """As `log_probabilities`, with gradients; and the entropy of each distribution (N,), float32, in nats, without.

        `forbidden` (K,): tokens of probability 0.
        """


class OutputHeadDefaults(ABC):
    """A base of output heads: the methods of `OutputHead` that follow from `logits`. They hold all logits at once."""

    @abstractmethod
    def logits(self, hidden: Tensor) -> Tensor:
        """See `OutputHead`."""

    def log_probabilities(self, hidden_ND: Tensor, targets_N: Tensor) -> Tensor:
        """See `OutputHead`."""
        return self.chosen_log_probabilities(hidden_ND, targets_N)[0]

    def summed_loss(self, hidden_ND: Tensor, targets_N: Tensor, *, smoothing: float = 0.0) -> Tensor:
        """See `OutputHead`."""
        kept = targets_N >= 0
        hidden_ND, targets_N = hidden_ND[kept], targets_N[kept]
        loss = -(1 - smoothing) * self.log_probabilities(hidden_ND, targets_N).sum()
        if not smoothing:
            return loss
        return loss - smoothing * self.logits(hidden_ND).float().log_softmax(-1).mean(1).sum()

    def chosen_log_probabilities(
        self, hidden_ND: Tensor, targets_N: Tensor, forbidden: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """See `OutputHead`."""
        logits = self.logits(hidden_ND).float()
        if forbidden is not None:
            logits = logits.index_fill(1, forbidden, -torch.inf)
        logs = logits.log_softmax(-1)
        with torch.no_grad():
            entropies = -(logs.exp() * logs.clamp(min=_LOWEST)).sum(1)
        return logs.gather(1, targets_N[:, None]).squeeze(1), entropies


# numbers (N,) or (N, K) of target tokens, given a head, the hidden states (N, D) and the targets (N,)
Measure = Callable[[OutputHead, Tensor, Tensor], Tensor]


class Projection(Packable):
    """The product with a matrix, plus an optional bias. Losses and log-probabilities never hold all logits at once.

    The matrix is the weight of one of the model's modules: of its embedding, if they are tied (Press & Wolf 2017,
    arXiv:1608.05859), or of a linear layer. The head owns no parameters, so those keep their names in the model.
    """

    def __init__(
        self,
        matrix: nn.Embedding | nn.Linear,
        vocab_size: int,
        *,
        bias: Callable[[], Tensor | None] = lambda: None,
        frozen_row: int | None = None,
    ) -> None:
        """
        Args:
            matrix: its weight has V rows or more; those from V on are padding, with probability zero.
            bias: returns the bias, with V entries or more, or None. It is a function because moving or loading a model
                may replace its tensors. For copies of the model it has to be a bound method of it, not a closure.
            frozen_row: a row of zeros that gets no gradient.
        """
        super().__init__()
        self.matrix, self.vocab_size, self.bias, self.frozen_row = matrix, vocab_size, bias, frozen_row

    def logits(self, hidden: Tensor) -> Tensor:
        """See `OutputHead`."""
        logits, bias = self.multiply(hidden, self.matrix.weight, None)[..., : self.vocab_size], self.bias()
        return logits if bias is None else logits + bias[: self.vocab_size]

    def log_probabilities(self, hidden_ND: Tensor, targets_N: Tensor) -> Tensor:
        """See `OutputHead`."""
        if self.rounded is not None:
            size = max(1, CHUNK // self.vocab_size)
            parts = zip(torch.split(hidden_ND, size), torch.split(targets_N[:, None], size), strict=True)
            logs = (self.logits(rows).float().log_softmax(-1).gather(1, chosen) for rows, chosen in parts)
            return torch.cat(list(logs)).squeeze(1)
        return log_probabilities(hidden_ND, self.matrix.weight, targets_N, self.vocab_size, self.bias(), self.multiply)

    def chosen_log_probabilities(
        self, hidden_ND: Tensor, targets_N: Tensor, forbidden: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """See `OutputHead`."""
        weight, bias = self._weight(), self.bias()
        return chosen_log_probabilities(hidden_ND, weight, targets_N, self.vocab_size, bias, forbidden)

    def summed_loss(self, hidden_ND: Tensor, targets_N: Tensor, *, smoothing: float = 0.0) -> Tensor:
        """See `OutputHead`."""
        weight, bias = self._weight(), self.bias()
        return summed_cross_entropy(hidden_ND, weight, targets_N, self.vocab_size, smoothing=smoothing, bias_V=bias)

    def summed_r_drop(self, hidden_2ND: Tensor, targets_N: Tensor, rate: float, *, smoothing: float = 0.0) -> Tensor:
        """The loss of two passes over the same targets; see `cross_entropy.summed_r_drop`."""
        weight, bias = self._weight(), self.bias()
        return summed_r_drop(hidden_2ND, weight, targets_N, self.vocab_size, rate, smoothing=smoothing, bias_V=bias)

    def _weight(self) -> Tensor:
        """The matrix (V or more, D), for a loss."""
        weight = self.matrix.weight
        if self.frozen_row is not None and weight.requires_grad:
            return weight.index_fill(0, torch.tensor([self.frozen_row], device=weight.device), 0.0)
        return weight


class LogProbabilities(OutputHeadDefaults):
    """For models with log-probabilities (..., V) as hidden states: mixtures, ensembles, tables."""

    def __init__(self, vocab_size: int) -> None:
        self.vocab_size = vocab_size

    def logits(self, hidden: Tensor) -> Tensor:
        """See `OutputHead`."""
        return hidden

    def log_probabilities(self, hidden_ND: Tensor, targets_N: Tensor) -> Tensor:
        """See `OutputHead`."""
        return hidden_ND.gather(1, targets_N[:, None]).squeeze(1).float()
