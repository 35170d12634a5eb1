"""Threads wait without spinning while other processes use their cores."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
import torch
from tiny_models import SIZES

from nlptools.batches.windows import ContiguousStreams, ShuffledWindows
from nlptools.compute import contention
from nlptools.compute.backend import Backend
from nlptools.compute.contention import Counters, ShortWaits, Watch
from nlptools.configs import Compute, Training
from nlptools.corpora.token_file import Corpus, TextCounts
from nlptools.models import registry
from nlptools.training.engine.steps import Fit
from nlptools.training.objectives import CausalLM


@dataclass
class Machine:
    """Counters of a machine, a second from one reading to the next."""

    now: Counters = field(default_factory=lambda: Counters(0.0, 0.0, 0.0, 0.0))

    def second(self, own: float, others: float, waited: float) -> None:
        now = self.now
        self.now = Counters(now.now + 1, now.waited + waited, now.own + own, now.busy + own + others)

    def read(self) -> Counters:
        return self.now


def test_a_neighbor_is_noticed_and_its_end() -> None:
    machine = Machine()
    watch, crowded = Watch(2, 2, machine.read), []
    for own, others, waited in [(2, 0, 0)] * 3 + [(1.2, 0.8, 0.9)] * 3 + [(1, 1, 0.02)] * 4 + [(1, 0.05, 0)] * 9:
        machine.second(own, others, waited)
        crowded.append(watch.look())
    assert crowded == [False] * 3 + [True] * 3 + [True] * 4 + [True] * 4 + [False] * 5


@pytest.mark.parametrize(
    ("own", "others", "waited", "crowded"),
    [
        (2, 6, 0.01, False),  # others are busy, on cores that this process does not need
        (4, 0.1, 0.9, False),  # own threads wait for each other
        (2, 2, 1.0, False),  # there are cores enough
        (4, 4.2, 0.5, False),  # a little more than the others' cores
        (4, 5, 1.0, True),
        (1, 8, 3.0, True),
    ],
)
def test_only_cores_that_others_take_count(own: float, others: float, waited: float, crowded: bool) -> None:
    machine = Machine()
    watch = Watch(4, 8, machine.read)
    machine.second(own, others, waited)
    assert watch.look() == crowded


def test_a_moment_of_calm_changes_nothing() -> None:
    machine = Machine()
    watch, found = Watch(2, 2, machine.read), []
    for _ in range(5):
        machine.second(1, 1, 1)
        found.append(watch.look())
        machine.second(1, 0, 0)
        found.append(watch.look())
    assert found == [True] * 10


def test_counters_of_this_machine_grow() -> None:
    first = contention.reading()
    sum(range(2_000_000))
    second = contention.reading()
    assert second.now > first.now and second.own > first.own
    assert second.waited >= first.waited and second.busy >= first.busy > 0


def test_where_there_are_no_counters_nothing_is_adapted(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> Counters:
        raise FileNotFoundError("/proc/stat")

    monkeypatch.setattr(contention, "Watch", lambda threads, cores: Watch(threads, cores, missing))
    contention.begin(2)
    contention.look()
    assert contention._watch is None


def test_the_first_moment_is_too_short_to_count(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = list[int]()
    monkeypatch.setattr(Watch, "look", lambda watch: bool(looks.append(watch.threads)))
    contention.begin(2)
    contention.look()
    assert looks == []
    monkeypatch.setattr(contention, "_next", 0.0)
    contention.look()
    assert looks == [2]
    contention.begin(1)


@pytest.fixture
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    contention.begin(1)
    torch.set_num_threads(before)


@pytest.fixture
def corpus(tmp_path: Path) -> Corpus:
    ids = np.random.default_rng(0).integers(2, 50, 4_000).astype("uint16")
    return Corpus(tmp_path / "ids", ids, TextCounts(tokens=len(ids) - 1), "")


def trained(arch: str, corpus: Corpus) -> tuple[dict[str, torch.Tensor], list[bool]]:
    """The weights after three steps, and whether waits were short in each.

    Hidden states have 65 x 7 x 104 numbers. PyTorch splits them between threads, in the middle of a vector register.
    """
    torch.manual_seed(1)
    sizes = {**SIZES[arch], "hidden_size": 104, "num_hidden_layers": 1, "hidden_dropout": 0.1}
    model = registry.model_class(arch)(registry.config_class(arch)(**sizes))
    model.initialize()
    kind = ContiguousStreams if model.streams else ShuffledWindows
    run = Training(output="", steps=3, batch_size=65, lr=1e-2, warmup=0)
    state = Fit(CausalLM(model), kind(corpus, 7, 65, seed=1), Backend(torch.device("cpu")), run, None)
    state.objective.train()
    short = []
    for _ in range(3):
        state.step()
        assert torch.get_num_threads() == 2
        short.append(contention._waits is not None)
    return dict(model.state_dict()), short


@pytest.mark.usefixtures("two_threads")
def test_neighbors_change_no_weight(corpus: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bit for bit. With one thread instead of two, LayerNorm's weights have other gradients."""
    monkeypatch.setattr(contention, "_INTERVAL", 0.0)
    for arch in registry.names(registry.LANGUAGE):
        alone, _ = trained(arch, corpus)
        machine = Machine()

        def read(machine: Machine = machine) -> Counters:
            taken = machine.now.now >= 3
            machine.second(1 if taken else 2, float(taken), float(taken))
            return machine.read()

        monkeypatch.setattr(contention, "Watch", lambda threads, cores, read=read: Watch(threads, 2, read))
        contention.begin(2)
        disturbed, short = trained(arch, corpus)
        contention.begin(1)
        assert short == [False, True, True], arch
        assert [name for name in alone if not torch.equal(alone[name], disturbed[name])] == [], arch


@pytest.mark.usefixtures("two_threads")
def test_threads_spin_again_when_neighbors_are_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    machine, short = Machine(), list[bool]()
    monkeypatch.setattr(contention, "Watch", lambda threads, cores: Watch(threads, 2, machine.read))
    monkeypatch.setattr(contention, "_INTERVAL", 0.0)
    contention.begin(2)
    for own, others, waited in [(2, 0, 0), (1, 1, 1), *[(2, 0, 0)] * 6]:
        machine.second(own, others, waited)
        contention.look()
        short.append(contention._waits is not None)
        assert torch.get_num_threads() == 2
    assert short == [False] + [True] * 5 + [False] * 2


@pytest.mark.usefixtures("two_threads")
def test_short_waits_need_more_threads_than_cores() -> None:
    alone = threading.active_count()
    for threads, cores in [(2, 1), (2, 2), (2, 5), (3, 8), (8, 8), (20, 2)]:
        waits = ShortWaits(threads, cores)
        holders = threading.active_count() - alone
        waits.end()
        assert threads + holders * (threads - 1) > cores
        assert holders == 0 or threads + (holders - 1) * (threads - 1) <= cores  # no more than needed
        assert threading.active_count() == alone


@pytest.mark.usefixtures("two_threads")
def test_each_backend_has_its_own_number_of_threads() -> None:
    """In one process, after a training with another number."""
    for threads in (2, 1, 2):
        backend = Backend.detect(Compute(device="cpu", precision="fp32", threads=threads))
        backend.prepare_training()
        assert torch.get_num_threads() == threads
    contention.begin(1)
