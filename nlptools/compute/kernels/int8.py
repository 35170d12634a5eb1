"""Products with matrices in 8 bits, for inference on a CPU.

A step of decoding one row reads every weight once and does little with it, so its time is that of reading them; in 8 bits they
are half as many bytes as in bf16. Each output (row of a matrix) has one scale, symmetric around zero. Each row of the input is
rounded, too, with a scale of its own, so that oneDNN multiplies integers: their sums are exact, and a row does not depend on the
others. The rounded input is unsigned, 128 for zero: processors without AMX multiply unsigned with signed integers, and for two
signed ones oneDNN has nothing but a loop there, which takes 70 ms instead of 0.2.

One row of 768 times a matrix of 2,304, on one core with AMX, weights not in the cache: 0.52 ms in fp32, 0.35 in bf16 packed, 0.26
by PyTorch's product of bf16 with weights in 8 bits, which does not round the input, 0.19 here; 32 rows: 1.45, 0.52, 1.62 and 0.25
ms. On an AMD EPYC with VNNI: 0.58, 0.42, 0.26 and 0.15 ms; 32 rows: 1.72, 0.92, 1.69 and 0.39 ms.
"""

from __future__ import annotations

import torch
from torch import Tensor

_LARGEST = 127
_ZERO = 128  # of unsigned codes
_CHUNK = 4096  # rows of a matrix that are converted at a time
_SMALLEST = 1e-30  # peak of a row of zeros


def available() -> bool:
    """Whether this PyTorch has the kernel for this processor, with exact sums: without VNNI, sums of two products are cut off
    at 16 bits.
    """
    try:
        codes = torch.full((2, 4), _LARGEST, dtype=torch.int8)
        product = Int8Weight(codes, torch.ones(2) / _LARGEST).product(torch.ones(1, 4), None)
    except (AttributeError, RuntimeError):
        return False
    return bool((product - 4).abs().max() < 0.1)


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
        self.scales = scales
        self.zeros = torch.zeros(len(scales), dtype=torch.int64)
        self.packed: Tensor = torch.ops.onednn.qlinear_prepack(codes, None)

    @classmethod
    def of(cls, weight: Tensor) -> Int8Weight:
        """That of a matrix of floats."""
        return cls(*quantized(weight))

    def product(self, x: Tensor, bias: Tensor | None) -> Tensor:
        """x (..., E) times weight^T (E, D), plus bias -> (..., D), in the type of x."""
        rows = x.reshape(-1, x.shape[-1])
        bias = bias if bias is None or bias.dtype == torch.float32 else bias.float()
        out = self._one(rows, bias) if len(rows) == 1 else self._many(rows, bias)
        return out.view(*x.shape[:-1], len(self.scales))

    def _one(self, row: Tensor, bias: Tensor | None) -> Tensor:
        """The kernel takes the scale and the bias of a single row along."""
        exact = row.float()
        peak = max(float(exact.abs().max()), _SMALLEST)
        codes = exact.mul(_LARGEST / peak).round_().add_(_ZERO).to(torch.uint8)
        return self._multiplied(codes, peak / _LARGEST, bias, row.dtype)

    def _many(self, rows: Tensor, bias: Tensor | None) -> Tensor:
        exact = rows.float()
        peaks = exact.abs().amax(-1, keepdim=True).clamp_(min=_SMALLEST)
        codes = exact.mul(_LARGEST / peaks).round_().add_(_ZERO).to(torch.uint8)
        out = self._multiplied(codes, 1.0, None, torch.float32)
        peaks.div_(_LARGEST)
        return (out.mul_(peaks) if bias is None else torch.addcmul(bias, out, peaks)).to(rows.dtype)

    def _multiplied(self, codes: Tensor, scale: float, bias: Tensor | None, dtype: torch.dtype) -> Tensor:
        """The product of codes (N, E) less `_ZERO` and weights, both times their scales, plus bias."""
        weights = self.packed, self.scales, self.zeros
        out: Tensor = torch.ops.onednn.qlinear_pointwise(
            codes, scale, _ZERO, *weights, bias, 1.0, 0, dtype, "none", [], ""
        )
        return out
