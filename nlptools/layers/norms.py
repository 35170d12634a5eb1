"""Norms of hidden states."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from nlptools.compute.kernels.rms_norm import rms_norm
from nlptools.layers.direct import Direct


class LayerNorm(Direct, nn.LayerNorm):
    """Each vector less its mean, over its standard deviation; a gain and a bias for each dimension (Ba et al. 2016,
    arXiv:1607.06450)."""

    unit: ClassVar[float] = 1.0  # the weight with which the gain is 1

    def forward(self, x: Tensor) -> Tensor:
        """(..., D) -> (..., D)."""
        own = self._parameters
        return torch.layer_norm(x, self.normalized_shape, own["weight"], own["bias"], self.eps)


class UnbiasedLayerNorm(LayerNorm):
    """A `LayerNorm` without biases."""

    def __init__(self, size: int, eps: float) -> None:
        super().__init__(size, eps, bias=False)


class RMSNorm(Direct, nn.RMSNorm):
    """Division by the root of the mean square, and a gain for each dimension (Zhang & Sennrich 2019, arXiv:1910.07467)."""

    unit: ClassVar[float] = 1.0  # the weight with which the gain is 1

    def __init__(self, size: int, eps: float) -> None:
        super().__init__(size, eps)

    def forward(self, x: Tensor) -> Tensor:
        """(..., D) -> (..., D)."""
        return rms_norm(x, self._parameters["weight"], self.eps)  # type: ignore[arg-type]


class OffsetRMSNorm(Direct, nn.Module):
    """An `RMSNorm` whose gain is 1 plus the weight, computed in float32, as in Gemma (arXiv:2403.08295)."""

    unit: ClassVar[float] = 0.0

    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.zeros(size))

    def forward(self, x: Tensor) -> Tensor:
        """(..., D) -> (..., D)."""
        return rms_norm(x.float(), self.weight.float() + 1.0, self.eps).to(x.dtype)


NORMS: dict[str, type[LayerNorm] | type[RMSNorm] | type[OffsetRMSNorm]] = {  # a name: a class, (size, eps)
    "layer": LayerNorm,
    "layer-without-bias": UnbiasedLayerNorm,
    "rms": RMSNorm,
    "offset-rms": OffsetRMSNorm,
}
