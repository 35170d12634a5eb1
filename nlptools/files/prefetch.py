"""Iterators that compute ahead in other threads."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

S = TypeVar("S")
T = TypeVar("T")


def mapped(function: Callable[[S], T], items: Iterable[S], threads: int) -> Iterator[T]:
    """`function` of each item, in order, computed by several threads; at most one finished result per thread waits.

    An exception is raised when the item that caused it is due.
    """
    if threads <= 1:
        yield from map(function, items)
        return
    with ThreadPoolExecutor(threads) as pool:
        waiting: deque[Future[T]] = deque()
        try:
            for item in items:
                waiting.append(pool.submit(function, item))
                if len(waiting) > 2 * threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


def one_ahead(items: Iterable[T]) -> Iterator[T]:
    """The items, in order; an exception is raised when the item that caused it is due.

    If the caller stops early, the thread ends after its current item. It is a daemon thread that is not joined, since its input
    may never arrive and must not keep the process from ending.
    """
    ready: queue.Queue[tuple[list[T], BaseException | None]] = queue.Queue(
        maxsize=1
    )  # an item, or the end and its error
    stopped = threading.Event()

    def make() -> None:
        try:
            for item in items:
                ready.put(([item], None))
                if stopped.is_set():
                    return
            ready.put(([], None))
        except BaseException as error:  # raised again in the thread of the caller
            ready.put(([], error))

    threading.Thread(target=make, daemon=True, name="one_ahead").start()
    try:
        while True:
            next_item, error = ready.get()
            if error is not None:
                raise error
            if not next_item:
                return
            yield from next_item
    finally:
        stopped.set()
        with contextlib.suppress(queue.Empty):
            ready.get_nowait()  # lets a thread that waits for space continue and end
