"""Products with matrices in 8 bits, for inference on a CPU.

A decoding step of one row reads every weight once and computes little with it, so reading takes most of the time; 8 bits are
half as many bytes as bf16. Each output (row of a matrix) has one scale, symmetric around zero. Each row of the input is also
rounded, with its own scale, so integers are multiplied: their sums are exact, and rows do not depend on each other.

PyTorch has two kernels for this. FBGEMM's rounds the input itself and has little overhead. oneDNN's takes 40 microseconds before
it begins, and multiplies two signed integers in a loop on processors without AMX. One row of 768 times a matrix of 2,304, not in
the cache, on two cores of an AMD EPYC: 0.09 ms by FBGEMM, 0.16 by oneDNN (its input unsigned), 0.13 in bf16; 32 rows: 0.2 and
0.3. Without VNNI, FBGEMM cuts off sums of two products at 16 bits; inputs of 7 bits keep them below that, and are rounded
twice as coarsely.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

_LARGEST = 127
_CHUNK = 4096  # rows of a matrix that are converted at a time
_SMALLEST = 1e-30  # peak of a row of zeros


class InputCodes(NamedTuple):
    """The unsigned codes of an input: the code of zero, and the distance from there to the largest code."""

    zero: int
    largest: int


def available() -> bool:
    """Whether this PyTorch has the kernel for this processor."""
    return input_codes() is not None


@cache
def input_codes() -> InputCodes | None:
    """The widest codes of an input with which this processor's sums are exact; None: there is no kernel."""
    for codes in (InputCodes(128, 127), InputCodes(64, 63)):
        try:
            weight = _packed(torch.full((2, 4), _LARGEST, dtype=torch.int8), torch.ones(2))
            product = _multiply()(torch.full((1, 4), float(codes.largest)), 1.0, codes.zero, weight)
        except (AttributeError, RuntimeError):
            return None
        if bool((product == 4 * _LARGEST * codes.largest).all()):
            return codes
    return None


def quantized(weight: Tensor) -> tuple[Tensor, Tensor]:
    """The codes (D, E) int8 and scales (D,) float32 of a matrix (D, E), which are off by at most half a scale."""
    scales = weight.detach().abs().amax(1).float().clamp_(min=_SMALLEST) / _LARGEST
    codes = torch.empty(weight.shape, dtype=torch.int8)
    for begin in range(0, len(weight), _CHUNK):
        part = slice(begin, begin + _CHUNK)
        codes[part] = (weight[part].float() / scales[part, None]).round_()
    return codes, scales


class Int8Weight:
    """A frozen matrix (D, E) in 8 bits: codes int8, and a scale (D,) float32 for each output."""

    def __init__(self, codes: Tensor, scales: Tensor) -> None:
        of_input = input_codes()
        assert of_input is not None, "not available"
        self.outputs, self.packed = len(scales), _packed(codes, scales)
        self._zero, self._largest = of_input
        self._multiply = _multiply()

    @classmethod
    def of(cls, weight: Tensor) -> Int8Weight:
        """That of a matrix of floats."""
        return cls(*quantized(weight))

    def product(self, x: Tensor, bias: Tensor | None) -> Tensor:
        """x (..., E) times weight^T (E, D), plus bias -> (..., D), in the type of x."""
        rows = x.reshape(-1, x.shape[-1]).float()
        out = self._one(rows) if rows.shape[0] == 1 else self._many(rows)
        if bias is not None:
            out.add_(bias)
        out = out.view(*x.shape[:-1], self.outputs)
        return out if out.dtype == x.dtype else out.to(x.dtype)

    def _one(self, row: Tensor) -> Tensor:
        """The kernel takes the scale of a single row along."""
        low, high = torch.aminmax(row)
        return self._multiplied(row, max(-float(low), float(high), _SMALLEST) / self._largest)

    def _many(self, rows: Tensor) -> Tensor:
        scales = rows.abs().amax(-1, keepdim=True).clamp_(min=_SMALLEST).div_(self._largest)
        return self._multiplied(rows / scales, 1.0).mul_(scales)

    def _multiplied(self, rows: Tensor, scale: float) -> Tensor:
        """The product of rows (N, E), rounded to multiples of the scale, and the weights."""
        out: Tensor = self._multiply(rows, scale, self._zero, self.packed)
        return out


def _multiply() -> Callable[..., Tensor]:
    """The kernel. An overload by name: looking for it at each product takes as long as a small operation.

    `_op` is the same without PyTorch's wrapper in Python, which looks at each argument of a call with a packed weight.
    """
    return torch.ops.quantized.linear_with_input_q_dq_qweight_dq_output_fp32.default._op


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
