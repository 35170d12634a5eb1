"""Low-rank adapters: a frozen linear map plus the product of two small matrices that are trained.

Hu et al. 2021, "LoRA: low-rank adaptation of large language models" (arXiv:2106.09685), equation 3: W x + alpha / R B A x, with A
drawn at random and B zero at first, so that training begins with the map W. As in the authors' code, A is drawn uniformly.
Shapes: E input, D output, R rank, P parts of a map.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nlptools.layers.dropout import Dropout
from nlptools.layers.initial import empty_weights
from nlptools.layers.linear import ACTIVATIONS, Linear


class LowRankLinear(Linear):
    """A frozen `Linear` with an adapter.

    One map here may stand for P maps of a published model, such as the maps of queries, keys and values. Each of these has
    its own adapter: `lora_A` (P R, E) has their matrices A one below the other, `lora_B` (D, R) their matrices B, and their
    product is block-diagonal. Departure: the parts share the mask of dropout.
    """

    def __init__(self, base: Linear, rows: Sequence[int], rank: int, alpha: float, dropout: float = 0.0) -> None:
        """`base`: the map; its weights are shared. `rows`: the number of each part, in order; their sum is D."""
        with empty_weights():
            super().__init__(base.in_features, base.out_features, bias=False)
        self.weight, self.bias = base.weight, base.bias
        self.rows, self.scale = list(rows), alpha / rank
        self.lora_A = nn.Parameter(torch.zeros(len(self.rows) * rank, base.in_features))
        self.lora_B = nn.Parameter(torch.zeros(base.out_features, rank))
        self.dropout = Dropout(dropout)
        self.active = True

    @torch.no_grad()
    def initialize(self, generator: torch.Generator) -> None:
        """Draw A uniformly from +-1 / sqrt(E)."""
        bound = self.in_features**-0.5
        self.lora_A.uniform_(-bound, bound, generator=generator)

    def forward(self, x: Tensor, activation: str = "none") -> Tensor:
        """See `Linear`."""
        return ACTIVATIONS[activation](self._adapted(super().forward(x), x))

    def add_to(self, residual: Tensor, x: Tensor) -> Tensor:
        """See `Linear`."""
        return self._adapted(super().add_to(residual, x), x)

    def times(self, gate: Tensor, x: Tensor) -> Tensor:
        """See `Linear`."""
        return gate * self(x)

    def part(self, x: Tensor, rows: slice) -> Tensor:
        """See `Linear`."""
        return self._adapted(super().part(x, rows), x, rows)

    def _adapted(self, out: Tensor, x: Tensor, rows: slice = slice(None)) -> Tensor:
        """`out` (..., D) plus what the adapter adds for x (..., E); or the columns `rows` of both."""
        if not self.active:
            return out
        low = F.linear(self.dropout(x), self.lora_A)
        up = self.lora_B
        if len(self.rows) > 1:  # (D, P R)
            up = torch.block_diag(*torch.split(up, self.rows))  # type: ignore[no-untyped-call]
        flat = torch.addmm(out.flatten(0, -2), low.flatten(0, -2), up[rows].t(), alpha=self.scale)
        return flat.view(out.shape)


@contextmanager
def switched_off(model: nn.Module) -> Iterator[None]:
    """Context in which a model computes without its adapters, if it has any."""
    adapted = [module for module in model.modules() if isinstance(module, LowRankLinear)]
    for module in adapted:
        module.active = False
    try:
        yield
    finally:
        for module in adapted:
            module.active = True


def frozen(model: nn.Module) -> frozenset[str]:
    """The names of the weights that a model with adapters does not train; none in a model without adapters."""
    if not any(isinstance(module, LowRankLinear) for module in model.modules()):
        return frozenset()
    return frozenset(name for name, weight in model.named_parameters() if not weight.requires_grad)
