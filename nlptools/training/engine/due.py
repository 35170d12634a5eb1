"""When a training run reports, validates and saves."""

from __future__ import annotations

import math
import time

from nlptools.batches.source import BatchSource
from nlptools.configs.units import Interval
from nlptools.training.engine.progress import RunProgress


class Due:
    """A recurring interval of steps, seconds or epochs.

    The clocks of processes differ, so the clock of the main process decides: `elapsed` there is the argument of `now` in all.
    """

    def __init__(self, every: Interval, progress: RunProgress, source: BatchSource) -> None:
        self.every, self.progress, self.source = every, progress, source
        self.last_time = time.monotonic()
        self.last_epoch = source.epoch

    @property
    def elapsed(self) -> bool:
        """Whether an interval of seconds has passed since it was last due, by the clock of this process."""
        return self.every.seconds is not None and time.monotonic() - self.last_time >= self.every.seconds

    def now(self, elapsed: bool) -> bool:
        """Whether the interval has passed since it was last due."""
        every = self.every
        if every.steps is not None:
            return self.progress.step % every.steps == 0
        if every.seconds is not None:
            if elapsed:
                self.last_time = time.monotonic()
            return elapsed
        if every.epochs is not None:
            epoch = self.source.epoch
            over = math.floor(epoch / every.epochs + 1e-9) > math.floor(self.last_epoch / every.epochs + 1e-9)
            self.last_epoch = epoch
            return over
        return False
