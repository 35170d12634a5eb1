"""Threads while other processes use the cores.

The threads of a product wait for each other at its end, and spin for up to 3 ms meanwhile. If another process has taken the core
of one of them, the others spin on cores that it could run on, at each of some hundred products of a step. While that is so,
threads wait without spinning instead: they get their share of the cores, and each number stays the same. Fewer threads would
change the last bits of some numbers, and get a smaller share. With one thread of two, decoding beside one neighbor was up to 18%
faster where it reads more than it computes, but beside a neighbor per core 10 to 25% slower.

Two counters of Linux show that this happens: how long threads that are ready wait for a core (/proc/self/task/*/schedstat), and
how long each core was busy (/proc/stat), minus the time of this process. On other systems nothing is adapted.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from nlptools.compute import memory

_INTERVAL = 0.2  # seconds between two looks; /proc/stat counts hundredths
_WAITING = 0.1  # waiting that is noticed, as a part of the time, all threads together
_SPARE = 0.3  # of a core: what others may use unnoticed
_CALM = 5  # looks in a row with free cores before threads spin again


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
    """Notices when other processes use the cores that `threads` threads of this one need, of `cores`."""

    def __init__(self, threads: int, cores: int, read: Callable[[], Counters] = reading) -> None:
        self.threads = threads
        self.crowded = False
        self._cores, self._read = cores, read
        self._calm = 0
        self._last = read()

    def look(self) -> bool:
        """Whether threads have waited for cores that others used, since the last look or a few looks ago."""
        now, last = self._read(), self._last
        elapsed = max(now.now - last.now, 1e-9)
        others = max(0.0, (now.busy - last.busy) - (now.own - last.own)) / elapsed
        waits = (now.waited - last.waited) / elapsed > _WAITING
        taken = others > self._cores - self.threads + _SPARE
        self._last = now
        self._calm = 0 if taken or waits else self._calm + 1
        self.crowded = (waits and taken) or (self.crowded and self._calm < _CALM)
        return self.crowded


class ShortWaits:
    """While this exists, threads that wait for each other sleep at once, until `end`.

    libgomp, which runs PyTorch's threads on Linux, lets a thread spin 300,000 times before it sleeps, and 100 times while it has
    more threads than cores. Each Python thread that computes gets its own threads of libgomp. So Python threads start here that
    compute once and sleep, as many as it takes. Another OpenMP than libgomp is not affected.
    """

    def __init__(self, threads: int, cores: int) -> None:
        """`threads`: of each product, at least 2; `cores`: that libgomp knows."""
        self._over = threading.Event()
        count = -(-(cores + 1 - threads) // (threads - 1))  # each Python thread adds all but itself
        started = threading.Barrier(count + 1)

        def hold() -> None:
            memory.start_threads(threads)
            started.wait()
            self._over.wait()

        self._holders = [threading.Thread(target=hold, daemon=True) for _ in range(count)]
        for holder in self._holders:
            holder.start()
        started.wait()

    def end(self) -> None:
        """Threads spin again."""
        self._over.set()
        for holder in self._holders:
            holder.join()


_watch: Watch | None = None
_waits: ShortWaits | None = None
_next = 0.0


def begin(threads: int) -> None:
    """Adapt the waiting of this many threads from now on, where the system has the counters; of one thread: nothing."""
    global _watch, _next
    _spin()
    _watch, _next = None, time.monotonic() + _INTERVAL
    if threads > 1:
        with contextlib.suppress(AttributeError, OSError, ValueError, IndexError):
            _watch = Watch(threads, len(os.sched_getaffinity(0)))


def look() -> None:
    """Called between two steps of a computation, as often as they come."""
    global _next, _waits
    if _watch is None or time.monotonic() < _next:
        return
    _next = time.monotonic() + _INTERVAL
    if not _watch.look():
        _spin()
    elif _waits is None:
        _waits = ShortWaits(_watch.threads, len(os.sched_getaffinity(0)))


def _spin() -> None:
    global _waits
    if _waits is not None:
        _waits.end()
    _waits = None
