"""A list of modules of one class."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import nn

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Generic, TypeVar, overload

    M = TypeVar("M", bound=nn.Module)

    class Modules(nn.ModuleList, Generic[M]):
        """`torch.nn.ModuleList`, where type checkers know the class of what is in it."""

        def __init__(self, modules: Iterable[M] | None = None) -> None: ...
        @overload
        def __getitem__(self, idx: slice) -> Modules[M]: ...
        @overload
        def __getitem__(self, idx: int) -> M: ...
        def __getitem__(self, idx: int | slice) -> M | Modules[M]: ...
        def __iter__(self) -> Iterator[M]: ...

else:
    Modules = nn.ModuleList
