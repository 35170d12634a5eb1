"""A training process to which something happens: `rank_faults.py FAULT RANK COMMAND...` in each process of a run.

The process of this RANK writes its number to the file `pid`, and suffers the fault in step 5 or in the second checkpoint.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from nlptools import cli
from nlptools.training.engine.checkpoint import Checkpoints
from nlptools.training.engine.steps import Fit

STEP = 5


def _signal(number: int) -> None:
    os.kill(os.getpid(), number)


def _no_memory() -> None:
    raise MemoryError


def before_step(act: Callable[[], object]) -> None:
    """Call `act` at the beginning of a step."""
    real = Fit.step

    def step(self: Fit) -> dict[str, float]:
        if self.progress.step == STEP - 1:
            act()
        return real(self)

    Fit.step = step  # type: ignore[method-assign]


def in_save(act: Callable[[], object]) -> None:
    """Call `act` before the second checkpoint gets its name."""
    real = Checkpoints._publish

    def publish(self: Checkpoints, temporary: Path, *rest: Any) -> None:
        if self._written:
            act()
        real(self, temporary, *rest)

    Checkpoints._publish = publish  # type: ignore[method-assign]


def full() -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def not_finite() -> None:
    """From step 5 on, the losses of this process are not numbers."""
    real = Fit._accumulate

    def accumulate(self: Fit, *args: Any) -> dict[str, float]:
        if self.progress.step >= STEP - 1:
            before, self.forward = self.forward, lambda *a: {k: v * float("nan") for k, v in before(*a).items()}
            try:
                return real(self, *args)
            finally:
                self.forward = before
        return real(self, *args)

    Fit._accumulate = accumulate  # type: ignore[method-assign]


FAULTS: dict[str, Callable[[], object]] = {
    "none": lambda: None,
    "kill": lambda: before_step(lambda: _signal(signal.SIGKILL)),
    "kill in a save": lambda: in_save(lambda: _signal(signal.SIGKILL)),
    "stop": lambda: before_step(lambda: _signal(signal.SIGSTOP)),
    "disk full": lambda: in_save(full),
    "no memory": lambda: before_step(_no_memory),
    "not finite": not_finite,
}

if __name__ == "__main__":
    _, fault, rank, *command = sys.argv
    if rank == os.environ["RANK"]:
        Path("pid").write_text(str(os.getpid()))
        FAULTS[fault]()
    sys.argv = ["nlptools", *command]
    cli.main()
