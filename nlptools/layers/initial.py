"""Initial weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import torch
from torch import nn
from torch.overrides import TorchFunctionMode


@contextmanager
def empty_weights() -> Iterator[None]:
    """Modules made inside have weights without content or memory, on the device "meta", and draw no random numbers.

    Without the latter, `nn.Embedding` draws from a normal distribution; on this device, that makes PyTorch import its
    compiler (`torch._dynamo`), which takes over a second.
    """
    with torch.device("meta"), _NoInitialisation():
        yield


class _NoInitialisation(TorchFunctionMode):
    """The functions of `torch.nn.init` return their tensor unchanged."""

    def __torch_function__(
        self,
        func: Callable[..., object],
        types: object,
        args: Sequence[object] = (),
        kwargs: Mapping[str, object] | None = None,
    ) -> object:
        kwargs = kwargs or {}
        if getattr(func, "__module__", None) == "torch.nn.init":
            return kwargs["tensor"] if "tensor" in kwargs else args[0]
        return func(*args, **kwargs)


@torch.no_grad()
def draw_as_bert(module: nn.Module, std: float) -> None:
    """Initialize a module as BERT does (Devlin et al. 2019): weights normal with standard deviation `std`, biases 0, norms 1."""
    for name, parameter in module.named_parameters():
        if parameter.dim() >= 2:
            parameter.normal_(std=std)
        else:
            parameter.fill_(1.0 if name.endswith("norm.weight") else 0.0)


def draw_as_pytorch(module: nn.Module) -> None:
    """Initialize each layer in a module by its `reset_parameters`, where it has this method."""
    for part in module.modules():
        reset = getattr(part, "reset_parameters", None)
        if callable(reset):
            reset()
