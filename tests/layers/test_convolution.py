"""Gated convolutions against PyTorch's own convolution."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from nlptools.layers.convolution import GatedConvolution


@pytest.mark.parametrize("kernel_size", [1, 3, 5])
def test_a_gated_convolution_equals_conv1d_and_glu(kernel_size: int) -> None:
    torch.manual_seed(1)
    layer = GatedConvolution(6, kernel_size)
    x = torch.randn(2, 8, 6)
    kernel = layer.linear.weight.view(12, kernel_size, 6).transpose(1, 2)
    expected = F.glu(F.conv1d(x.transpose(1, 2), kernel, layer.linear.bias), 1).transpose(1, 2)
    found = layer(x)
    assert found.shape == (2, 9 - kernel_size, 6)
    assert torch.allclose(found, expected, atol=1e-6)


@torch.inference_mode()
def test_initialization_keeps_the_variance() -> None:
    """Of small inputs: their gates are near 1/2."""
    torch.manual_seed(2)
    layer = GatedConvolution(256, 3)
    layer.initialize()
    x = 0.05 * torch.randn(8, 64, 256)
    assert float(layer(x).var() / x.var()) == pytest.approx(1.0, abs=0.05)
    layer.initialize(0.5)
    assert float(layer(x).var() / x.var()) == pytest.approx(0.5, abs=0.05)
