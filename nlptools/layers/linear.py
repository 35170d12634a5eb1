"""Linear maps that keep a packed copy of their weights for inference on a CPU.

Products of few rows with a large matrix spend much of their time rearranging the matrix for the kernel, again at every
call. When weights no longer change that is done once. Greedy decoding of 32 rows with the GPT-2 124M shape in fp32, on 2
cores: 125 tokens/s without, 175 with. A single row is faster from the plain weights, so both are kept.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

_FEWEST_ROWS = 8  # below, the plain product is faster


class Packable:
    """What a module needs to multiply with a weight that may be packed."""

    _packed: Any = None

    def multiply(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """x (..., E) times weight^T (E, D), plus bias -> (..., D)."""
        if weight.requires_grad or x.device.type != "cpu" or x.numel() < _FEWEST_ROWS * x.shape[-1] or x.requires_grad:
            return F.linear(x, weight, bias)
        if self._packed is None:
            self._packed = _pack(weight)
        if self._packed is False:
            return F.linear(x, weight, bias)
        out: Tensor = torch.ops.mkldnn._linear_pointwise(x, self._packed, bias, "none", [], "")
        return out


class Linear(Packable, nn.Linear):
    """`torch.nn.Linear` with packing."""

    def forward(self, x: Tensor) -> Tensor:
        """(..., E) -> (..., D)."""
        return self.multiply(x, self.weight, self.bias)


class TiedProjection(Packable):
    """The output matrix of a language model that is its embedding (Press & Wolf 2017); owns nothing."""

    def __init__(self, embedding: nn.Embedding) -> None:
        self.embedding = embedding

    def __call__(self, hidden: Tensor) -> Tensor:
        """(..., D) -> (..., V)."""
        return self.multiply(hidden, self.embedding.weight, None)


def _pack(weight: Tensor) -> Any:
    """The weight in the layout of the kernel, or False where this PyTorch or processor has none."""
    try:
        return torch.ops.mkldnn._reorder_linear_weight(weight.detach(), 32)
    except (AttributeError, RuntimeError):
        return False
