"""Calls of a library on untrusted files and text, with a time limit and without messages of the library.

A regular expression in a tokenizer.json can take years for a short line, and an error in the Rust code of the tokenizers package
prints a report before it becomes an exception. So a call runs in a thread, which is abandoned at the time limit and ends with
the process. On Linux, the thread also has a separate table of open files with standard error at /dev/null; on other systems
the library still prints.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import threading
import time
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import TypeVar, cast

from nlptools.errors import BundleError, display, reading

_T = TypeVar("_T")
_CLOSE_RANGE, _UNSHARE = 436, 2  # the system call, by the same number on all processors, and its flag
LEAST = 10.0  # seconds for any call
_RATE = 20_000  # characters of its text for every second more
LOOK = 1.0  # seconds between looks at the clock

_idle: list[_Caller] = []  # threads without work
os.register_at_fork(after_in_child=_idle.clear)  # threads stay in the parent


class _Overdue(Exception):
    """A call exceeds the time limit."""


def guarded(size: int, call: Callable[[], _T], path: str) -> _T:
    """The result of `call()`, which processes `size` characters or tokens with a file at `path`.

    The limit applies to both wall clock and processor time of the process, so that a pause or a busy machine does not count.

    Raises:
        BundleError: an error of the library, or a call that takes longer than 10 s and 1 s for every 20,000 characters.
    """
    try:
        caller = _idle.pop()
    except IndexError:
        caller = _Caller()
    with reading(path):
        try:
            result = caller.run(call, LEAST + size / _RATE)
        except _Overdue as error:
            raise BundleError(f"{display(path)}: the tokenizer {error}: {size:,} characters") from None
    _idle.append(caller)
    return result


class _Caller:
    """A thread that runs calls, one after the other."""

    def __init__(self) -> None:
        self._calls: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        self._ends: SimpleQueue[tuple[object, BaseException | None]] = SimpleQueue()
        threading.Thread(target=self._work, name="guarded call", daemon=True).start()

    def run(self, call: Callable[[], _T], seconds: float) -> _T:
        """The result of a call; raises its exception, or _Overdue. After an error the thread is not used again."""
        self._calls.put(call)
        wall, processor = time.monotonic(), time.process_time()
        try:
            while True:
                with contextlib.suppress(Empty):
                    result, error = self._ends.get(timeout=LOOK)
                    break
                if min(time.monotonic() - wall, time.process_time() - processor) > seconds:
                    raise _Overdue(f"takes longer than {seconds:.0f} s")
            if error is not None:
                raise error
        except BaseException:  # such as Ctrl-C
            self._calls.put(None)
            raise
        return cast(_T, result)

    def _work(self) -> None:
        with contextlib.suppress(OSError, AttributeError):
            _silence()
        while (call := self._calls.get()) is not None:
            try:
                end: tuple[object, BaseException | None] = call(), None
            except BaseException as error:
                end = None, error
            self._ends.put(end)
            del call, end  # what has been worked on may be large


def _silence() -> None:
    """Give this thread its own table of open files, with /dev/null for the standard ones alone, where the system can."""
    if platform.system() != "Linux" or ctypes.CDLL(None).syscall(_CLOSE_RANGE, 0, ctypes.c_uint(0xFFFFFFFF), _UNSHARE):
        return
    for _ in range(3):
        os.open(os.devnull, os.O_RDWR)
