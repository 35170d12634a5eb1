"""Linear maps, with an activation or a residual where the kernel can take it along (`compute.kernels.linear`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TypeVar

from torch import Tensor, nn
from torch.nn import functional as F

from nlptools.compute.kernels.gelu import gelu_tanh
from nlptools.compute.kernels.linear import Derived, PackedProducts, PackedWeight, linear
from nlptools.compute.kernels.scripted import ScriptedWeight, scripted
from nlptools.errors import BundleError
from nlptools.layers.direct import Direct

T = TypeVar("T")

# The names come from Hugging Face configurations; "gelu_new" is the tanh approximation that GPT-2 uses.
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "none": lambda x: x,
    "gelu_new": gelu_tanh,
    "gelu": F.gelu,
    "relu": F.relu,
    "swish": F.silu,
}


def check_activation(name: object) -> None:
    """Raise BundleError unless `name` is an activation."""
    if not isinstance(name, str) or name not in ACTIVATIONS:
        raise BundleError(f"activation {name!r:.80} is not supported, expected one of {', '.join(ACTIVATIONS)}")


class Packable:
    """Multiplies with a weight, or with a packed or a rounded copy of it, if there is one (`layers.quantized`)."""

    def __init__(self, *args: object, **options: object) -> None:
        super().__init__(*args, **options)
        self._packed = PackedWeight()
        self.rounded: ScriptedWeight | None = None  # of fewer bits, see `layers.quantized`

    def multiply(self, x: Tensor, weight: Tensor, bias: Tensor | None, activation: str = "none") -> Tensor:
        """x (..., E) times weight^T (E, D), plus bias, followed by the activation -> (..., D)."""
        if self.rounded is not None:
            return ACTIVATIONS[activation](self.rounded.product(x, bias))
        out = self._packed.product(x, weight, bias, activation)
        return ACTIVATIONS[activation](linear(x, weight, bias)) if out is None else out


@contextmanager
def frozen(module: nn.Module) -> Iterator[None]:
    """Context in which no weight of a module learns, so that inference uses packed copies; they are dropped at its end."""
    learning = [weight for weight in module.parameters() if weight.requires_grad]
    for weight in learning:
        weight.requires_grad_(False)
    try:
        yield
    finally:
        for weight in learning:
            weight.requires_grad_(True)
        forget_derived(module)


def forget_derived(module: nn.Module) -> None:
    """Drop all that a module and its parts derived from their weights, because those change."""
    for derived in _kept(module, Derived):
        derived.clear()


@contextmanager
def traceable(module: nn.Module) -> Iterator[list[nn.Module]]:
    """Context in which `torch.jit.trace` can follow the products of a module; yields the modules that the trace must contain."""
    packed = [(each, each.packed) for each in _kept(module, PackedWeight) if each.packed is not None]
    by_onednn = scripted(PackedProducts([weight for _, weight in packed]))
    rounded = {id(each.products): each.products for each in _kept(module, ScriptedWeight)}
    with ExitStack() as stack:
        for place, (each, _) in enumerate(packed):
            stack.enter_context(each.traced(by_onednn, place))
        yield [*rounded.values(), by_onednn] if packed else [*rounded.values()]


def _kept(module: nn.Module, kind: type[T]) -> Iterator[T]:
    """All objects of a kind in a module, its parts, and their output heads, which are no modules."""
    for part in module.modules():
        for value in vars(part).values():
            for kept in vars(value).values() if isinstance(value, Packable) else (value,):
                if isinstance(kept, kind):
                    yield kept


class Linear(Direct, Packable, nn.Linear):
    """`torch.nn.Linear`, faster on a CPU."""

    def forward(self, x: Tensor, activation: str = "none") -> Tensor:
        """(..., E) -> (..., D), followed by the activation of that name."""
        own = self._parameters
        return self.multiply(x, own["weight"], own["bias"], activation)  # type: ignore[arg-type]

    def add_to(self, residual: Tensor, x: Tensor) -> Tensor:
        """`residual` (..., D) plus the map of x (..., E) -> (..., D)."""
        if self.rounded is not None:
            return self.rounded.product(x, self._parameters["bias"]).add_(residual)
        own = self._parameters
        out = self._packed.product(x, own["weight"], own["bias"], other=residual, how="add")  # type: ignore[arg-type]
        return residual + linear(x, self.weight, self.bias) if out is None else out

    def times(self, gate: Tensor, x: Tensor) -> Tensor:
        """`gate` (..., D) times the map of x (..., E) -> (..., D)."""
        if self.rounded is not None:
            return self.rounded.product(x, self._parameters["bias"]).mul_(gate)
        out = self._packed.product(x, self.weight, self.bias, other=gate, how="mul")
        return gate * linear(x, self.weight, self.bias) if out is None else out

    def part(self, x: Tensor, rows: slice) -> Tensor:
        """x (..., E) -> the numbers of the map, of all D, that `rows` chooses."""
        if self.rounded is not None:
            return self.rounded.product(x, self.bias)[..., rows]
        return F.linear(x, self.weight[rows], None if self.bias is None else self.bias[rows])
