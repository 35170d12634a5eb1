"""Means of rows of a large table, with gradients of the used rows only.

Autograd would give the whole table a gradient, most of it zeros. Here the gradient of a mean is kept with the numbers of its
rows, until an optimizer takes it (`training.engine.row_adagrad`).
Dimensions: B bags, P rows of all bags.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from nlptools.compute.kernels.context import FunctionContext


class RowGradient(NamedTuple):
    """The gradients of the means of one call."""

    rows: Tensor  # (P,) int64, of the first bag, the second and so on
    lengths: Tensor  # (B,) rows of each bag
    means: Tensor  # (B, E) gradient of the mean of each bag


class PendingGradients:
    """Gradients that wait for an optimizer, which takes them at each step."""

    def __init__(self) -> None:
        self.gradients: list[RowGradient] = []

    def take(self) -> list[RowGradient]:
        """Return and remove all of them."""
        taken, self.gradients = self.gradients, []
        return taken


def bag_means(table: Tensor, rows: Tensor, lengths: Tensor, pending: PendingGradients | None) -> Tensor:
    """The mean of each bag of rows of `table` (V, E): (B, E), zeros for an empty bag.

    Args:
        rows: (P,) int64, the bags end to end.
        lengths: (B,) rows of each bag.
        pending: receives the gradients; None: there are none.
    """
    if pending is None or not torch.is_grad_enabled():
        return _means(table, rows, lengths)
    anchor = torch.zeros((), device=table.device, requires_grad=True)  # makes autograd ask for the gradient
    out: Tensor = _BagMeans.apply(anchor, table, rows, lengths, pending)  # type: ignore[no-untyped-call]
    return out


class _BagMeans(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: FunctionContext, anchor: Tensor, table: Tensor, rows: Tensor, lengths: Tensor, pending: PendingGradients
    ) -> Tensor:
        ctx.rows, ctx.lengths, ctx.pending = rows, lengths, pending
        return _means(table, rows, lengths)

    @staticmethod
    def backward(ctx: FunctionContext, *grad_outputs: Tensor) -> tuple[None, None, None, None, None]:
        ctx.pending.gradients.append(RowGradient(ctx.rows, ctx.lengths, grad_outputs[0]))
        return None, None, None, None, None


def _means(table: Tensor, rows: Tensor, lengths: Tensor) -> Tensor:
    sums = F.embedding_bag(rows, table, lengths.cumsum(0) - lengths, mode="sum")  # its "mean" takes twice as long
    return sums.div_(lengths.clamp(min=1)[:, None])
