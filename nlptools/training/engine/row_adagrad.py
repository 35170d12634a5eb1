"""AdaGrad with one sum of squares per row, for a large table with few rows in use at each step.

Duchi, Hazan & Singer 2011, "Adaptive subgradient methods". Departures: the sum adds up the mean square of a row's gradient,
one number per row instead of one per weight, and each use of a row in a step is added separately.
Shapes: P uses of rows, E columns of the table.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from nlptools.compute.backend import Backend
from nlptools.compute.kernels.embedding_bag import PendingGradients, RowGradient
from nlptools.training.engine.optimizers import Optimizer

_EPS = 0.1  # added to the root of the sum; the steps of a row only become shorter when its root exceeds this


class RowAdaGrad(Optimizer):
    """AdaGrad per row for a table, and per weight for all other parameters."""

    def __init__(
        self, parameters: Mapping[str, nn.Parameter], table: Tensor, pending: PendingGradients, backend: Backend
    ) -> None:
        self.table, self.pending, self.backend = table, pending, backend
        self.sums = torch.zeros(len(table), device=table.device)
        self.steps = 0
        self.parameters = parameters
        self.squares = {name: torch.zeros_like(p) for name, p in parameters.items()}

    @torch.no_grad()
    def step(self, rate: float, scale: float = 1.0, factors: Mapping[str, float] | None = None) -> None:
        """As `AdamW.step`."""
        self.steps += 1
        rows, lengths, means = self._from_all(self.pending.take())
        scale *= len(lengths)  # an example's own gradient, not its share of the mean
        for name, parameter in self.parameters.items():
            if parameter.grad is None:
                continue
            gradient = parameter.grad * scale
            self.squares[name] += gradient.square()
            parameter.addcdiv_(gradient, self.squares[name].sqrt().add_(_EPS), value=-rate)
        means = means * scale
        numbers = torch.arange(len(lengths), device=rows.device)
        bags = numbers.repeat_interleave(lengths, output_size=len(rows))  # (P,)
        self.sums.index_add_(0, rows, means.square().mean(1).index_select(0, bags))
        steps = self.sums.index_select(0, rows).sqrt_().add_(_EPS).reciprocal_().mul_(-rate)
        self.table.index_add_(0, rows, means.index_select(0, bags).mul_(steps[:, None]))

    def _from_all(self, waiting: list[RowGradient]) -> RowGradient:
        """The gradients of all batches of the step, in all processes."""
        own = waiting[0] if len(waiting) == 1 else RowGradient(*map(torch.cat, zip(*waiting, strict=True)))
        if self.backend.world_size == 1:
            return own
        every = self.backend.gather(own._asdict())
        return RowGradient(*(torch.cat([part[name] for part in every]).to(self.table.device) for name in own._fields))

    def skip(self) -> None:
        """See `Optimizer`."""
        self.pending.take()

    def state(self) -> dict[str, Tensor]:
        """All sums, for a checkpoint."""
        return {"optimizer.rows": self.sums, **{f"optimizer.square.{n}": t for n, t in self.squares.items()}}

    def restore(self, tensors: dict[str, Tensor], steps: int) -> None:
        """Load the `state()` after `steps` updates."""
        self.steps = steps
        self.sums.copy_(tensors["optimizer.rows"])
        for name, square in self.squares.items():
            square.copy_(tensors[f"optimizer.square.{name}"])
