"""RMSNorm for inference against PyTorch's."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from nlptools.compute.kernels.rms_norm import rms_norm


@pytest.mark.parametrize("size", [1, 8, 65, 576, 2048])
def test_it_has_the_bits_of_pytorchs(size: int) -> None:
    torch.manual_seed(size)
    x, weight = 10 ** torch.randn(3, 7, 1) * torch.randn(3, 7, size), torch.randn(size)
    x[0, 0] = 0.0
    x[0, 1] = 1e30  # its square is infinite
    for eps in (1e-6, 1e-5, 0.1):
        assert torch.equal(rms_norm(x, weight, eps), F.rms_norm(x, (size,), weight, eps))


@pytest.mark.parametrize("size", [8, 65, 576])
def test_a_row_does_not_depend_on_others(size: int) -> None:
    x, weight = torch.randn(40, size), torch.randn(size)
    together = rms_norm(x, weight, 1e-5)
    assert all(torch.equal(rms_norm(x[i : i + 1], weight, 1e-5)[0], together[i]) for i in range(len(x)))
    assert torch.equal(rms_norm(x.view(5, 8, size), weight, 1e-5).view(40, size), together)


def test_it_is_differentiable_after_inference() -> None:
    x, weight = torch.randn(4, 8), torch.randn(8, requires_grad=True)
    with torch.inference_mode():
        found = rms_norm(x, weight, 1e-5)
    out = rms_norm(x, weight, 1e-5)
    out.sum().backward()  # type: ignore[no-untyped-call]
    assert weight.grad is not None and torch.allclose(out.detach(), found, atol=1e-6)
    with torch.no_grad():
        assert torch.equal(rms_norm(x, weight, 1e-5), found)
