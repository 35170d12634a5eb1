"""RMSNorm against PyTorch's, forward and backward."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from nlptools.compute.kernels import rms_norm as kernel
from nlptools.compute.kernels.rms_norm import rms_norm


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_values_and_gradients_are_those_of_pytorch_in_float64(
    dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel, "_PIECE", 4 * 24)  # several pieces, the last one smaller
    torch.manual_seed(0)
    whole = (torch.randn(3, 6, 2, 24) * 3).to(dtype).requires_grad_()
    x, weight = whole[:, :, 1], torch.randn(24).to(dtype).requires_grad_()
    exact_x, exact_weight = (each.detach().double().requires_grad_() for each in (x, weight))
    exact = F.rms_norm(exact_x, (24,), exact_weight, 1e-3)
    out = rms_norm(x, weight, 1e-3)
    close = 1e-5 if dtype == torch.float32 else 3e-2
    assert out.dtype == dtype and torch.allclose(out.double(), exact, rtol=close, atol=close)
    with torch.no_grad():
        assert torch.equal(rms_norm(x, weight, 1e-3), out)
    upstream = torch.randn_like(out)
    ours = torch.autograd.grad(out, (whole, weight), upstream)
    theirs = torch.autograd.grad(exact, (exact_x, exact_weight), upstream.double())
    assert torch.allclose(ours[0][:, :, 1].double(), theirs[0], rtol=close, atol=close)
    assert torch.allclose(ours[1].double(), theirs[1], rtol=close, atol=close * 10)
    assert not ours[0][:, :, 0].any()


def test_a_row_of_zeros_stays_one() -> None:
    x = torch.zeros(2, 4, requires_grad=True)
    out = rms_norm(x, torch.ones(4), 1e-6)
    out.sum().backward()
    assert not out.any() and torch.isfinite(x.grad).all()  # type: ignore[arg-type]
