"""An output head whose logits pass cap * tanh(logit / cap), as in Gemma 2 (arXiv:2408.00118, section 2).

Losses are computed for some rows at a time; where they are differentiated, the logits of these rows are computed again in
backward. Shapes: N rows, D hidden, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from nlptools.compute.kernels.capped_attention import capped
from nlptools.layers.output import CHUNK, Projection

T = TypeVar("T")
_LOWEST = -1e4  # of a log-probability; exp(_LOWEST) is 0


class CappedProjection(Projection):
    """See the module's docstring."""

    def __init__(self, matrix: nn.Embedding | nn.Linear, vocab_size: int, cap: float) -> None:
        super().__init__(matrix, vocab_size)
        self.cap = cap

    def logits(self, hidden: Tensor) -> Tensor:
        """See `OutputHead`."""
        return capped(super().logits(hidden), self.cap)

    def log_probabilities(self, hidden_ND: Tensor, targets_N: Tensor) -> Tensor:
        """See `OutputHead`."""
        return self.chosen_log_probabilities(hidden_ND, targets_N)[0]

    def chosen_log_probabilities(
        self, hidden_ND: Tensor, targets_N: Tensor, forbidden: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """See `OutputHead`."""
        parts = list(self._by_rows(self._chosen, hidden_ND, targets_N, forbidden))
        if not parts:
            return (hidden_ND.new_zeros(0, dtype=torch.float32),) * 2
        logs, entropies = zip(*parts, strict=True)
        return torch.cat(logs), torch.cat(entropies)

    def summed_loss(self, hidden_ND: Tensor, targets_N: Tensor, *, smoothing: float = 0.0) -> Tensor:
        """See `OutputHead`."""
        zero = hidden_ND.sum(dtype=torch.float32) * 0.0
        return sum(self._by_rows(self._loss, hidden_ND, targets_N, smoothing), zero)

    def summed_r_drop(self, hidden_2ND: Tensor, targets_N: Tensor, rate: float, *, smoothing: float = 0.0) -> Tensor:
        """See `Projection`."""
        zero = hidden_2ND.sum(dtype=torch.float32) * 0.0
        both = hidden_2ND.transpose(0, 1)
        return sum(self._by_rows(self._r_drop, both, targets_N, rate, smoothing), zero)

    def _by_rows(
        self,
        measure: Callable[..., T],
        hidden: Tensor,
        targets_N: Tensor,
        *more: object,
    ) -> Iterator[T]:
        """`measure` of some rows at a time, and of `more`."""
        size = max(1, CHUNK // self.vocab_size)
        for rows, targets in zip(torch.split(hidden, size), torch.split(targets_N, size), strict=True):
            if torch.is_grad_enabled():
                yield checkpoint(measure, rows, targets, *more, use_reentrant=False)
            else:
                yield measure(rows, targets, *more)

    def _chosen(self, hidden_ND: Tensor, targets_N: Tensor, forbidden: Tensor | None) -> tuple[Tensor, Tensor]:
        logits = self.logits(hidden_ND).float()
        if forbidden is not None:
            logits = logits.index_fill(1, forbidden, -torch.inf)
        logs = logits.log_softmax(-1)
        entropies = -(logs.exp() * logs.clamp(min=_LOWEST)).sum(1).detach()
        return logs.gather(1, targets_N[:, None]).squeeze(1), entropies

    def _loss(self, hidden_ND: Tensor, targets_N: Tensor, smoothing: float) -> Tensor:
        logits = self.logits(hidden_ND).float()
        return F.cross_entropy(logits, targets_N, reduction="sum", ignore_index=-1, label_smoothing=smoothing)

    def _r_drop(self, hidden_N2D: Tensor, targets_N: Tensor, rate: float, smoothing: float) -> Tensor:
        kept = targets_N >= 0
        logs = self.logits(hidden_N2D[kept].transpose(0, 1)).float().log_softmax(-1)  # (2, N, V)
        targets = targets_N[kept].expand(2, -1)[..., None]
        chosen = (1 - smoothing) * logs.gather(2, targets).sum() + smoothing * logs.mean(2).sum()
        difference = logs[0] - logs[1]
        return -chosen / 2 + rate / 4 * ((logs[0].exp() - logs[1].exp()) * difference).sum()
