"""Training by several processes on their parts of the text. Each has its own tables; they merge them from time to time.

In a round, each process trains on a few chunks. After each round, the processes merge the rows of the most frequent words, and
after several rounds all rows (Ji et al. 2016, "Parallelizing word2vec in shared and distributed memory", arXiv:1604.04661). All
processes then have equal tables, so a run can continue in any number of processes.

Orthogonal changes of a row are added, and parallel ones averaged (Maleki et al. 2020, "Scaling distributed training with adaptive
summation", arXiv:2006.02924; for word vectors, Gill et al. 2019, arXiv:1909.03359). A mean would halve the updates of a rare word
that one process alone has read. A sum would move frequent words too far.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from nlptools.compute.backend import Backend
from nlptools.training.engine.stop import REASONS, Stop
from nlptools.training.word_vectors.chunks import ChunkProgress, Chunks

FREQUENT = 16  # one row in 16 is merged after each round
_FEW = 64  # rows that are merged after each round, at least: each token uses all position weights
WHOLE = 8  # rounds after which all rows are merged
_ROUND = 4  # chunks of a worker in a round, at most
_ROUNDS = 32  # rounds of an epoch, at least, if the text is long enough
_BLOCK = 1 << 22  # numbers that are exchanged at a time


def merged(changes: Tensor) -> Tensor:
    """The common change (R, D) of rows, from the changes (W, R, D) by several processes."""
    while len(changes) > 1:
        one, two = changes[:-1:2], changes[1::2]  # the last one waits if their number is odd
        product = (one * two).sum(-1, keepdim=True) / 2
        sums = [each * (1 - product / each.square().sum(-1, keepdim=True).clamp(min=1e-30)) for each in (one, two)]
        changes = torch.cat([sums[0] + sums[1], changes[2 * len(two) :]])
    return changes[0]


class MergedChunks:
    """Trains in rounds with the other processes.

    Args:
        trainer: trains on the chunks of this process.
        tables: the same ones in each process; changed in place by the trainer, and here.
        frequent_last: the names of tables with the most frequent rows at the end; other tables have them at the beginning.
        stop: a request to any process stops all of them.
    """

    def __init__(
        self,
        trainer: Chunks,
        tables: Mapping[str, Tensor],
        backend: Backend,
        frequent_last: tuple[str, ...],
        stop: Stop,
    ) -> None:
        self.trainer, self.tables, self.backend, self.stop = trainer, tables, backend, stop
        self.before = {name: table.clone() for name, table in tables.items()}  # after the last merge
        chunks = min(_ROUND * trainer.workers, trainer.plan.chunks // (_ROUNDS * backend.world_size))
        self.chunks = backend.broadcast(max(1, chunks))  # of each process in a round
        self.rounds = 0
        self._frequent = {name: self._rows(table, name in frequent_last) for name, table in tables.items()}

    @staticmethod
    def _rows(table: Tensor, last: bool) -> range:
        some = min(len(table), max(_FEW, -(-len(table) // FREQUENT)))
        return range(len(table) - some, len(table)) if last else range(some)

    def run(self, progress: ChunkProgress, last: int, report: Callable[[ChunkProgress], bool]) -> None:
        """As `Chunks.run`. All processes call this together, and stop after the same round, with all rows merged."""
        began, seconds, loss, weight, over = time.monotonic(), progress.seconds, 0.0, 0.0, False
        world_size = self.backend.world_size
        while progress.chunk < last and not over:
            end = min(last, progress.chunk + world_size * self.chunks)
            self.trainer.run(ChunkProgress(progress.chunk), end, lambda _: False, self.backend.rank, world_size)
            done, *more = self.backend.sum(self.trainer.sums())
            loss, weight = loss + more[0], weight + more[1]
            progress.chunk, progress.done = end, progress.done + int(done)
            progress.loss = loss / weight if weight else progress.loss
            progress.seconds = seconds + time.monotonic() - began
            over = self._agree(report(progress))
            self.rounds += 1
            self._merge(over or end == last or self.rounds % WHOLE == 0)

    def _agree(self, over: bool) -> bool:
        """Whether one of the processes must interrupt training; `stop` gets the reason of the one that was asked to stop."""
        flags = [over, *(reason == self.stop.reason for reason in REASONS)]
        any_over, *agreed = (number > 0 for number in self.backend.sum([float(flag) for flag in flags]))
        if self.stop.reason is None:
            self.stop.reason = next((reason for reason, given in zip(REASONS, agreed, strict=True) if given), None)
        return any_over

    @torch.inference_mode()
    def _merge(self, whole: bool) -> None:
        """Merge all rows, or the rows of frequent words."""
        for name, table in self.tables.items():
            rows = range(len(table)) if whole else self._frequent[name]
            size = max(1, _BLOCK // table.shape[1])
            for first in range(rows.start, rows.stop, size):
                part, before = slice(first, min(first + size, rows.stop)), self.before[name]
                every = self.backend.gather({"change": table[part] - before[part]})
                changes = torch.stack([other["change"] for other in every]).to(table.device)
                before[part] += merged(changes)
                table[part] = before[part]
