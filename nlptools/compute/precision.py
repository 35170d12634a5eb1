"""Which number format multiplies fastest on this processor: measured once, then read from the user's cache directory.

The flags of a processor do not tell its speed. An Intel processor with AVX512-bf16, with AMX hidden by the hypervisor,
multiplies 84 GFLOP/s per core in bf16 and 160 in fp32. With AMX, bf16 is several times as fast as fp32; on AMD's processors it
is twice as fast.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from nlptools import environment, messages
from nlptools.compute import processor
from nlptools.errors import BundleError, StreamError
from nlptools.files import artifacts
from nlptools.json_types import Json

if TYPE_CHECKING:
    import torch

_ROWS, _WIDTH = 128, 512  # of the measured product: under a millisecond on one core
_ROUNDS = 6
_ADVANTAGE = 1.1  # least speed of bf16 relative to fp32: it is less exact, and only products gain
_FLAGS = ("amx_tile", "amx_bf16", "avx512f", "avx512_bf16")
_VARIABLES = ("ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA")  # limits on the instructions that oneDNN uses


def fastest() -> str:
    """ "bf16" or "fp32", whichever multiplies faster on this processor, which has instructions for both."""
    rates = measured_rates()
    messages.detail(
        f"products on one core: {rates['fp32']:.0f} GFLOP/s in fp32, {rates['bf16']:.0f} in bf16 ({processor.name()})"
    )
    return "bf16" if rates["bf16"] > _ADVANTAGE * rates["fp32"] else "fp32"


def measured_rates() -> dict[str, float]:
    """GFLOP/s on one core in "fp32" and "bf16": from the cache, else measured and kept there.

    A cache that is damaged is measured again; one that cannot be written is no error.
    """
    import torch

    limits = [f"{name}={os.environ[name]}" for name in _VARIABLES if name in os.environ]
    flags = set(processor.cpuinfo("flags").split())
    key = ", ".join([processor.name(), *(f for f in _FLAGS if f in flags), *limits, f"torch {torch.__version__}"])
    path = cache_file()
    entries = _read(path)
    if key not in entries:
        entries[key] = measure()
        with contextlib.suppress(OSError, StreamError):
            path.parent.mkdir(parents=True, exist_ok=True)
            artifacts.write_json(path, entries)
    return entries[key]


def measure() -> dict[str, float]:
    """GFLOP/s in "fp32" and "bf16" of a product with packed weights, as models compute it: the best of a few rounds.

    The types take turns, so that other work on the machine slows both down. On one core: two that wait for each other on a
    busy machine take as long in either type. Takes about 10 ms.
    """
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        products = {"fp32": _product(torch.float32), "bf16": _product(torch.bfloat16)}
        seconds = dict.fromkeys(products, float("inf"))
        for turn in range(_ROUNDS + 1):
            for name, product in products.items():
                begin = time.perf_counter()
                product()
                if turn:  # the first product builds the kernel
                    seconds[name] = min(seconds[name], time.perf_counter() - begin)
    finally:
        torch.set_num_threads(threads)
    return {name: round(2e-9 * _ROWS * _WIDTH**2 / least, 1) for name, least in seconds.items()}


def cache_file() -> Path:
    """Where rates are kept: one JSON object, from processor and PyTorch version to rates."""
    return environment.cache_directory() / "precision.json"


def _product(dtype: torch.dtype) -> Callable[[], object]:
    """A product (M, K) x (K, N) in this type, as `layers.linear` computes it for inference."""
    import torch

    from nlptools.compute.kernels.linear import PackedWeight

    x, weight = torch.ones(_ROWS, _WIDTH, dtype=dtype), torch.ones(_WIDTH, _WIDTH, dtype=dtype)
    packed = PackedWeight()

    def product() -> object:
        out = packed.product(x, weight, None, "none")
        return torch.nn.functional.linear(x, weight) if out is None else out

    return product


def _read(path: Path) -> dict[str, dict[str, float]]:
    """The entries of the cache that hold what they should."""
    try:
        entries = artifacts.read_json(path)
    except (BundleError, OSError):
        return {}
    return {key: rates for key, value in entries.items() if (rates := _rates(value)) is not None}


def _rates(value: Json) -> dict[str, float] | None:
    """An entry of the cache; None if it is damaged."""
    if not isinstance(value, dict) or set(value) != {"fp32", "bf16"}:
        return None
    rates = {name: rate for name, rate in value.items() if type(rate) in (int, float) and isinstance(rate, int | float)}
    return rates if len(rates) == 2 and min(rates.values()) > 0 else None
