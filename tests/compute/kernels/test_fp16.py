"""Products with matrices in fp16: compared with the product of the rounded matrix in float64."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from nlptools.compute.kernels import fp16
from nlptools.compute.kernels.fp16 import Fp16Weight
from nlptools.errors import Unavailable

pytestmark = pytest.mark.skipif(not fp16.available(), reason="no products in fp16 for this processor")


def test_products_are_exact_but_for_the_rounded_weights() -> None:
    torch.manual_seed(1)
    for outputs, inputs in ((1, 1), (40, 24), (17, 100), (96, 1300)):
        weight, bias = torch.randn(outputs, inputs), torch.randn(outputs)
        ours = Fp16Weight(weight)
        assert not torch.equal(weight.half().float(), weight)
        for shape in ((inputs,), (1, inputs), (2, 3, inputs), (150, inputs)):
            for dtype in (torch.float32, torch.bfloat16):
                x = torch.randn(shape).to(dtype)
                for added in (None, bias.to(dtype)):
                    wanted = F.linear(x.double(), weight.half().double(), None if added is None else added.double())
                    out = ours.product(x, added)
                    assert out.dtype == dtype and out.shape == wanted.shape
                    tolerance = 1e-4 if dtype == torch.float32 else 0.01 * float(wanted.abs().max())
                    assert torch.allclose(out.double(), wanted, atol=tolerance)


def test_a_row_does_not_depend_on_the_others() -> None:
    torch.manual_seed(2)
    before = torch.get_num_threads()
    weight, rows = Fp16Weight(torch.randn(50, 600)), torch.randn(500, 600)
    together = weight.product(rows, None)
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            for count in (*range(1, 40), *range(119, 136), 241, 242, 247, 254, 361):
                assert torch.equal(weight.product(rows[:count], None), together[:count]), (threads, count)
                assert torch.equal(weight.product(rows[-count:], None), together[-count:]), (threads, count)
    finally:
        torch.set_num_threads(before)


def test_a_weight_too_large_for_fp16_is_refused() -> None:
    with pytest.raises(Unavailable, match="too large for fp16"):
        Fp16Weight(torch.tensor([[1.0, -70000.0]]))
    assert float(Fp16Weight(torch.tensor([[65504.0]])).product(torch.ones(1), None)) == 65504.0
