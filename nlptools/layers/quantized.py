"""Weights of a model in 8 or 16 bits, in its linear layers and its output head (`compute.kernels.int8`, `fp16`).

Products return float32, and everything between them is computed in float32: a step of one row then converts nothing. The
vectors of embeddings are converted when they are read. If a model carries a state, its embeddings are float32 instead, because
the state has their type.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from nlptools.compute.kernels import fp16, int8
from nlptools.compute.kernels.scripted import ScriptedWeight, together
from nlptools.layers.linear import Linear, forget_derived
from nlptools.layers.output import OutputHead, Projection


class WeightKind(NamedTuple):
    """A kind of rounded weights.

    Attributes:
        available: whether there are products with them for this processor.
        of: those of a matrix (D, E) of floats.
    """

    available: Callable[[], bool]
    of: Callable[[Tensor], ScriptedWeight]


WEIGHTS = {  # names of `--quantize`
    "int8": WeightKind(int8.available, int8.Int8Weight.of),
    "fp16": WeightKind(fp16.available, fp16.Fp16Weight),
}


class Rounding(NamedTuple):
    """A model and its part with the matrices to round.

    Attributes:
        model: computes in float32 afterwards.
        part: the linear layers of this part are rounded. The heads of tasks are small and keep their weights.
        head: its output head, if it predicts tokens.
        streams: whether it carries a state.
    """

    model: nn.Module
    part: nn.Module
    head: OutputHead | None = None
    streams: bool = False

    @property
    def possible(self) -> bool:
        """Whether there is a matrix to round."""
        return isinstance(self.head, Projection) or any(isinstance(module, Linear) for module in self.part.modules())


@torch.no_grad()
def quantize(rounding: Rounding, weights: str) -> None:
    """Let a model for inference on a CPU multiply with matrices of a kind in `WEIGHTS`.

    The weights of linear layers are dropped; embeddings keep theirs, also where the output head has the same matrix.

    Raises:
        Unavailable: a weight is too large for fp16.
    """
    forget_derived(rounding.model)
    made = []

    def of(weight: Tensor) -> ScriptedWeight:
        made.append(WEIGHTS[weights].of(weight))
        return made[-1]

    for layer in [module for module in rounding.part.modules() if isinstance(module, Linear)]:
        layer.rounded = of(layer.weight)
        layer.weight = nn.Parameter(layer.weight.new_empty(0), requires_grad=False)
    for module in rounding.model.modules():
        if isinstance(module, nn.Embedding) and not rounding.streams:
            module.register_forward_hook(lambda module, ids, rows: rows.float())
        else:
            for tensor in (*module.parameters(recurse=False), *module.buffers(recurse=False)):
                if tensor.is_floating_point():
                    tensor.data = tensor.data.float()
    head = rounding.head
    if isinstance(head, Projection):
        # an untied matrix may be one of the layers
        matrix = head.matrix
        head.rounded = matrix.rounded if isinstance(matrix, Linear) and matrix.rounded else of(matrix.weight)
    if made:
        together(made)
