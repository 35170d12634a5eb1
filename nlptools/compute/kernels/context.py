"""The context of torch's autograd functions, which carries values from `forward` to `backward`."""

from __future__ import annotations

from typing import Any, Protocol

from torch import Tensor


class FunctionContext(Protocol):
    """See `torch.autograd.function.FunctionCtx`. It takes any attribute besides these."""

    needs_input_grad: tuple[bool, ...]

    @property
    def saved_tensors(self) -> tuple[Tensor, ...]: ...

    def save_for_backward(self, *tensors: Tensor | None) -> None: ...

    def mark_non_differentiable(self, *tensors: Tensor) -> None: ...

    def set_materialize_grads(self, value: bool) -> None: ...

    def __getattr__(self, name: str) -> Any: ...

    def __setattr__(self, name: str, value: object) -> None: ...
