"""The rotation against its definition, forward and backward."""

from __future__ import annotations

import pytest
import torch

from nlptools.compute.kernels.rotary import rotate


def definition(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    a, b = x.chunk(2, -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_it_is_the_definition_and_so_are_its_gradients(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    angles = torch.randn(5, 1, 1, 4, dtype=torch.float64)
    cos, sin = angles.cos().to(dtype), angles.sin().to(dtype)
    whole = torch.randn(2, 5, 1, 4, 8, dtype=dtype, requires_grad=True)
    x = whole[..., 1:, :]  # not contiguous
    exact = definition(x, cos, sin)
    close = {"atol": 1e-12} if dtype == torch.float64 else {"atol": 3e-2}
    assert torch.allclose(rotate(x, cos, sin), exact, **close)  # type: ignore[arg-type]
    assert torch.allclose(rotate(x.detach(), cos, sin), exact, **close)  # type: ignore[arg-type]
    upstream = torch.randn_like(exact)
    (ours,) = torch.autograd.grad(rotate(x, cos, sin), whole, upstream)
    (theirs,) = torch.autograd.grad(exact, whole, upstream)
    assert torch.allclose(ours, theirs, **close) and not ours[..., 0, :].any()  # type: ignore[arg-type]
    assert torch.allclose(x.norm(dim=-1), exact.norm(dim=-1), atol=close["atol"] * 10)
