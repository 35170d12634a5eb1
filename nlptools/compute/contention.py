"""Fewer threads while other processes use the cores.

The threads of a product wait for each other at its end. If another process has taken the core of one of them, all wait until it
runs again, for milliseconds, at each of some hundred products of a step. One thread fewer is then several times as fast.
In inference, the number of threads changes no number: each sum is made by one thread. In training it does, in LayerNorm's
backward, so there it stays.

Two counters of Linux tell that this happens. Threads that are ready but have no core count the time that they wait
(/proc/self/task/*/schedstat), and the kernel counts the time that each core was busy (/proc/stat), of which this process knows
its own part. Elsewhere nothing is adapted.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

_INTERVAL = 0.2  # seconds between two looks; /proc/stat counts hundredths
_WAITS = 0.1  # waiting that is noticed, as a part of the time, all threads together
_SPARE = 0.3  # of a core: what others may use without a thread fewer
_CALM = 5  # looks in a row with free cores before another thread is added


@dataclass(frozen=True)
class Counters:
    """Seconds since some time in the past."""

    now: float
    waited: float  # of all threads, without a core
    own: float  # of processor time of this process
    busy: float  # of all cores that this process may use


def reading() -> Counters:
    """The counters now. Raises OSError, ValueError or IndexError where there are none."""
    waited = 0
    for task in Path("/proc/self/task").iterdir():
        try:
            waited += int((task / "schedstat").read_text().split()[1])
        except (FileNotFoundError, ProcessLookupError):  # the thread has ended
            continue
    cores, busy, tick = os.sched_getaffinity(0), 0, os.sysconf("SC_CLK_TCK")
    for line in Path("/proc/stat").read_text().split("\n"):
        name, _, rest = line.partition(" ")
        if name.startswith("cpu") and name[3:].isdigit() and int(name[3:]) in cores:
            user, nice, system, _, _, irq, softirq, *_ = map(int, rest.split())
            busy += user + nice + system + irq + softirq
    return Counters(time.monotonic(), waited / 1e9, time.process_time(), busy / tick)


class Watch:
    """Chooses the number of threads, at most `threads`, of `cores` for this process."""

    def __init__(self, threads: int, cores: int, read: Callable[[], Counters] = reading) -> None:
        self.most, self._cores, self._read = threads, cores, read
        self.threads = threads
        self._calm = 0
        self._last = read()

    def look(self) -> int:
        """The number of threads from now on."""
        now, last = self._read(), self._last
        elapsed = max(now.now - last.now, 1e-9)
        others = max(0.0, (now.busy - last.busy) - (now.own - last.own)) / elapsed
        waits = (now.waited - last.waited) / elapsed > _WAITS
        free = max(1, min(self.most, int(self._cores - others + _SPARE)))
        self._last = now
        self._calm = self._calm + 1 if free > self.threads and not waits else 0
        if waits and free < self.threads:
            self.threads = free
        elif self._calm >= _CALM:
            self.threads, self._calm = self.threads + 1, 0
        return self.threads


_watch: Watch | None = None
_next = 0.0


def begin(threads: int, cores: int) -> None:
    """Adapt the number of threads from now on, at most `threads`, where the system has the counters."""
    global _watch
    end()
    if threads > 1:
        try:
            _watch = Watch(threads, cores)
        except (OSError, ValueError, IndexError):
            _watch = None


def end() -> None:
    """All threads from now on, whatever other processes do."""
    global _watch
    if _watch is not None:
        torch.set_num_threads(_watch.most)
    _watch = None


def look() -> None:
    """Called between two steps of a computation, as often as they come."""
    global _next
    if _watch is None or time.monotonic() < _next:
        return
    _next = time.monotonic() + _INTERVAL
    before = _watch.threads
    if _watch.look() != before:
        torch.set_num_threads(_watch.threads)
