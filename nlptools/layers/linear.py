"""Linear maps that oneDNN multiplies in one piece, bias and all, and for inference on a CPU from a packed copy of the weights.

Products of few rows with a large matrix spend much of their time rearranging the matrix for the kernel, again at every
call. When weights no longer change that is done once. Greedy decoding of 32 rows with the GPT-2 124M shape in fp32, on 2
cores: 125 tokens/s without, 175 with. A single row is faster from the plain weights, so both are kept. An activation is
applied by the kernel before it writes the product: 12 layers of 32 rows in bf16 take 4.8 ms instead of 16.9.
In training, PyTorch writes the bias into every row and lets the kernel add the product to that. Where the result is larger than
the processor's cache, this costs a tenth of the product; the kernel can have the bias instead.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nlptools.layers.gelu import gelu_tanh

_FEWEST_ROWS = 8  # below, the plain product is faster
_LARGE = 1 << 21  # elements of a product; a smaller one stays in the cache while its bias is added

# The names are those of Hugging Face configurations; "gelu_new" is the tanh approximation that GPT-2 uses.
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "none": lambda x: x,
    "gelu_new": gelu_tanh,
    "gelu": F.gelu,
    "relu": F.relu,
    "swish": F.silu,
}
_FUSED: dict[str, tuple[str, list[float], str]] = {  # what the kernel of a product calls them
    "none": ("none", [], ""),
    "gelu_new": ("gelu", [], "tanh"),
    "gelu": ("gelu", [], "none"),
    "relu": ("relu", [], ""),
    "swish": ("swish", [], ""),
}


class Packable:
    """What a module needs to multiply with a weight that may be packed."""

    _packed: Any = None

    def multiply(self, x: Tensor, weight: Tensor, bias: Tensor | None, activation: str = "none") -> Tensor:
        """x (..., E) times weight^T (E, D), plus bias, and the activation of that -> (..., D)."""
        if not self._packs(x, weight):
            return ACTIVATIONS[activation](_multiply(x, weight, bias))
        out: Tensor = torch.ops.mkldnn._linear_pointwise(x, self._packed, bias, *_FUSED[activation])
        return out

    def _packs(self, x: Tensor, weight: Tensor) -> bool:
        """Whether to multiply with the packed weight, which is there then."""
        if weight.requires_grad or x.device.type != "cpu" or x.numel() < _FEWEST_ROWS * x.shape[-1] or x.requires_grad:
            return False
        if self._packed is None:
            self._packed = _pack(weight)
        return self._packed is not False


class Linear(Packable, nn.Linear):
    """`torch.nn.Linear` with packing."""

    def forward(self, x: Tensor, activation: str = "none") -> Tensor:
        """(..., E) -> (..., D), through the activation of that name."""
        return self.multiply(x, self.weight, self.bias, activation)

    def add_to(self, residual: Tensor, x: Tensor) -> Tensor:
        """`residual` (..., D) plus the product of x (..., E), for inference: on a CPU the kernel adds it."""
        if not self._packs(x, self.weight):
            return residual + F.linear(x, self.weight, self.bias)
        out: Tensor = torch.ops.mkldnn._linear_pointwise.binary(x, residual, self._packed, self.bias, "add")
        return out


def by_onednn(dtype: torch.dtype) -> bool:
    """Whether oneDNN makes a CPU's products: in bfloat16, and in float32 where PyTorch was told so (see `backend`)."""
    if dtype == torch.bfloat16:
        available = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
        return available and bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
    settings = getattr(torch.backends.mkldnn, "matmul", None)  # there is none before PyTorch 2.9
    return dtype == torch.float32 and getattr(settings, "fp32_precision", "") == "bf16"


def _multiply(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """x (..., E) times weight^T (E, D), plus bias -> (..., D); not packed."""
    large = x.numel() * len(weight) >= _LARGE * x.shape[-1]
    learns = bias is not None and weight.requires_grad and not torch.compiler.is_compiling()
    if large and learns and x.device.type == "cpu" and by_onednn(x.dtype):
        out: Tensor = _Product.apply(x, weight, bias)  # type: ignore[no-untyped-call]
        return out
    return F.linear(x, weight, bias)


class _Product(torch.autograd.Function):
    """`F.linear` with a bias, by oneDNN."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        out: Tensor = torch.ops.mkldnn._linear_pointwise(x, weight, bias, *_FUSED["none"])
        return out

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor | None, Tensor, Tensor | None]:
        x, weight = ctx.saved_tensors
        gradient = grad_outputs[0].reshape(-1, len(weight))
        of_x = (gradient @ weight).view(x.shape) if ctx.needs_input_grad[0] else None
        of_bias = gradient.sum(0) if ctx.needs_input_grad[2] else None
        return of_x, gradient.t() @ x.reshape(-1, x.shape[-1]), of_bias


def _pack(weight: Tensor) -> Any:
    """The weight in the layout of the kernel, or False where this PyTorch or processor has none."""
    try:
        return torch.ops.mkldnn._reorder_linear_weight(weight.detach(), 32)
    except (AttributeError, RuntimeError):
        return False
