"""Distribution of numbered pieces of work to forked processes that share memory with this one."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from nlptools.errors import NlptoolsError

if TYPE_CHECKING:
    from multiprocessing.sharedctypes import Synchronized


def deal(
    first: int,
    last: int,
    workers: int,
    work: Callable[[int, int], None],
    look: Callable[[], bool] = lambda: False,
    broken: Callable[[], bool] = lambda: False,
) -> int:
    """Process the pieces `first` to `last` - 1; each process takes the next free piece. Returns the next piece to process.

    With one worker the pieces are processed in this process, in order.

    Args:
        work: work(piece, rank) processes one piece; its results are in shared memory or in files.
        look: called in this process from time to time and, with one worker, after each piece; True stops the work.
        broken: called in each process before each piece; True stops that process.

    Raises:
        NlptoolsError: a process has died.
    """
    if workers == 1:
        while first < last:
            work(first, 0)
            first += 1
            if look():
                break
        return first
    context = multiprocessing.get_context("fork")
    counter, stopped = context.Value("q", first), context.Value("b", 0)
    processes = [
        context.Process(target=_serve, args=(rank, work, broken, counter, last, stopped, os.getpid()), daemon=True)
        for rank in range(workers)
    ]
    try:
        for process in processes:
            process.start()
        while any(process.is_alive() for process in processes):
            processes[0].join(0.1) if processes[0].is_alive() else time.sleep(0.02)
            if look():
                stopped.value = 1
        for process in processes:
            process.join()
            if process.exitcode:
                code = process.exitcode
                end = f"was killed by signal {-code}" if code < 0 else f"ended with status {code}"
                raise NlptoolsError(f"a worker process {end}")
    finally:
        for process in processes:
            if process.pid is not None:
                process.kill()
    return min(int(counter.value), last)


def _serve(
    rank: int,
    work: Callable[[int, int], None],
    broken: Callable[[], bool],
    counter: Synchronized[int],
    last: int,
    stopped: Synchronized[int],
    parent: int,
) -> None:
    """The main function of a worker process."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1):
        signal.signal(number, signal.SIG_IGN)  # the parent decides when to stop
    while not stopped.value and os.getppid() == parent and not broken():
        with counter.get_lock():
            piece = counter.value
            if piece >= last:
                return
            counter.value += 1
        work(piece, rank)
