"""Weights of a model in 8 bits, in its linear layers and its output head (`compute.kernels.int8`).

Products return float32, and everything between them is computed in float32: a step of one row then converts nothing. The
vectors of embeddings are converted when they are read. If a model carries a state, its embeddings are float32 instead, because
the state has their type.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from nlptools.compute.kernels.int8 import Int8Weight
from nlptools.compute.kernels.linear import PackedWeight
from nlptools.layers.linear import Linear
from nlptools.layers.output import Projection


def quantizable(model: Any) -> bool:
    """Whether `quantize` finds a matrix in the model."""
    return isinstance(model.output, Projection) or any(isinstance(module, Linear) for module in model.modules())


@torch.no_grad()
def quantize(model: Any) -> None:
    """Let a model for inference on a CPU multiply with matrices in 8 bits.

    The weights of linear layers are dropped; embeddings keep theirs, also where the output head has the same matrix.
    """
    for module in model.modules():
        if isinstance(module, Linear):
            module.int8 = Int8Weight.of(module.weight)
            module._packed = PackedWeight()
            module.weight = nn.Parameter(module.weight.new_empty(0), requires_grad=False)
        if isinstance(module, nn.Embedding) and not model.streams:
            module.register_forward_hook(lambda module, ids, rows: rows.float())
        else:
            for tensor in (*module.parameters(recurse=False), *module.buffers(recurse=False)):
                if tensor.is_floating_point():
                    tensor.data = tensor.data.float()
    head = model.output
    if isinstance(head, Projection):
        # an untied matrix is one of the layers
        head.int8 = head.matrix.int8 if isinstance(head.matrix, Linear) else Int8Weight.of(head.matrix.weight)
        head._packed = PackedWeight()
