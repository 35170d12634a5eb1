"""Products with matrices in 8 bits, for inference on a CPU.

A decoding step of one row reads every weight once and computes little with it, so reading takes most of the time; 8 bits are
half as many bytes as bf16. Each output (row of a matrix) has one scale, symmetric around zero. Each row of the input is also
rounded, with its own scale, so integers are multiplied: their sums are exact, and rows do not depend on each other.

PyTorch has two kernels for this. FBGEMM's rounds the input itself and has little overhead. oneDNN's takes 40 microseconds before
it begins, and multiplies two signed integers in a loop on processors without AMX. One row of 768 times a matrix of 2,304, not in
the cache, on two cores of an AMD EPYC: 0.09 ms by FBGEMM, 0.16 by oneDNN (its input unsigned), 0.13 in bf16; 32 rows: 0.2 and
0.3. Without VNNI, FBGEMM cuts off sums of two products at 16 bits; weights of 7 bits keep them below that. Inputs of 7 bits
would, too, but vary more within a row: the lowest cosine of all-MiniLM-L6-v2's vectors falls from 0.993 to 0.988.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import torch
from torch import Tensor

from nlptools.compute.kernels.scripted import Products, ScriptedWeight

_ZERO, _LARGEST = 128, 127  # of an input's unsigned codes: that of zero, and from there to the largest
_CHUNK = 4096  # rows of a matrix that are converted at a time
_SMALLEST = 1e-30  # peak of a row of zeros


def available() -> bool:
    """Whether this PyTorch has the kernel for this processor."""
    return largest_code() is not None


@cache
def largest_code() -> int | None:
    """The largest code of a weight with which this processor's sums are exact; None: there is no kernel."""
    for largest in (127, 64):
        try:
            weight = _packed(torch.full((2, 4), largest, dtype=torch.int8), torch.ones(2))
            product = _Products(weight)(torch.full((1, 4), float(_LARGEST)), None, 0)
        except (AttributeError, RuntimeError):
            return None
        if bool((product == 4 * _LARGEST * largest).all()):
            return largest
    return None


def quantized(weight: Tensor) -> tuple[Tensor, Tensor]:
    """The codes (D, E) int8 and scales (D,) float32 of a matrix (D, E), which are off by at most half a scale."""
    largest = largest_code()
    assert largest is not None, "not available"
    scales = weight.detach().abs().amax(1).float().clamp_(min=_SMALLEST) / largest
    codes = torch.empty(weight.shape, dtype=torch.int8)
    for begin in range(0, len(weight), _CHUNK):
        part = slice(begin, begin + _CHUNK)
        codes[part] = (weight[part].float() / scales[part, None]).round_()
    return codes, scales


class Int8Weight(ScriptedWeight):
    """A frozen matrix (D, E) in 8 bits: codes int8, and a scale (D,) float32 for each output."""

    def __init__(self, codes: Tensor, scales: Tensor) -> None:
        super().__init__(_Products(_packed(codes, scales)))

    @classmethod
    def of(cls, weight: Tensor) -> Int8Weight:
        """That of a matrix of floats."""
        return cls(*quantized(weight))


class _Products(Products):
    def __init__(self, packed: object) -> None:
        super().__init__([packed])
        self.zero, self.largest, self.smallest = _ZERO, _LARGEST, _SMALLEST

    def forward(self, x: Tensor, bias: Tensor | None, place: int) -> Tensor:
        """See `Products`."""
        rows, packed = x.reshape(-1, x.shape[-1]).float(), self.packed[place]
        if rows.shape[0] == 1:  # the kernel takes the scale of a single row along
            low, high = torch.aminmax(rows)
            scale = max(max(-float(low), float(high)), self.smallest) / self.largest
            out = torch.ops.quantized.linear_with_input_q_dq_qweight_dq_output_fp32(rows, scale, self.zero, packed)
        else:
            scales = rows.abs().amax(-1, keepdim=True).clamp_(min=self.smallest).div_(self.largest)
            rows = rows / scales
            out = torch.ops.quantized.linear_with_input_q_dq_qweight_dq_output_fp32(rows, 1.0, self.zero, packed)
            out.mul_(scales)
        if bias is not None:
            out.add_(bias)
        shape = list(x.shape)
        shape[-1] = out.shape[1]
        shaped: Tensor = out.view(shape)
        return shaped.to(x.dtype)


@contextmanager
def by_fbgemm() -> Iterator[None]:
    """Context in which PyTorch packs rounded weights for FBGEMM's kernels."""
    before = torch.backends.quantized.engine
    torch.backends.quantized.engine = "fbgemm"
    try:
        yield
    finally:
        torch.backends.quantized.engine = before


def _packed(codes: Tensor, scales: Tensor) -> object:
    """Codes (D, E) in the order of FBGEMM's kernel."""
    with by_fbgemm(), warnings.catch_warnings():
        # PyTorch announces the end of quantized tensors, which carry the codes to the kernel
        warnings.simplefilter("ignore")
        zeros = torch.zeros(len(scales), dtype=torch.int64)
        quantized = torch._make_per_channel_quantized_tensor(codes, scales.double(), zeros, 0)
        return torch.ops.quantized.linear_prepack(quantized, None)
