"""When a training run reports, validates and saves."""

from __future__ import annotations

import math
import time

from nlptools.batches.source import BatchSource
from nlptools.configs.units import Interval
from nlptools.training.engine.progress import RunProgress


class Due:
    """A recurring interval of steps, seconds or epochs."""

    def __init__(self, every: Interval, progress: RunProgress, source: BatchSource) -> None:
        self.every, self.progress, self.source = every, progress, source
        self.last_time = time.monotonic()
        self.last_epoch = source.epoch

    def now(self) -> bool:
        """Whether the interval has passed since it was last due."""
        every = self.every
        if every.steps is not None:
            return self.progress.step % every.steps == 0
        if every.seconds is not None:
            over = time.monotonic() - self.last_time >= every.seconds
            if over:
                self.last_time = time.monotonic()
            return over
        if every.epochs is not None:
            epoch = self.source.epoch
            over = math.floor(epoch / every.epochs + 1e-9) > math.floor(self.last_epoch / every.epochs + 1e-9)
            self.last_epoch = epoch
            return over
        return False
