"""The memory of this process, and what PyTorch's kernels on a CPU keep there."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
from pathlib import Path

_KERNEL_CACHES = ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY")
_KERNELS, _KERNELS_OF_PACKED = 128, 256
_ARENAS, _MMAP_THRESHOLD, _TRIM_THRESHOLD = -8, -3, -1  # parameters of mallopt
_LARGEST_BLOCK = 1 << 30  # of the heap: larger blocks are mapped separately
_HUGE, _ADVICE = 1 << 21, 14  # bytes of a huge page; MADV_HUGEPAGE
_GRAIN = 1 << 15  # elements from which on PyTorch uses one more thread


def prepare() -> None:
    """Set up this process. Call it before torch is imported, which reads the environment then."""
    _keep_freed_memory()
    _keep_few_kernels(_KERNELS)
    _sum_in_one_order()


def _keep_freed_memory() -> None:
    """Let the C library reuse large blocks instead of giving them back to the kernel after each use.

    A fresh block costs a page fault every 4 KiB; for the activations of a small model that is several times the
    arithmetic done on them. There is one arena, because backward runs in another thread, and the arena of another thread
    cannot grow that far; see `give_threads_arenas`.
    """
    with contextlib.suppress(OSError, AttributeError):
        libc = ctypes.CDLL(None)
        for parameter, value in ((_ARENAS, 1), (_MMAP_THRESHOLD, _LARGEST_BLOCK), (_TRIM_THRESHOLD, -1)):
            libc.mallopt(parameter, value)
        _ask_for_huge_pages(libc)


def _ask_for_huge_pages(libc: ctypes.CDLL) -> None:
    """Let the kernel give the heap memory in pages of 2 MiB, which need fewer entries in the processor's tables.

    The kernel takes advice for existing addresses only, so the heap is extended first, by addresses without memory. This is
    left out where addresses are limited (`ulimit -v`) or count as memory in use (overcommit_memory 2).
    PyTorch's option (THP_MEM_ALLOC_ENABLE) aligns each block to 2 MiB. Other blocks do not fit into the gaps, so memory grows
    from step to step and is always new, which makes the training of a BERT slower by a sixth.
    """
    limits = (resource.getrlimit(kind)[0] for kind in (resource.RLIMIT_AS, resource.RLIMIT_DATA))
    if any(limit != resource.RLIM_INFINITY for limit in limits):
        return
    if Path("/proc/sys/vm/overcommit_memory").read_text().strip() == "2":
        return
    libc.malloc.argtypes = (ctypes.c_size_t,)
    libc.malloc.restype = libc.sbrk.restype = ctypes.c_void_p
    libc.free.argtypes = (ctypes.c_void_p,)
    libc.madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    begin = -(-libc.sbrk(0) // _HUGE) * _HUGE
    size = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    blocks = [libc.malloc(_LARGEST_BLOCK - _HUGE) for _ in range(size // _LARGEST_BLOCK)]
    for block in blocks:
        libc.free(block)
    libc.madvise(begin, max(0, libc.sbrk(0) - begin), _ADVICE)


def give_threads_arenas(threads: int) -> None:
    """Let the threads that compute allocate without waiting for each other.

    PyTorch's attention in 16 bits allocates memory for each head: one query of 64 sequences with 6 heads takes 0.37 ms with
    these arenas, and 0.95 ms without. The threads start here, before other threads, such as a progress bar's, take the arenas.
    The backward thread starts later and shares the first arena, the only one that can grow.
    """
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_ARENAS, threads)
    start_threads(threads)


def start_threads(threads: int) -> None:
    """Let PyTorch start the threads of its kernels for the calling thread, which computes with `threads` of them."""
    import torch

    torch.empty(threads * _GRAIN).fill_(0.0)


def _sum_in_one_order() -> None:
    """Let MKL add up the terms of a product in an order that depends on its shape only.

    Otherwise the order depends on the addresses of the operands and on the number of threads. A variable that is set wins.
    """
    os.environ.setdefault("MKL_CBWR", "AUTO,STRICT")


def _keep_few_kernels(count: int) -> None:
    """Let products on a CPU keep code and workspace for the last `count` shapes. A variable that is set wins.

    The default is 1,024 shapes, each with up to megabytes: sentences of all lengths, or masks at random places, add new shapes
    at every step. A translator of 5 million weights took 5.3 GB after 300 steps. A training step has some 60 shapes.
    """
    for cache in _KERNEL_CACHES:  # of oneDNN, and of PyTorch around it
        if os.environ.get(cache) in (None, str(_KERNELS)):
            os.environ[cache] = str(count)


def expect_new_shapes() -> None:
    """Bound the memory of packed sequences of any length; few batches have the same shapes. Call it before the first product.

    In 16 bits, attention to packed sequences has three products for each length in the batch, and all layers use the same
    kernels. With 32 kernels, each layer generates them anew: the RoBERTa base shape embeds 143 sentences a second in bf16, and
    184 with 256 kernels (AMD EPYC with AVX512-bf16). all-MiniLM-L6-v2 takes 920 MB instead of 670 for lines of all lengths in
    bf16, and 1.4 GB instead of 1.24 in fp32. Blocks begin at multiples of 2 MiB, because blocks of many sizes fragment the heap
    otherwise; for blocks of one size see `_ask_for_huge_pages`. Variables that are set win.
    """
    _keep_few_kernels(_KERNELS_OF_PACKED)
    os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")
