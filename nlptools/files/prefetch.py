"""An iterator that computes one item ahead in a second thread."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

T = TypeVar("T")


def one_ahead(items: Iterable[T]) -> Iterator[T]:
    """The items, in order; an exception is raised in place of the item that caused it.

    If the caller stops early, the thread ends after its current item. It is a daemon thread that is not joined, since its input
    may never arrive and must not keep the process from ending.
    """
    ready: queue.Queue[tuple[str, Any]] = queue.Queue(maxsize=1)
    stopped = threading.Event()

    def make() -> None:
        try:
            for item in items:
                ready.put(("item", item))
                if stopped.is_set():
                    return
            ready.put(("end", None))
        except BaseException as error:  # raised again in the thread of the caller
            ready.put(("error", error))

    threading.Thread(target=make, daemon=True, name="one_ahead").start()
    try:
        while True:
            kind, value = ready.get()
            if kind == "end":
                return
            if kind == "error":
                raise value
            yield value
    finally:
        stopped.set()
        with contextlib.suppress(queue.Empty):
            ready.get_nowait()  # lets a thread that waits for space continue and end
