"""Early stopping by signals and time limits, as a flag that training checks between steps."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar, Token
from types import FrameType, TracebackType

from nlptools import environment, messages
from nlptools.files import atomic

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)
_TIME_LIMIT = "time limit"
REASONS = (*(number.name for number in SIGNALS), _TIME_LIMIT)
_ECHO = 2.0  # seconds in which torchrun may pass on a signal that its processes have got already, as from SLURM


class Interrupted(Exception):
    """A computation was abandoned because the run must stop; the state is as before it."""


class Stop:
    """Context in which SIGTERM, SIGINT and SIGUSR1 set a flag; a second signal ends the process at once.

    The last good checkpoint is kept. A thread answers the signals on standard error: Python calls handlers only when
    PyTorch's current operation in the main thread returns, which may take seconds. Outside of the main thread Python
    allows no signal handlers: only time limits apply.
    """

    def __init__(self, max_seconds: float | None = None) -> None:
        self.reason: str | None = None
        self._deadline = None if max_seconds is None else time.monotonic() + max_seconds
        self._before: dict[int, Callable[[int, FrameType | None], object] | int | None] = {}
        self._outer: Token[Stop | None] | None = None
        self._signalled: int | None = None  # the write end of a pipe, to which the interpreter writes signal numbers

    @property
    def requested(self) -> bool:
        """Whether to stop at the next opportunity."""
        if self.reason is None and self._deadline is not None and time.monotonic() >= self._deadline:
            self.reason = _TIME_LIMIT
        return self.reason is not None

    def __enter__(self) -> Stop:
        self._outer = _current.set(self)
        for number in SIGNALS:
            try:
                self._before[number] = signal.signal(number, self._handle)
            except ValueError:
                return self
        self._before[signal.SIGPIPE] = signal.signal(signal.SIGPIPE, signal.SIG_IGN)  # see `despite_closed_pipes`
        signals, self._signalled = os.pipe()
        os.set_blocking(self._signalled, False)
        signal.set_wakeup_fd(self._signalled, warn_on_full_buffer=False)
        threading.Thread(target=_answer, args=(signals,), daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._outer is not None:
            _current.reset(self._outer)
        if self._signalled is not None:
            signal.set_wakeup_fd(-1)
            os.close(self._signalled)  # ends the thread
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before.clear()

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self.reason = self.reason or signal.Signals(number).name


@contextlib.contextmanager
def despite_closed_pipes() -> Iterator[None]:
    """Context in which a closed pipe on standard error does not end the process: a run needs no messages."""
    try:
        before = signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    except ValueError:  # not in the main thread
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGPIPE, before)


_current: ContextVar[Stop | None] = ContextVar("stop", default=None)


def check() -> None:
    """Raise Interrupted if the run of this thread must stop; for long computations inside of a step."""
    stop = _current.get()
    if stop is not None and stop.requested:
        raise Interrupted


def _answer(signals: int) -> None:
    """Acknowledge the first signal number in the pipe `signals`; the second one ends the process."""
    acknowledged: float | None = None
    while data := os.read(signals, 1):
        number = data[0]
        if number not in SIGNALS:
            continue
        if acknowledged is not None:
            if environment.under_torchrun() and time.monotonic() < acknowledged + _ECHO:
                continue
            atomic.undo()
            ctypes.CDLL(None).signal(number, None)  # the default action; Python's own function is for the main thread
            os.kill(os.getpid(), number)
        acknowledged = time.monotonic()
        if not messages.settings.quiet:
            again = "press Ctrl-C again to quit" if number == signal.SIGINT else "a second signal quits"
            begin = "\r\x1b[K" if messages.settings.bar else "\n" * os.isatty(2)  # overwrites the bar and the ^C
            line = begin + f"stopping after this step; {again} without saving\n"
            with contextlib.suppress(OSError):  # standard error is closed
                os.write(2, line.encode())
    os.close(signals)
