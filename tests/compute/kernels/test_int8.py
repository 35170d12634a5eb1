"""Products with matrices in 8 bits: beside floats of the rounded numbers."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch
from torch import Tensor

from nlptools.compute.kernels import int8
from nlptools.compute.kernels.int8 import Int8Weight, quantized

pytestmark = pytest.mark.skipif(not int8.available(), reason="no products in 8 bits for this processor")


def rounded(x: Tensor, largest: int = 127) -> Tensor:
    """Each row to equidistant numbers between its peak and minus that, `largest` of them on each side of 0."""
    scale = x.abs().amax(-1, keepdim=True).clamp(min=1e-30) / largest
    return (x / scale).round() * scale


def rounded_weight(weight: Tensor) -> Tensor:
    largest = int8.largest_code()
    assert largest is not None
    return rounded(weight, largest)


@pytest.mark.parametrize("shape", [(1, 24), (7, 24), (2, 3, 24), (1, 1, 24), (24,)])
@pytest.mark.parametrize("with_bias", [True, False])
def test_the_product_is_that_of_the_rounded_numbers(shape: tuple[int, ...], with_bias: bool) -> None:
    torch.manual_seed(1)
    x, weight, bias = torch.randn(shape), torch.randn(40, 24), torch.randn(40) if with_bias else None
    wanted = rounded(x) @ rounded_weight(weight).T + (0 if bias is None else bias)
    ours = Int8Weight.of(weight)
    assert torch.allclose(ours.product(x, bias), wanted, atol=1e-4)
    assert float((wanted - x @ weight.T - (0 if bias is None else bias)).abs().max()) > 1e-3


def test_bf16_goes_in_and_comes_out() -> None:
    torch.manual_seed(2)
    weight, bias = torch.randn(40, 24).bfloat16(), torch.randn(40).bfloat16()
    for rows in (1, 5):
        x = torch.randn(rows, 24).bfloat16()
        out = Int8Weight.of(weight).product(x, bias)
        wanted = rounded(x.float()) @ rounded_weight(weight.float()).T + bias.float()
        assert out.dtype == torch.bfloat16 and torch.allclose(out.float(), wanted, rtol=0.01, atol=0.05)


def test_a_row_does_not_depend_on_the_others() -> None:
    torch.manual_seed(3)
    x, bias = torch.randn(9, 64) * torch.logspace(-3, 3, 9)[:, None], torch.randn(50)
    weight = Int8Weight.of(torch.randn(50, 64))
    together = weight.product(x, bias)
    for row, wanted in zip(x, together, strict=True):
        assert torch.allclose(weight.product(row[None], bias)[0], wanted, rtol=1e-5, atol=1e-5)
        assert torch.equal(weight.product(row.expand(3, -1), bias)[1], wanted)


def test_zeros_stay_zeros() -> None:
    weight = torch.cat([torch.zeros(1, 8), torch.ones(2, 8)])
    ours = Int8Weight.of(weight)
    for rows in (1, 3):
        assert torch.equal(ours.product(torch.zeros(rows, 8), None), torch.zeros(rows, 3))
        assert torch.allclose(ours.product(torch.ones(rows, 8), None), torch.tensor([0.0, 8.0, 8.0]).expand(rows, 3))


def test_codes_are_off_by_half_a_scale_at_most() -> None:
    torch.manual_seed(4)
    weight = torch.randn(5000, 12) * torch.rand(5000, 1)
    codes, scales = quantized(weight)
    largest = int8.largest_code()
    assert largest is not None
    assert codes.dtype == torch.int8 and int(codes.min()) >= -largest
    assert bool(((codes * scales[:, None] - weight).abs() <= 0.501 * scales[:, None]).all())
    assert bool((codes.abs().amax(1) == largest).all())


_WITHOUT_VNNI = """
import torch
from nlptools.compute.kernels.int8 import Int8Weight, largest_code
for rows in (1, 3):  # sums of the largest products
    x, weight = torch.full((rows, 64), 2.0), Int8Weight.of(torch.tensor([[3.0], [-3.0]]).expand(2, 64))
    assert torch.allclose(weight.product(x, None), torch.tensor([384.0, -384.0]).expand(rows, 2)), weight.product(x, None)
print(largest_code())
"""


def test_without_vnni_weights_have_7_bits() -> None:
    """Sums of two products have 16 bits then."""
    variables = {**os.environ, "FBGEMM_ENABLE_INSTRUCTIONS": "AVX2"}
    done = subprocess.run([sys.executable, "-c", _WITHOUT_VNNI], env=variables, capture_output=True, text=True)
    assert done.stdout.strip() == "64", done.stderr
