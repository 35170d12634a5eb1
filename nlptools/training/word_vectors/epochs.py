"""The loop over all epochs of word vectors, with reports, validations and checkpoints in between."""

from __future__ import annotations

import math
import time
from dataclasses import asdict, dataclass

from nlptools import messages
from nlptools.configs.units import interval
from nlptools.configs.word_vectors import VectorRun
from nlptools.corpora.word_sequences import Sequences
from nlptools.errors import Diverged
from nlptools.training.engine.checkpoint import Checkpoints
from nlptools.training.engine.log import Log
from nlptools.training.engine.stop import Stop
from nlptools.training.word_vectors.building import Tables
from nlptools.training.word_vectors.chunks import Advance, ChunkProgress, Chunks

REPORT_SECONDS = 1.0


@dataclass
class Epochs:
    """A run, from the checkpoint at which it begins."""

    trainer: Chunks
    tables: Tables
    progress: ChunkProgress
    stop: Stop
    log: Log
    checkpoints: Checkpoints | None
    run: VectorRun
    keep: bool  # whether to save a checkpoint at the end
    advance: Advance

    def go(self, valid: Sequences | None) -> None:
        """Train until all epochs are done or a stop is requested; report, validate and save meanwhile."""
        plan, progress = self.trainer.plan, self.progress
        saves = interval(self.run.save_every)
        self._saved = self._reported = time.monotonic()
        while progress.chunk < plan.total:
            end = (progress.chunk // plan.chunks + 1) * plan.chunks
            self._due = saves.seconds
            self.advance(progress, end, self._look)
            finished = progress.chunk >= end
            self._report(always=finished or self.stop.requested)
            if finished and valid is not None:
                loss = self.trainer.held_out(valid.ids)
                if loss is None:
                    messages.warn(
                        "no pairs of words in the held-out text", kind="no pairs in the held-out text", most=1
                    )
                else:
                    self.log.valid(progress.chunk, {"epoch": progress.chunk / plan.chunks, "loss": loss})
            epoch = finished and saves.epochs is not None
            last = progress.chunk == plan.total
            if self.stop.requested or self._is_due() or (self.keep if last else epoch):
                self._save()
            if self.stop.requested:
                break

    def _look(self, progress: ChunkProgress) -> bool:
        """Report; returns whether to interrupt training for a checkpoint or a stop."""
        self._report()
        return self.stop.requested or self._is_due()

    def _is_due(self) -> bool:
        return self.checkpoints is not None and self._due is not None and time.monotonic() - self._saved >= self._due

    def _report(self, always: bool = False) -> None:
        now, progress, plan = time.monotonic(), self.progress, self.trainer.plan
        if not always and now - self._reported < REPORT_SECONDS:
            return
        self._reported = now
        chunk = min(plan.total, int(progress.done / max(1, self.trainer.size) * plan.chunks))
        unit = self.trainer.unit
        loss = {} if progress.loss is None else {"loss": progress.loss}
        self.log.train(
            chunk,
            {
                **loss,
                "lr": self.trainer.rate(chunk / plan.total),
                unit: progress.done,
                f"{unit}_per_second": progress.done / max(1e-9, progress.seconds),
            },
        )

    def _save(self) -> None:
        if self.checkpoints is not None:
            if not all(math.isfinite(float(table.sum())) for table in self.tables.values()):
                raise Diverged("the vectors are not finite", hint=f"use a lower --lr than {self.trainer.plan.lr:g}")
            self.checkpoints.save(self.progress.chunk, dict(self.tables), {}, asdict(self.progress))
            self._saved = time.monotonic()
