"""The memory of a process: what is kept, in which pages, and where threads allocate."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path

import pytest

from nlptools.compute import memory


def test_kernels_are_forgotten_unless_the_environment_says_how_many_to_keep(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LRU_CACHE_CAPACITY", "7")
    for name in ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "THP_MEM_ALLOC_ENABLE"):
        monkeypatch.setenv(name, "0")  # to be put back as it was
        monkeypatch.delenv(name)
    memory._keep_few_kernels(memory._KERNELS)  # as when it is imported
    assert os.environ["LRU_CACHE_CAPACITY"] == "7" and os.environ["ONEDNN_PRIMITIVE_CACHE_CAPACITY"] == "128"
    memory.expect_new_shapes()
    assert os.environ["LRU_CACHE_CAPACITY"] == "7" and os.environ["ONEDNN_PRIMITIVE_CACHE_CAPACITY"] == "256"
    assert os.environ["THP_MEM_ALLOC_ENABLE"] == "1"


@pytest.mark.skipif(not Path("/sys/kernel/mm/transparent_hugepage").is_dir(), reason="the kernel has no huge pages")
@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="needs the GNU C library")
@pytest.mark.parametrize("limit", ["", "ulimit -v 30000000;", "ulimit -d 30000000;"])
def test_the_heap_asks_for_huge_pages_unless_addresses_are_limited(limit: str) -> None:
    script = """
import re
from pathlib import Path
from nlptools.compute import memory
memory.prepare()
heap = Path("/proc/self/smaps").read_text().split("[heap]")[1:]
print(any(" hg " in re.search("VmFlags:.*", part)[0] + " " for part in heap))
kept = bytearray(300_000_000)
kibibytes = int(re.search(r"VmRSS:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
print(290_000 < kibibytes < 400_000)
"""
    command = f"{limit} exec {sys.executable} -c '{script}'"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    strict = Path("/proc/sys/vm/overcommit_memory").read_text().strip() == "2"
    assert done.stdout.split() == [str(not limit and not strict), "True"]


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_stats"), reason="needs the GNU C library")
def test_threads_allocate_apart_and_backward_where_memory_is_kept() -> None:
    script = """
import ctypes, threading, torch
from nlptools.compute.backend import Backend
from nlptools.configs import Compute
Backend.detect(Compute(device="cpu", threads=3))
other = threading.Thread(target=lambda: [bytearray(100) for _ in range(1000)])
other.start()
weight = torch.randn(1000, 1000, requires_grad=True)
((weight * 2).relu() @ weight).sum().backward()
ctypes.CDLL(None).malloc_stats()
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    arenas = [int(line.split("=")[1]) for line in done.stderr.splitlines() if line.startswith("system bytes")][:-1]
    assert len(arenas) == 3, "one for each thread that computes"
    assert max(arenas[1:]) < 10e6 < arenas[0]
