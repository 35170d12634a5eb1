"""The queue in front of a model: what waits together is computed together, and one bad request spoils no other."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

import pytest

from nlptools.serving.worker import Busy, Job, Worker

SOON = 5.0


class Recorder:
    """Computes upper case, and keeps the batches; waits until it is released."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.started, self.released = threading.Event(), threading.Event()

    def __call__(self, jobs: Sequence[Job]) -> list[str]:
        self.batches.append([job.item for job in jobs])
        self.started.set()
        assert self.released.wait(SOON)
        if any(job.item == "bad" for job in jobs):
            raise ValueError("bad")
        return [job.item.upper() for job in jobs]


def job(key: str, item: str, seconds: float = SOON) -> Job:
    return Job(key, item, time.monotonic() + seconds)


def results(jobs: list[Job]) -> list[str]:
    return [each.result.result(SOON) for each in jobs]


def test_jobs_that_wait_with_the_same_key_are_one_batch() -> None:
    compute = Recorder()
    first, later = [job("x", "a")], [job("x", "b"), job("y", "c"), job("x", "d"), job("x", "e")]
    with Worker(compute, batch_size=2, most_waiting=10) as worker:
        worker.submit(first)
        assert compute.started.wait(SOON)
        worker.submit(later)
        compute.released.set()
        assert results(first + later) == ["A", "B", "C", "D", "E"]
    assert compute.batches == [["a"], ["b", "d"], ["c"], ["e"]]


def test_a_full_queue_refuses_whole_requests() -> None:
    compute = Recorder()
    with Worker(compute, batch_size=4, most_waiting=2) as worker:
        running, waiting = [job("x", "a")], [job("x", "b")]
        worker.submit(running)
        assert compute.started.wait(SOON)
        worker.submit(waiting)
        with pytest.raises(Busy):
            worker.submit([job("x", "c"), job("x", "d")])
        compute.released.set()
        assert results(running + waiting) == ["A", "B"]
    assert compute.batches == [["a"], ["b"]]


def test_an_error_reaches_its_batch_only() -> None:
    compute = Recorder()
    compute.released.set()
    bad, good = job("x", "bad"), job("y", "good")
    with Worker(compute, batch_size=4, most_waiting=4) as worker:
        worker.submit([bad, good])
        assert good.result.result(SOON) == "GOOD"
        with pytest.raises(ValueError, match="bad"):
            bad.result.result(SOON)


def test_nothing_is_computed_for_clients_that_left_or_waited_too_long() -> None:
    compute = Recorder()
    with Worker(compute, batch_size=1, most_waiting=4) as worker:
        running, left, late = job("x", "a"), job("x", "b"), job("x", "c", seconds=0.0)
        worker.submit([running])
        assert compute.started.wait(SOON)
        worker.submit([left, late])
        left.left.set()
        compute.released.set()
        for each in (left, late):
            with pytest.raises(TimeoutError):
                each.result.result(SOON)
    assert compute.batches == [["a"]]


def test_the_end_answers_those_who_wait() -> None:
    compute = Recorder()
    running, waiting = job("x", "a"), job("x", "b")
    with Worker(compute, batch_size=1, most_waiting=4) as worker:
        worker.submit([running])
        assert compute.started.wait(SOON)
        worker.submit([waiting])
        threading.Timer(0.05, compute.released.set).start()
    assert running.result.result(SOON) == "A"
    with pytest.raises(Busy):
        waiting.result.result(SOON)
