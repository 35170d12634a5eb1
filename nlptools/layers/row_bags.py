"""Means of rows of a large table, whose gradients are kept as the few rows that they are.

Autograd would give the whole table a gradient, most of it zeros. Here the gradient of a mean waits beside the rows that it
is for, until an optimizer takes it (`training.engine.row_adagrad`).
Shapes: B bags, P rows of all bags, E numbers of a row.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F


class RowGradient(NamedTuple):
    """The gradients of some means."""

    rows: Tensor  # (P,) int64, those of the first bag, of the second and so on
    lengths: Tensor  # (B,) rows of each bag
    means: Tensor  # (B, E) gradient of the mean of each bag


class Pending:
    """Gradients that wait for an optimizer. A step that is refused leaves some behind, to be dropped by the next."""

    def __init__(self) -> None:
        self.gradients: list[RowGradient] = []

    def take(self) -> list[RowGradient]:
        """All of them; none are left."""
        taken, self.gradients = self.gradients, []
        return taken


def means(table: Tensor, rows: Tensor, lengths: Tensor, pending: Pending | None) -> Tensor:
    """(P,) rows of bags end to end, and how many each bag has -> (B, E); an empty bag is zeros."""
    if pending is None or not torch.is_grad_enabled():
        return _means(table, rows, lengths)
    anchor = torch.zeros((), device=table.device, requires_grad=True)  # makes autograd ask for the gradient
    out: Tensor = _Means.apply(anchor, table, rows, lengths, pending)  # type: ignore[no-untyped-call]
    return out


class _Means(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, anchor: Tensor, table: Tensor, rows: Tensor, lengths: Tensor, pending: Pending) -> Tensor:
        ctx.rows, ctx.lengths, ctx.pending = rows, lengths, pending
        return _means(table, rows, lengths)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[None, None, None, None, None]:
        ctx.pending.gradients.append(RowGradient(ctx.rows, ctx.lengths, grad_outputs[0]))
        return None, None, None, None, None


def _means(table: Tensor, rows: Tensor, lengths: Tensor) -> Tensor:
    sums = F.embedding_bag(rows, table, lengths.cumsum(0) - lengths, mode="sum")  # its "mean" takes twice as long
    return sums.div_(lengths.clamp(min=1)[:, None])
