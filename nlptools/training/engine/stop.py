"""Early stopping by signals and time limits, as a flag that training checks between steps."""

from __future__ import annotations

import os
import signal
import time
from types import FrameType, TracebackType
from typing import Any

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)


class Stop:
    """Context in which SIGTERM, SIGINT and SIGUSR1 set a flag; a second signal ends the process at once.

    The last good checkpoint is kept. Outside of the main thread Python allows no signal handlers: only time limits apply.
    """

    def __init__(self, max_seconds: float | None = None) -> None:
        self.reason: str | None = None
        self._deadline = None if max_seconds is None else time.monotonic() + max_seconds
        self._before: dict[int, Any] = {}

    @property
    def requested(self) -> bool:
        """Whether to stop at the next opportunity."""
        if self.reason is None and self._deadline is not None and time.monotonic() >= self._deadline:
            self.reason = "time limit"
        return self.reason is not None

    def __enter__(self) -> Stop:
        for number in SIGNALS:
            try:
                self._before[number] = signal.signal(number, self._handle)
            except ValueError:
                return self
        # a closed pipe on standard error must not end a training run
        self._before[signal.SIGPIPE] = signal.signal(signal.SIGPIPE, signal.SIG_IGN)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before.clear()

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.reason is not None:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        self.reason = signal.Signals(number).name
