"""Time, memory and disk of a command with all processes that it starts, by looking at /proc while it runs."""

from __future__ import annotations

import contextlib
import os
import signal
import stat
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

_PAUSE, _SHARE = (
    0.02,
    20,
)  # seconds from look to look, and how many times as long as one takes the processor they are apart


@dataclass
class Cost:
    """What a command has taken.

    Attributes:
        seconds: from its start to the end of its last process.
        memory: the most memory of its own, in MiB: what its processes have written to, shared pages counted once.
        mapped: the most memory with the pages of files that they have mapped, which the kernel can take back.
        disk: the most that its folder held, with files that have no name anymore, in MiB.
    """

    seconds: float
    memory: float
    mapped: float
    disk: float


class Failed(Exception):
    """A command ended with an error, or was stopped because its time was over."""


def cost(words: Sequence[str], folder: Path, limit: float, stdin: Path | None = None) -> Cost:
    """Run a command in a folder, which also gets its temporary files.

    Raises:
        Failed: it took longer than `limit` seconds, or its status is not 0.
    """
    begin, found = time.monotonic(), Cost(0, 0, 0, 0)
    env = {**os.environ, "TMPDIR": str(folder)}
    with (
        open(stdin or os.devnull, "rb") as given,
        (folder / "errors").open("w+b") as errors,
        subprocess.Popen(words, cwd=folder, env=env, stdin=given, stderr=errors, start_new_session=True) as process,
    ):
        try:
            while process.poll() is None:
                looked = time.thread_time()
                _look(process.pid, folder, found)
                if time.monotonic() - begin > limit:
                    raise Failed(f"stopped after {limit:.0f} s")
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(max(_PAUSE, _SHARE * (time.thread_time() - looked)))
        except BaseException:
            _stop(process.pid)
            raise
        found.seconds = time.monotonic() - begin
        if process.returncode:
            errors.seek(0)
            raise Failed(f"status {process.returncode}: {errors.read()[-500:].decode(errors='replace')}")
    found.disk = max(found.disk, _held(folder) / (1 << 20))
    return found


def _look(root: int, folder: Path, most: Cost) -> None:
    """Raise the figures to those of now."""
    own = files = unnamed = 0
    for process in _tree(root):
        with contextlib.suppress(OSError):
            rows = dict(
                row.split(":", 1) for row in Path(f"/proc/{process}/smaps_rollup").read_text().split("\n")[1:-1]
            )
            kilobytes = {name: int(rows[name].split()[0]) for name in ("Pss_Anon", "Pss_Shmem", "Pss_File")}
            own += kilobytes["Pss_Anon"] + kilobytes["Pss_Shmem"]
            files += kilobytes["Pss_File"]
        unnamed += _unnamed(process)
    most.memory, most.mapped = max(most.memory, own / 1024), max(most.mapped, (own + files) / 1024)
    most.disk = max(most.disk, (_held(folder) + unnamed) / (1 << 20))


def _tree(root: int) -> Iterator[int]:
    """The process and its descendants."""
    children: dict[int, list[int]] = {}
    for place in os.listdir("/proc"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            parent = int(Path(f"/proc/{int(place)}/stat").read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(place))
    found = [root]
    for process in found:
        found += children.get(process, [])
    return iter(found)


def _unnamed(process: int) -> int:
    """The bytes on disk of files that a process holds open, and that have no name."""
    total = 0
    with contextlib.suppress(OSError):
        for number in os.listdir(f"/proc/{process}/fd"):
            with contextlib.suppress(OSError):
                found = os.stat(f"/proc/{process}/fd/{number}")
                if stat.S_ISREG(found.st_mode) and not found.st_nlink:
                    total += found.st_blocks * 512
    return total


def _held(folder: Path) -> int:
    """The bytes on disk of the files in a folder."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                total += os.lstat(os.path.join(place, name)).st_blocks * 512
    return total


def _stop(root: int) -> None:
    """End a process and all that it has started."""
    for process in [*_tree(root)]:
        with contextlib.suppress(OSError):
            os.kill(process, signal.SIGKILL)
