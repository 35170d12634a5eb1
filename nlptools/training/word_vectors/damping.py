"""Damping of the gradients of rows that are used often in one step.

All gradients of a step, and of the simultaneous steps of other processes, are computed from the same old values. A row that
is used by n pairs would move n times as far as for one pair: past its optimum and, for frequent words and high learning
rates, to infinity. Applied one after the other, the updates would become shorter as the row approaches the optimum:
1 + r + r^2 + ... with n terms. The sum of the gradients is scaled by about the ratio of this series to n.
"""

from __future__ import annotations

import torch
from torch import Tensor

# Number of pairs times learning rate after which a row is close to its optimum. With 20, texts of 90,000 words without
# subsampling, and walks through a graph of 34 nodes, had held-out losses of 10 to 240 nats in the first epochs; with 5 the
# losses decrease from the start, and vectors of novels are as good.
REACH = 5.0
LONGEST = 1.0  # maximum length of the update of a hidden vector in one step; hidden vectors have lengths of 1 to 10


def limited(gradient: Tensor, lr: float) -> Tensor:
    """Clip gradients of vectors (..., D) in place, so that no vector changes by more than `LONGEST`.

    Where a few words, or nodes of a small graph, share all contexts, the two tables make each other grow: without a limit
    they double with every step.
    """
    lengths = torch.linalg.vector_norm(gradient, dim=-1, keepdim=True)
    return gradient.mul_((LONGEST / (lr * lengths)).clamp_(max=1.0))


def damping(uses: Tensor, lr: float) -> Tensor | None:
    """Factors (R,) on the gradients of rows that are used `uses` (R,) times in a step; None if all are close to 1."""
    steps = uses.double() * (lr / REACH)
    factors = torch.where(steps > 1e-6, -torch.expm1(-steps) / steps.clamp(min=1e-6), 1.0)
    return None if float(factors.min()) > 0.97 else factors.float()
