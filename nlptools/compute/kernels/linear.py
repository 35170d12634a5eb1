"""Linear maps by oneDNN: bias, activation and residual inside the product, and packed weights for inference on a CPU.

For a product of few rows with a large matrix, much of the time goes into rearranging the matrix for the kernel, at every call
again. Weights that no longer change are rearranged ("packed") once. Greedy decoding of 32 rows with the GPT-2 124M shape in
fp32 on 2 cores: 125 tokens/s without, 175 with packing. For a single row it depends on the processor, so both are kept. In bf16,
PyTorch's own kernel is as fast as the memory on AMD's processors, and slow on Intel's. One row of 768 times a matrix of 2,304,
not in the cache, in ms on 2 cores:

                                   by oneDNN   packed   by PyTorch
    bf16, AMD EPYC, AVX512-bf16         0.26     0.20        0.125
    bf16, Intel Xeon, AMX               0.19     0.12        0.42
    fp32, Intel Xeon, AMX                        0.27        0.26

In fp32, AMD's processors gain from packing, with AVX-512 or without: all products of one row with the GPT-2 124M shape take
40 ms by MKL, 19 packed; of 4 rows 61 and 15. There is a second reason to pack: from two rows on, the kernel adds up the terms of
each row in the same order for any number of rows. MKL has other kernels for few rows. So every product in fp32 is packed, and
a single row is computed as two: the result of a row does not depend on the other rows. Small matrices become slower: one row of
64 times a matrix of 256 takes 22 microseconds, and 4 by MKL. On processors that have AVX2 and no AVX-512, a single row has the
same sums (380 shapes on an AMD EPYC of the third generation, 1 and 2 threads), and is computed alone: 0.51 ms instead of 0.59 for
one row of 576 times a matrix of 1,536, not in the cache, on 1 core.
An activation is applied by the kernel before it writes the product: 12 layers of 32 rows in bf16 take 4.8 ms instead of 16.9.
With AMX, a product in bf16 takes up to twice the time if its rows do not begin at lines of the cache: 700 rows of 650 times a
matrix of 10,000 take 9.1 ms on 2 cores of an Intel Xeon, and 4.7 ms with aligned rows; moving the rows takes 0.1 ms.
In training, PyTorch writes the bias into every row and lets the kernel add the product to it. Where the result is larger than
the processor's cache, this costs a tenth of the product, so the kernel gets the bias instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nlptools.compute.kernels.context import FunctionContext
from nlptools.compute.processor import cpuinfo, is_amd

if TYPE_CHECKING:
    number: TypeAlias = float  # TorchScript's name of a scalar

LARGE = 1 << 21  # elements of a product; a smaller one stays in the cache while its bias is added
_LINE = 32  # elements of 16 bits in a line of the cache, and in a row of an AMX tile
WORTH_MOVING = 1 << 29  # multiplications of a product from which on `in_lines` makes it faster
_ACTIVATIONS: dict[str, tuple[str, list[float], str]] = {  # oneDNN's names of `layers.linear.ACTIVATIONS`
    "none": ("none", [], ""),
    "gelu_new": ("gelu", [], "tanh"),
    "gelu": ("gelu", [], "none"),
    "relu": ("relu", [], ""),
    "swish": ("swish", [], ""),
}


def by_onednn(dtype: torch.dtype) -> bool:
    """Whether oneDNN multiplies on a CPU: in bfloat16, and in float32 where `compute.backend` chose it."""
    if dtype == torch.bfloat16:
        available = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
        return available and bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
    settings = getattr(torch.backends.mkldnn, "matmul", None)  # missing before PyTorch 2.9
    return dtype == torch.float32 and getattr(settings, "fp32_precision", "") == "bf16"


@cache
def _fewest_rows(dtype: torch.dtype) -> int:
    """The fewest rows for which a packed weight is faster than a plain one."""
    return 2 if dtype == torch.bfloat16 and is_amd() else 1


@cache
def _adds_in_one_order(dtype: torch.dtype) -> bool:
    """Whether the kernel of packed weights adds up the terms of a single row in the same order as those of several rows."""
    flags = cpuinfo("flags").split()
    return dtype == torch.float32 and "avx2" in flags and "avx512f" not in flags


def linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """x (..., E) times weight^T (E, D), plus bias -> (..., D). Differentiable."""
    if x.device.type != "cpu" or torch.compiler.is_compiling():
        return F.linear(x, weight, bias)
    large = x.numel() * len(weight) >= LARGE * x.shape[-1]
    uneven = x.numel() * len(weight) >= WORTH_MOVING and _is_uneven(x)
    if (large or uneven) and bias is not None and weight.requires_grad and by_onednn(x.dtype):
        out: Tensor = _Linear.apply(x, weight, bias)  # type: ignore[no-untyped-call]
        return out
    learns = torch.is_grad_enabled() and (x.requires_grad or weight.requires_grad)
    if x.numel() == x.shape[-1] and x.dtype == torch.bfloat16 and not learns and _fewest_rows(x.dtype) > 1:
        return _of_one_row(x, weight, bias)
    return F.linear(x, weight, bias)


def whole_lines(count: int) -> int:
    """The number of elements of 16 bits in the fewest lines of the cache that hold `count` of them."""
    return -(-count // _LINE) * _LINE


def in_lines(rows_NE: Tensor) -> Tensor:
    """The rows (N, E), each at the beginning of a line of the cache if they are many, in bfloat16, on a CPU."""
    if not _is_uneven(rows_NE):
        return rows_NE
    N, E = rows_NE.shape
    whole = rows_NE.new_empty(N, whole_lines(E))
    whole[:, E:] = 0  # oneDNN reads a line to its end, and multiplies the rest with 0: not to be NaN
    return whole[:, :E].copy_(rows_NE)


def _is_uneven(x: Tensor) -> bool:
    """Whether `in_lines` moves the rows of x (..., E)."""
    E = x.shape[-1]
    return E % _LINE > 0 and x.numel() >= _LINE * E and x.device.type == "cpu" and x.dtype == torch.bfloat16


def _of_one_row(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """`F.linear` by PyTorch's own kernel."""
    if torch.jit.is_tracing():  # type: ignore[attr-defined, no-untyped-call]
        raise RuntimeError("the choice of a kernel cannot be traced")
    before = torch._C._get_mkldnn_enabled()
    # a setting of the process: other threads compute without oneDNN meanwhile, too
    torch._C._set_mkldnn_enabled(False)
    try:
        return F.linear(x, weight, bias)
    finally:
        torch._C._set_mkldnn_enabled(before)


