"""GELU and its derivative against float64."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from nlptools.compute.kernels import gelu


def test_gelu_and_its_derivative_come_out_of_one_visit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gelu, "_PIECE", 1000)  # several pieces, the last one smaller
    x = torch.cat([torch.linspace(-12, 12, 5000), torch.tensor([0.0, -0.0, 1e-30, -1e-30, 60.0, -60.0])])
    x = x.bfloat16().view(2, -1).requires_grad_()
    exact_x = x.detach().double().requires_grad_()
    exact = F.gelu(exact_x, approximate="tanh")
    found = gelu.gelu_tanh(x)
    (slope,) = torch.autograd.grad(found.sum(), x)
    (exact_slope,) = torch.autograd.grad(exact.sum(), exact_x)
    assert found.dtype == torch.bfloat16 and found.grad_fn is not None and "Gelu" in type(found.grad_fn).__name__
    assert torch.allclose(found.double(), exact, rtol=2**-8, atol=1e-6)
    assert torch.allclose(slope.double(), exact_slope, rtol=2**-8, atol=1e-5)
    assert torch.equal(gelu.gelu_tanh(x.detach()), F.gelu(x.detach(), approximate="tanh"))
