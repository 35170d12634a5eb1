"""Processes, threads and cores, as the launcher, the scheduler and the user set them in environment variables."""

from __future__ import annotations

import contextlib
import os
import re
import sys
from pathlib import Path

from nlptools.errors import UsageError


def ranks() -> tuple[int, int, int]:
    """(rank, local rank, world size) from torchrun, else from SLURM when srun started several tasks, else one process."""
    env = os.environ
    if "RANK" in env and "WORLD_SIZE" in env:
        return number("RANK"), number("LOCAL_RANK", 0), number("WORLD_SIZE")
    world_size = number("SLURM_STEP_NUM_TASKS", 1)
    if "SLURM_STEP_ID" in env and world_size > 1:
        env.setdefault("MASTER_ADDR", env.get("SLURM_LAUNCH_NODE_IPADDR", "127.0.0.1"))
        env.setdefault("MASTER_PORT", str(20000 + number("SLURM_JOB_ID", 0) % 20000))
        env.setdefault("LOCAL_WORLD_SIZE", env.get("SLURM_STEP_TASKS_PER_NODE", "1").split("(")[0])
        return number("SLURM_PROCID"), number("SLURM_LOCALID"), world_size
    return 0, 0, 1


def under_torchrun() -> bool:
    """Whether torchrun has started this process. It starts processes again, or ends the others, after a status other than 0."""
    return "TORCHELASTIC_RUN_ID" in os.environ


def available_threads() -> int:
    """Threads to compute with: as OMP_NUM_THREADS says, but not more than `available_cores`."""
    limit = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()  # of a list, the outermost level
    if limit == "1" and under_torchrun() and number("LOCAL_WORLD_SIZE", 1) > 1:
        limit = ""  # torchrun's default for several processes, not a choice of the user
    return max(1, min(available_cores(), int(limit))) if limit.isdigit() else available_cores()


def available_cores() -> int:
    """Cores that this process may use, by affinity, cgroup and SLURM; processes on one machine share them."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    with contextlib.suppress(OSError, ValueError):
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        if quota != "max":
            cores = min(cores, max(1, int(quota) // int(period)))
    limit = os.environ.get("SLURM_CPUS_PER_TASK", "")
    if limit.isdigit():
        return max(1, min(cores, int(limit)))
    return max(1, cores // max(1, number("LOCAL_WORLD_SIZE", 1)))


def available_memory() -> int:
    """Bytes of memory that this process may use, by the machine and the cgroup; other processes share them."""
    size = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with contextlib.suppress(OSError, ValueError):
        size = min(size, int(Path("/sys/fs/cgroup/memory.max").read_text()))  # "max": no limit
    return size


def resident_memory() -> int:
    """Bytes of memory that this process occupies; without Linux's /proc, those that it has occupied at most."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def cache_directory() -> Path:
    """The directory of what nlptools keeps between runs for this user, which need not exist."""
    root = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(root):  # as the XDG specification has it
        root = os.path.expanduser("~/.cache")
    return Path(root) / "nlptools"


def number(variable: str, default: int | None = None) -> int:
    """The whole number in an environment variable. Raises UsageError if it is not one, or missing without a default."""
    text = os.environ.get(variable, "" if default is None else str(default))
    if not re.fullmatch(r"[0-9]{1,18}", text):
        raise UsageError(f"environment variable {variable}: {text!r} is not a whole number")
    return int(text)
