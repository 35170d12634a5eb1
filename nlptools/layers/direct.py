"""Modules whose call is a plain call of `forward`.

`nn.Module.__call__` looks for hooks. A step of decoding makes some hundred such calls. The weights of each layer displace
Python's data from the processor's cache, so each call takes several microseconds. For the same reason, modules that each step
calls read their weights from `_parameters`, and not through `__getattr__`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

_REGISTER = (
    *("register_forward_pre_hook", "register_forward_hook", "register_backward_hook"),
    *("register_full_backward_pre_hook", "register_full_backward_hook"),
)


class Direct:
    """A base of modules, before `nn.Module`: a call is a call of `forward`, until the module itself gets a hook.

    Hooks of all modules (`torch.nn.modules.module.register_module_forward_hook`) are not called.
    """

    forward: Callable[..., Tensor]
    __call__: Callable[..., Tensor]

    def __init_subclass__(cls, **options: object) -> None:
        super().__init_subclass__(**options)
        if "forward" in cls.__dict__:
            cls.__call__ = cls.forward  # type: ignore[method-assign]


def _registering(name: str) -> Callable[..., RemovableHandle]:
    """The method `name` of `nn.Module`, after which calls look for hooks."""

    def register(self: nn.Module, *args: object, **options: object) -> RemovableHandle:
        kind: type = type(self)
        self.__class__ = _with_hooks(kind)
        handle: RemovableHandle = getattr(nn.Module, name)(self, *args, **options)
        return handle

    return register


for _name in _REGISTER:
    setattr(Direct, _name, _registering(_name))


@cache
def _with_hooks(kind: type) -> type:
    """A class like `kind` with calls that look for hooks; `kind` itself if its calls do."""
    if kind.__call__ is nn.Module.__call__:
        return kind
    return type(kind.__name__, (kind,), {"__call__": nn.Module.__call__, "__module__": kind.__module__})
