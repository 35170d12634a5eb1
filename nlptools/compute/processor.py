"""The name and the instructions of the processor, from Linux."""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path


def cpuinfo(key: str) -> str:
    """An entry of /proc/cpuinfo, such as "flags", "model name" or "vendor_id"; empty on other systems."""
    with contextlib.suppress(OSError):
        line = re.search(rf"^{key}\s*:\s*(.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
        if line:
            return line.group(1)
    return ""


def name() -> str:
    """The processor's name."""
    import platform

    return cpuinfo("model name") or platform.processor() or platform.machine()


def has_bf16() -> bool:
    """Whether the processor has instructions for products in bfloat16 (AMX-bf16 or AVX512-bf16)."""
    if os.environ.get("NLPTOOLS_EMULATE_BF16"):  # for tests of the bf16 path on machines without it
        return True
    flags = cpuinfo("flags").split()
    return "amx_bf16" in flags or "avx512_bf16" in flags


def is_amd() -> bool:
    """Whether the processor is one of AMD's, on which MKL, PyTorch's library of products in float32, is slow for few rows."""
    return cpuinfo("vendor_id") in ("AuthenticAMD", "HygonGenuine")


def has_slow_mkl() -> bool:
    """Whether oneDNN multiplies in float32 faster than MKL for all shapes: on AMD's processors with AVX-512.

    With AMX the answer is no, because oneDNN may then round float32 to bfloat16.
    """
    flags = cpuinfo("flags").split()
    return is_amd() and "avx512bw" in flags and not any(flag.startswith("amx") for flag in flags)
