"""The number of threads follows what other processes leave."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
import torch

from nlptools.compute import contention
from nlptools.compute.backend import Backend
from nlptools.compute.contention import Counters, Watch
from nlptools.configs import Compute


@dataclass
class Machine:
    """Counters of a machine, a second from one reading to the next."""

    now: Counters = field(default_factory=lambda: Counters(0.0, 0.0, 0.0, 0.0))

    def second(self, own: float, others: float, waited: float) -> None:
        now = self.now
        self.now = Counters(now.now + 1, now.waited + waited, now.own + own, now.busy + own + others)

    def read(self) -> Counters:
        return self.now


def test_a_neighbor_takes_a_thread_and_gives_it_back() -> None:
    machine = Machine()
    watch, threads = Watch(2, 2, machine.read), []
    for own, others, waited in [(2, 0, 0)] * 3 + [(1.2, 0.8, 0.9)] * 3 + [(1, 1, 0.02)] * 4 + [(1, 0.05, 0)] * 9:
        machine.second(own, others, waited)
        threads.append(watch.look())
    assert threads == [2] * 3 + [1] * 3 + [1] * 4 + [1] * 4 + [2] * 5


@pytest.mark.parametrize(
    ("own", "others", "waited", "threads"),
    [
        (2, 6, 0.01, 4),  # others are busy, on cores that this process does not need
        (4, 0.1, 0.9, 4),  # own threads wait for each other
        (2, 2, 1.0, 4),  # there are cores enough
        (4, 5, 1.0, 3),
        (1, 8, 3.0, 1),  # never without a thread
    ],
)
def test_only_cores_that_others_take_count(own: float, others: float, waited: float, threads: int) -> None:
    machine = Machine()
    watch = Watch(4, 8, machine.read)
    machine.second(own, others, waited)
    assert watch.look() == threads


def test_a_moment_of_calm_adds_no_thread() -> None:
    machine = Machine()
    watch, found = Watch(2, 2, machine.read), []
    for _ in range(5):
        machine.second(1, 1, 1)
        found.append(watch.look())
        machine.second(1, 0, 0)
        found.append(watch.look())
    assert found == [1] * 10


def test_counters_of_this_machine_grow() -> None:
    first = contention.reading()
    sum(range(2_000_000))
    second = contention.reading()
    assert second.now > first.now and second.own > first.own
    assert second.waited >= first.waited and second.busy >= first.busy > 0


@pytest.mark.parametrize("chosen", ["option", "environment", "nothing"])
def test_a_number_of_threads_that_was_asked_for_stays(chosen: str, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[int] = []
    monkeypatch.setattr(contention, "begin", lambda threads, cores: begun.append(threads))
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if chosen == "environment":
        monkeypatch.setenv("OMP_NUM_THREADS", "2")
    before = torch.get_num_threads()
    Backend.detect(Compute(device="cpu", precision="fp32", threads=2 if chosen == "option" else 0))
    torch.set_num_threads(before)
    assert bool(begun) == (chosen == "nothing")


def test_where_there_are_no_counters_nothing_is_adapted(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> Counters:
        raise FileNotFoundError("/proc/stat")

    monkeypatch.setattr(contention, "Watch", lambda threads, cores: Watch(threads, cores, missing))
    contention.begin(2, 2)
    contention.look()
    contention.end()


def test_all_threads_come_back_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    machine, chosen = Machine(), list[int]()
    monkeypatch.setattr(contention, "Watch", lambda threads, cores: Watch(threads, cores, machine.read))
    monkeypatch.setattr(torch, "set_num_threads", chosen.append)
    monkeypatch.setattr(contention, "_next", 0.0)
    contention.begin(2, 2)
    machine.second(1, 1, 1)
    contention.look()
    contention.end()
    assert chosen == [1, 2]
