"""One thread that computes, in front of it a queue: requests that wait together are computed together.

A model is not safe to call from two threads, and a batch of ten prompts takes little longer than one. So the threads of
the web server only put jobs into the queue. The worker takes the oldest one with all others that fit into its batch, and
those that arrive meanwhile make the next batch.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from nlptools.inference.generation.token_pieces import Piece

I = TypeVar("I")
R = TypeVar("R")
# gets parts of a result: the number of the sample, its next text, and the tokens of it
OnText = Callable[[int, str, Sequence[Piece]], None]


class Busy(Exception):
    """The queue is full, or the server ends."""


@dataclass(eq=False)
class Job(Generic[I, R]):
    """One item to compute.

    Attributes:
        key: jobs with the same key may be computed in one batch.
        item: the argument of the batch function.
        deadline: the time, by time.monotonic, after which the client has timed out.
        on_text: called in the worker's thread with parts of the result.
        left: set when the client has left.
    """

    key: Hashable
    item: I
    deadline: float
    on_text: OnText | None = None
    result: Future[R] = field(default_factory=Future)
    left: threading.Event = field(default_factory=threading.Event)

    @property
    def unwanted(self) -> bool:
        """Whether the client has left, or the time is over."""
        return self.left.is_set() or time.monotonic() > self.deadline


AnyJob = Job[Any, Any]
# jobs of one key -> their results, in order
Compute = Callable[[Sequence[AnyJob]], Sequence[object]]


class Worker:
    """See the module's docstring. Use as a context manager: leaving it ends the thread after the batch in hand."""

    def __init__(self, compute: Compute, *, batch_size: int, most_waiting: int) -> None:
        self.compute, self.batch_size, self.most_waiting = compute, batch_size, most_waiting
        self._waiting: deque[AnyJob] = deque()
        self._arrived = threading.Condition()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="nlptools-worker", daemon=True)

    def submit(self, jobs: Sequence[AnyJob]) -> None:
        """Queue the jobs of one request.

        Raises:
            Busy: there are too many jobs already, or the worker ends.
        """
        with self._arrived:
            if self._stopping or len(self._waiting) + len(jobs) > self.most_waiting:
                raise Busy
            self._waiting.extend(jobs)
            self._arrived.notify()

    def __enter__(self) -> Worker:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        with self._arrived:
            self._stopping = True
            for job in self._waiting:
                job.result.set_exception(Busy())
            self._waiting.clear()
            self._arrived.notify()
        self._thread.join()

    def _run(self) -> None:
        while batch := self._next():
            wanted = []
            for job in batch:
                if job.unwanted:
                    job.result.set_exception(TimeoutError())
                else:
                    wanted.append(job)
            if not wanted:
                continue
            try:
                results = self.compute(wanted)
            except Exception as error:  # the thread goes on: the next request may be a good one
                for job in wanted:
                    job.result.set_exception(error)
            else:
                for job, result in zip(wanted, results, strict=True):
                    job.result.set_result(result)

    def _next(self) -> list[AnyJob]:
        """The oldest job and those that can be computed with it; [] at the end."""
        with self._arrived:
            self._arrived.wait_for(lambda: self._waiting or self._stopping)
            if self._stopping:
                return []
            key, batch, rest = self._waiting[0].key, list[AnyJob](), deque[AnyJob]()
            for job in self._waiting:
                (batch if job.key == key and len(batch) < self.batch_size else rest).append(job)
            self._waiting = rest
            return batch
