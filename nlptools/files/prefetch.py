"""One item of an iterator made in a second thread while the caller works on the one before."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

T = TypeVar("T")


def one_ahead(items: Iterable[T]) -> Iterator[T]:
    """The items, in order; an error comes where the item would have come.

    When the caller stops early the thread ends with the item that it is at. Nobody waits for it: its input may never come,
    and must not keep the process from ending.
    """
    made: queue.Queue[tuple[str, Any]] = queue.Queue(maxsize=1)
    stopped = threading.Event()

    def make() -> None:
        try:
            for item in items:
                made.put(("item", item))
                if stopped.is_set():
                    return
            made.put(("end", None))
        except BaseException as error:  # whatever it is, the caller is to see it
            made.put(("error", error))

    threading.Thread(target=make, daemon=True, name="one_ahead").start()
    try:
        while True:
            kind, value = made.get()
            if kind == "end":
                return
            if kind == "error":
                raise value
            yield value
    finally:
        stopped.set()
        with contextlib.suppress(queue.Empty):
            made.get_nowait()  # a thread that waits for room goes on, and ends
