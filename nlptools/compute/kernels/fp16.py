"""Products with matrices in 16 bits (fp16), for inference on a CPU without units for products in 16 bits.

A decoding step of one row reads every weight once, so half as many bytes take about half the time. Inputs, products and sums
are float32. A weight loses at most 1/2048 of its value, and one from a file in bf16 loses nothing unless it is below 1/16384.
One row of 576 times a matrix of 1,536, not in the cache, on one core of an AMD EPYC of the third generation (AVX2), busy with
other work: 0.36 ms, and 0.63 by oneDNN in float32; 32 rows 1.6 and 1.9, 512 rows 14.7 and 16.6.

FBGEMM's kernels for one and two rows add up terms in another order than the kernels for more rows. Where they would be used, the
last row is computed several times, so that a row does not depend on the others.
"""

from __future__ import annotations

import warnings
from functools import cache

import torch
from torch import Tensor

from nlptools.compute.kernels.int8 import by_fbgemm
from nlptools.compute.kernels.scripted import Products, ScriptedWeight
from nlptools.errors import Unavailable

_LARGEST = 65504.0
_BLOCK = 120  # rows that FBGEMM multiplies at a time; the remainder decides which kernels it uses


def available() -> bool:
    """Whether this PyTorch has the kernel for this processor."""
    try:
        return 0 not in uneven_counts()
    except (AttributeError, RuntimeError):
        return False


@cache
def uneven_counts() -> frozenset[int]:
    """The numbers of rows, modulo 120, with a row whose terms are added up in another order than in 240 rows."""
    draws = torch.Generator().manual_seed(1)
    weight = _packed(torch.randn(16, 64, generator=draws))
    rows = torch.randn(1, 64, generator=draws).repeat(2 * _BLOCK, 1)
    multiply = torch.ops.quantized.linear_dynamic_fp16
    wanted = multiply(rows, weight)[0]
    counts = range(1, len(rows) + 1)
    return frozenset(n % _BLOCK for n in counts if not bool((multiply(rows[:n], weight) == wanted).all()))


class Fp16Weight(ScriptedWeight):
    """A frozen matrix (D, E) in fp16."""

    def __init__(self, weight: Tensor) -> None:
        """Raises Unavailable if a number is too large for fp16."""
        if weight.numel() and float(weight.abs().max()) > _LARGEST:
            raise Unavailable("a weight of this model is too large for fp16", hint="leave --quantize out")
        super().__init__(_Products(_packed(weight.detach().float())))


class _Products(Products):
    def __init__(self, packed: object) -> None:
        super().__init__([packed])
        self.uneven = [count in uneven_counts() for count in range(_BLOCK)]

    def forward(self, x: Tensor, bias: Tensor | None, place: int) -> Tensor:
        """See `Products`."""
        rows = x.reshape(-1, x.shape[-1]).float()
        count = rows.shape[0]
        parts, last = [rows], rows[count - 1 :]
        while self.uneven[(count + len(parts) - 1) % len(self.uneven)]:
            parts.append(last)  # not an expanded row: its copy would take ten times as long
        out = torch.ops.quantized.linear_dynamic_fp16(rows if len(parts) == 1 else torch.cat(parts), self.packed[place])
        if len(parts) > 1:
            out = out[:count]
        if bias is not None:
            out.add_(bias)
        shape = list(x.shape)
        shape[-1] = out.shape[1]
        shaped: Tensor = out.view(shape)
        return shaped.to(x.dtype)


def _packed(weight: Tensor) -> object:
    """A matrix (D, E) in float32, rounded and in the order of FBGEMM's kernel."""
    with by_fbgemm(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch announces the end of its packed weights
        return torch.ops.quantized.linear_prepack_fp16(weight, None)
