"""Modules that are called as plain functions are.

`nn.Module.__call__` looks for hooks. A step of decoding makes some hundred such calls, and the weights of each layer, on their
way through the processor's cache, displace what Python needs for the next one, so that a call takes several microseconds.
For the same reason, modules that each step calls read their weights from `_parameters`, and not through `__getattr__`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor


class Direct:
    """A base of modules, before `nn.Module`: a call is a call of `forward`. Hooks of such a module are not called."""

    forward: Callable[..., Tensor]
    __call__: Callable[..., Tensor]

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "forward" in cls.__dict__:
            cls.__call__ = cls.forward  # type: ignore[method-assign]
