"""TorchScript for chains of small operations in inference on a CPU.

One call from Python begins all operations of a function in TorchScript. With one row, Python takes as long as the products in a
decoding step: the weights of each layer displace Python's data from the processor's cache. A call with a packed weight is the
slowest, since the object is converted each time: one row of 576 times a matrix of 64 took 22 microseconds by `torch.ops` on an
AMD EPYC of the third generation, and 9 in TorchScript.
PyTorch announces the end of TorchScript. Without it, the same functions run in Python.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

import torch
from torch import Tensor, nn

S = TypeVar("S", bound=Callable[..., Tensor] | nn.Module)


def scripted(plain: S) -> S:
    """A function or module in TorchScript; itself where this PyTorch or Python has none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        try:
            in_script: S = torch.jit.script(plain)
        except (AttributeError, RuntimeError, OSError):  # OSError: Python's source is not there
            return plain
    return in_script


@contextmanager
def as_written() -> Iterator[None]:
    """Context without TorchScript's optimizer, which takes a second for a step of 30 layers and makes nothing faster."""
    with torch.jit.optimized_execution(False):  # type: ignore[attr-defined]
        yield


class Products(nn.Module):
    """Products with packed weights, in TorchScript."""

    def __init__(self, packed: list[object]) -> None:
        super().__init__()
        self.packed = packed

    def forward(self, x: Tensor, bias: Tensor | None, place: int) -> Tensor:
        """x (..., E) times the weight (D, E) at this place, transposed, plus bias (D,) -> (..., D), in the type of x."""
        raise NotImplementedError


class ScriptedWeight:
    """A frozen matrix (D, E), packed, that shares its products with others once `together` has been called."""

    def __init__(self, products: Products) -> None:
        """`products`: with this weight alone."""
        self.products, self._place = products, 0

    def product(self, x: Tensor, bias: Tensor | None) -> Tensor:
        """x (..., E) times weight^T (E, D), plus bias -> (..., D), in the type of x."""
        out: Tensor = self.products(x, bias, self._place)
        return out


def together(weights: Sequence[ScriptedWeight]) -> None:
    """Let weights of one kind, at least one, share their products."""
    joined = weights[0].products
    joined.packed = [weight.products.packed[weight._place] for weight in weights]
    joined = scripted(joined)
    for place, weight in enumerate(weights):
        weight.products, weight._place = joined, place