class PackedProducts(nn.Module):
    """Products with packed weights, in TorchScript: see `PackedWeight.product`."""

    def __init__(self, packed: list[Tensor]) -> None:
        super().__init__()
        self.packed = packed

    def forward(self, x: Tensor, bias: Tensor | None, activation: str, algorithm: str, place: int) -> Tensor:
        """With an activation, in oneDNN's terms, and the weight at this place."""
        scalars: list[number | None] = []
        out: Tensor = torch.ops.mkldnn._linear_pointwise(x, self.packed[place], bias, activation, scalars, algorithm)
        return out

    @torch.jit.export
    def with_other(self, x: Tensor, other: Tensor, bias: Tensor | None, how: str, place: int) -> Tensor:
        """With another tensor."""
        out: Tensor = torch.ops.mkldnn._linear_pointwise(x, other, self.packed[place], bias, how)
        return out


class Derived:
    """Something computed from weights and kept with the module that has them."""

    def clear(self) -> None:
        """Drop it, because the weights change."""
        raise NotImplementedError


class PackedWeight(Derived):
    """A copy of a frozen weight in the layout of oneDNN's kernel, created at first use.

    A product is None where the plain weight is the better choice: outside inference on a CPU, for few rows, or where
    this PyTorch or processor has no such kernel.
    """

    def __init__(self) -> None:
        self.packed: Tensor | None = None
        self._fewest = 0  # elements of the rows from which on the packed weight is faster
        self._available = True
        # the operators with an activation and with another tensor: looking for one takes as long as a small operation, and
        # so does its call from Python, which `_op` is without
        self._operators: tuple[Callable[..., Tensor], Callable[..., Tensor]] | None = None

    def clear(self) -> None:
        """See `Derived`."""
        self.packed, self._fewest = None, 0

    @contextmanager
    def traced(self, products: PackedProducts, place: int) -> Iterator[None]:
        """Context in which a part of the traced module computes the products."""
        before, self._operators = (
            self._operators,
            (
                lambda x, packed, bias, activation, scalars, algorithm: products(x, bias, activation, algorithm, place),
                lambda x, other, packed, bias, how: products.with_other(x, other, bias, how, place),
            ),
        )
        try:
            yield
        finally:
            self._operators = before

    def __deepcopy__(self, memo: dict[int, object]) -> PackedWeight:
        """A new one without a packed weight, because the weight of the copied module may change."""
        return PackedWeight()

    def product(
        self,
        x: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        activation: str = "none",
        other: Tensor | None = None,
        how: str = "",
    ) -> Tensor | None:
        """The activation of x (..., E) times weight^T (E, D), plus bias -> (..., D).

        Or, given `other` (..., D), its sum ("add") or product ("mul") with x times weight^T, plus bias.
        """
        learns = weight.requires_grad or x.requires_grad or (other is not None and other.requires_grad)
        if learns or not x.is_cpu:
            return None
        if x.numel() < self._fewest or (self.packed is None and not self._pack(x, weight)):
            return None
        shape, alone = x.shape, x.numel() == x.shape[-1]
        alone = alone and not _adds_in_one_order(x.dtype)
        if alone:  # see the module's docstring
            x = x.reshape(1, -1).expand(2, -1)
            other = None if other is None else other.reshape(1, -1).expand(2, -1)
        assert self._operators is not None
        with_activation, with_other = self._operators
        out = (
            with_activation(x, self.packed, bias, *_ACTIVATIONS[activation])
            if other is None
            else with_other(x, other, self.packed, bias, how)
        )
        return out[0].view(*shape[:-1], -1) if alone else out

    def _pack(self, x: Tensor, weight: Tensor) -> bool:
        """Pack the weight, unless the plain product of so few rows is faster; whether it is packed."""
        self._fewest = _fewest_rows(x.dtype) * x.shape[-1]
        if x.numel() < self._fewest or not self._available:
            return False
        try:
            self.packed = torch.ops.mkldnn._reorder_linear_weight(weight.detach(), 32)
            linear = torch.ops.mkldnn._linear_pointwise
            self._operators = linear.default._op, linear.binary._op
        except (AttributeError, RuntimeError):
            self._available = False
        return self._available


class _Linear(torch.autograd.Function):
    """`F.linear` with a bias, by oneDNN."""

    @staticmethod
    def forward(ctx: FunctionContext, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        if _is_uneven(x):
            return torch.addmm(bias, in_lines(x.reshape(-1, x.shape[-1])), weight.t()).view(*x.shape[:-1], len(weight))
        out: Tensor = torch.ops.mkldnn._linear_pointwise(x, weight, bias, *_ACTIVATIONS["none"])
        return out

    @staticmethod
    def backward(ctx: FunctionContext, *grad_outputs: Tensor) -> tuple[Tensor | None, Tensor, Tensor | None]:
        x, weight = ctx.saved_tensors
        gradient = grad_outputs[0].reshape(-1, len(weight))
        d_x = (gradient @ weight).view(x.shape) if ctx.needs_input_grad[0] else None
        d_bias = gradient.sum(0) if ctx.needs_input_grad[2] else None
        return d_x, gradient.t() @ x.reshape(-1, x.shape[-1]), d_bias
