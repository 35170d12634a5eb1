"""Weights that each process holds a part of, by PyTorch's FSDP2 (`fully_shard`, Zhao et al. 2023, arXiv:2304.11277).

A tensor is divided by its rows: process r of n has chunk r of `torch.chunk(tensor, n)`, which may be empty. Each unit, a block of
the model, gets its whole weights for its forward and backward passes alone. Gradients are sums over the processes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor, nn

from nlptools.compute.backend import Backend
from nlptools.errors import Unavailable


def shard(root: nn.Module, units: Iterable[nn.Module], methods: Iterable[str], backend: Backend) -> None:
    """Divide the weights of `root` among the processes. Each of `units` in it computes with its own weights.

    They are float32, and computed with in the type of `backend`.

    Args:
        methods: names of methods of the units that compute, besides `forward`.

    Raises:
        Unavailable: this PyTorch has no FSDP2 that sums gradients (2.9 has).
    """
    from torch.distributed.device_mesh import init_device_mesh

    try:
        from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard, register_fsdp_forward_method
    except ImportError:
        raise Unavailable("--shard-model needs PyTorch 2.9 or later") from None
    mesh = init_device_mesh(backend.device.type, (backend.world_size,))
    low = None if backend.dtype == torch.float32 else backend.dtype
    policy = MixedPrecisionPolicy(param_dtype=low, reduce_dtype=torch.float32, cast_forward_inputs=False)
    for unit in units:
        fully_shard(unit, mesh=mesh, mp_policy=policy)
        for method in methods:
            register_fsdp_forward_method(unit, method)
    fully_shard(root, mesh=mesh, mp_policy=policy)
    for module in root.modules():
        if isinstance(module, FSDPModule):
            try:
                module.set_force_sum_reduction_for_comms(True)  # gloo has no mean
                module.set_gradient_divide_factor(1.0)
            except AttributeError:
                raise Unavailable("--shard-model needs PyTorch 2.9 or later") from None


def local(tensor: Tensor) -> Tensor:
    """The rows of a divided tensor that this process has: the same memory."""
    part: Tensor = tensor.detach().to_local()  # type: ignore[attr-defined]
    return part


def gathered(part: Tensor, whole: Tensor) -> Tensor:
    """The whole tensor, from a `part` in each process; `whole` is a tensor divided in the same way.

    All processes call this together and get the whole tensor.
    """
    from torch.distributed.tensor import DTensor

    assert isinstance(whole, DTensor)
    placed = DTensor.from_local(
        part, whole.device_mesh, whole.placements, run_check=False, shape=whole.shape, stride=whole.stride()
    )
    return placed.full_tensor()


def part_of(whole: Tensor, backend: Backend) -> Tensor:
    """The rows of a tensor that this process has when it is divided."""
    chunks = torch.chunk(whole, backend.world_size)
    return chunks[backend.rank] if backend.rank < len(chunks) else whole[:0]


def places(module: nn.Module) -> Mapping[str, list[tuple[nn.Module, str]]]:
    """(module, attribute) of each parameter, by its first name; a parameter that is shared has several."""
    first: dict[int, str] = {}
    found: dict[str, list[tuple[nn.Module, str]]] = {}
    for prefix, each in module.named_modules():
        for attribute, parameter in each.named_parameters(recurse=False):
            name = first.setdefault(id(parameter), f"{prefix}.{attribute}".removeprefix("."))
            found.setdefault(name, []).append((each, attribute))
    return found
