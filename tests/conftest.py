"""A real process in a scratch directory, and small English text that every Python ships."""

from __future__ import annotations

import gc
import io
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from random import Random
from typing import IO, Any, TypeVar
from zlib import crc32

import forks
import pytest
from hypothesis import HealthCheck, settings

ROOT = Path(__file__).resolve().parent.parent
# as `compute.memory` sets it; MKL reads it once, and another test may have computed before a command sets it
os.environ.setdefault("MKL_CBWR", "AUTO,STRICT")
# threads that wait sleep: test processes share the cores, and a thread that spins keeps the one that it waits for from its core
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
os.environ.setdefault("NUMBA_DISABLE_JIT", "1")  # umap takes half a minute to compile what runs for two seconds
Item = TypeVar("Item")
ALL = "NLPTOOLS_TEST_ALL" in os.environ  # set by bin/test --all
# what many tests try, each with another model, task or command; how many of these tests run each month
LAWS = {
    "an encoder learns a task": 5,
    "a language model learns a task": 2,
    "a model without pretraining learns a task": 3,
    "pairs are learned": 2,
    "preferences are learned": 2,
    "a stopped run goes on": 5,
    "several processes train": 3,
    "signals and failures": 4,
    "examples run": 3,
    "a graph computes what the model computes": 1,
    "a command imports what it needs": 2,
    "memory does not grow with the data": 2,
    "pictures are drawn": 1,
    "a page answers in a browser": 1,
    "an output that fails ends the command": 3,
    "a seed decides whatever the batches": 1,
}
MONTH = 12 * int(time.strftime("%Y")) + int(time.strftime("%m"))


def examples(number: int) -> int:
    """How many random examples a test tries: `number` with `bin/test --all`, otherwise a sixth, but 10 to 50.

    They are drawn anew in each run, so that runs together try many.
    """
    return number if ALL else min(50, max(10, number // 6))


def this_month(items: Iterable[Item], count: int, turn: int = 0) -> list[Item]:
    """`count` of the items, in their order: others each month, until all have had their turn; all with `bin/test --all`."""
    whole = list(items)
    if ALL or count >= len(whole):
        return whole
    order = Random(turn).sample(range(len(whole)), len(whole))
    chosen = {order[(MONTH * count + i) % len(whole)] for i in range(count)}
    return [item for i, item in enumerate(whole) if i in chosen]


def each_value(*axes: Iterable[Any]) -> list[tuple[Any, ...]]:
    """Rows of a product in which each value occurs, and which change with the month; the product with `bin/test --all`."""
    values = [list(axis) for axis in axes]
    if ALL:
        return list(product(*values))
    random = Random(MONTH)
    mixed = [random.sample(axis, len(axis)) for axis in values]
    return [tuple(axis[i % len(axis)] for axis in mixed) for i in range(max(map(len, values)))]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of the tests that a mark `sampled` holds together, keep those of this month; all of them if a file or a test is named.

    `sampled(3)` keeps three cases of a function. `sampled(law="...")` keeps as many cases as LAWS says, of all functions with
    this law. `always=[...]` names cases that every run has besides.
    """
    if ALL or any(".py" in word for word in config.args):
        return
    groups: dict[tuple[str, int], list[pytest.Item]] = {}
    for item in items:
        mark = item.get_closest_marker("sampled")
        name, _, case = item.nodeid.partition("[")
        if mark is None or item.get_closest_marker("slow") or case.removesuffix("]") in mark.kwargs.get("always", ()):
            continue
        law = mark.kwargs.get("law")
        groups.setdefault((law, LAWS[law]) if law else (name, *mark.args), []).append(item)
    rest: set[pytest.Item] = set()
    for (name, count), group in groups.items():
        rest |= {*group} - {*this_month(group, count, crc32(name.encode()))}
    config.hook.pytest_deselected(items=[*rest])
    items[:] = [item for item in items if item not in rest]


def pytest_configure() -> None:
    gc.disable()  # the imports of a thousand modules leave little to collect
    # a shell starts jobs in the background with this signal ignored, and commands that tests start would inherit that
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    """From here on cycles are looked for in what tests make, not in PyTorch and thousands of tests; and less often."""
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)
    gc.enable()


# a machine that is busy is no fault of the data
settings.register_profile("nlptools", max_examples=examples(100), suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("nlptools")


@dataclass(frozen=True)
class Finished:
    """A process that has ended."""

    code: int
    out: bytes
    err: str

    @property
    def text(self) -> str:
        return self.out.decode("utf-8")

    @property
    def lines(self) -> list[str]:
        return self.text.removesuffix("\n").split("\n") if self.out else []


Run = Callable[..., Finished]
Record = Callable[[str, object], None]  # the fixture record_property; "count": the number of cases of a test


# Results are compared to the last digits in fp32, which `--precision auto` would not take on a processor with bf16 units.
# Tests of bf16 ask for it.
EXACT = {
    f"NLPTOOLS_{command}_PRECISION": "fp32"
    for command in (
        "TRAIN_LM",
        "TRAIN_SEQ2SEQ",
        "PRETRAIN_BERT",
        "FINETUNE",
        "TRAIN_REWARD",
        "PREDICT",
        "GENERATE",
        "SCORE",
        "EMBED",
        "FILL",
    )
}


def environment(**extra: str) -> dict[str, str]:
    """The environment of a test process: no settings of the person who runs the tests leak in."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("NLPTOOLS_")}
    return {**kept, **EXACT, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "default", **extra}


def _runner(command: list[str], place: Path) -> Run:
    """The commands of processes that begin with these words and work in `place`."""

    def run(*args: object, stdin: str | bytes = b"", env: dict[str, str] | None = None, timeout: int = 240) -> Finished:
        data = stdin.encode() if isinstance(stdin, str) else stdin
        done = subprocess.run(
            [*command, *map(str, args)],
            input=data,
            capture_output=True,
            cwd=place,
            env=environment(**(env or {})),
            timeout=timeout,
        )
        return Finished(done.returncode, done.stdout, done.stderr.decode("utf-8", "replace"))

    return run


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """run("tokenize", "-t", "char", stdin="abc\\n") -> Finished; the working directory is `tmp_path`."""
    return _runner([sys.executable, "-m", "nlptools"], tmp_path)


@pytest.fixture(scope="session")
def fork_server() -> Iterator[list[str]]:
    """The words of a command whose processes have loaded PyTorch before they begin."""
    # a short name: that of a socket may have 100 bytes
    with tempfile.TemporaryDirectory() as place, forks.server(f"{place}/commands", environment()) as command:
        yield command


@pytest.fixture
def fork(tmp_path: Path, fork_server: list[str]) -> Run:
    """As `run`, but a fork of a process that has loaded PyTorch and done nothing else."""
    return _runner(fork_server, tmp_path)


def _lines(command: list[str], place: Path) -> Run:
    """Lines for bash in `place`, where `nlptools` is a process that begins with these words."""

    def shell(line: str, stdin: bytes = b"", env: dict[str, str] | None = None, timeout: int = 240) -> Finished:
        setup = f'set -o pipefail; nlptools() {{ {shlex.join(command)} "$@"; }}\n'
        done = subprocess.run(
            ["bash", "-c", setup + line],
            input=stdin,
            capture_output=True,
            cwd=place,
            env=environment(**(env or {})),
            timeout=timeout,
        )
        return Finished(done.returncode, done.stdout, done.stderr.decode("utf-8", "replace"))

    return shell


@pytest.fixture
def shell(tmp_path: Path) -> Run:
    """A line for bash, with `nlptools` as a command; for pipelines."""
    return _lines([sys.executable, "-m", "nlptools"], tmp_path)


@pytest.fixture
def fork_shell(tmp_path: Path, fork_server: list[str]) -> Run:
    """As `shell`, with forks of a process that has loaded PyTorch."""
    return _lines(fork_server, tmp_path)


@pytest.fixture(scope="session")
def english() -> list[str]:
    """About 7,000 lines of English: CPython's own help topics."""
    from pydoc_data.topics import topics

    lines = [line.strip() for text in topics.values() for line in text.split("\n")]
    return [line for line in lines if line]


@pytest.fixture(scope="session", autouse=True)
def files_without_fsync() -> Iterator[None]:
    """Files of this process need not survive a power failure: fsync takes milliseconds for each of thousands."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


@pytest.fixture(autouse=True)
def own_messages() -> Iterator[None]:
    """Each test begins with messages as a library has them, whatever a command before it was told in this process."""
    from nlptools import messages

    before, messages.settings = messages.settings, messages.MessageSettings()
    yield
    messages.settings = before


@contextmanager
def _streams(data: bytes) -> Iterator[tuple[IO[bytes], IO[bytes]]]:
    """Files in the place of standard output and standard error, as descriptors and as objects; `data` on standard input."""
    kept = [os.dup(number) for number in range(3)]
    with ExitStack() as stack:
        files = [stack.enter_context(tempfile.TemporaryFile()) for _ in kept]
        files[0].write(data)
        files[0].seek(0)
        for number, file in enumerate(files):
            os.dup2(file.fileno(), number)
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        texts = [io.TextIOWrapper(io.FileIO(n, "wb", closefd=False), encoding="utf-8", newline="\n") for n in (1, 2)]
        patch.setattr(sys, "stdout", texts[0])
        patch.setattr(sys, "stderr", texts[1])
        try:
            yield files[1], files[2]
        finally:
            for text in texts:
                text.flush()
            for number, descriptor in enumerate(kept):
                os.dup2(descriptor, number)
                os.close(descriptor)


def within(place: Path, *args: object, stdin: str | bytes = b"", env: dict[str, str] | None = None) -> Finished:
    """A command in this process with `place` as its working directory: a new process would load PyTorch for seconds."""
    from nlptools import cli, messages
    from nlptools.files import standard, streams

    data = stdin.encode() if isinstance(stdin, str) else stdin
    before, messages.settings = messages.settings, messages.MessageSettings()
    with pytest.MonkeyPatch.context() as patch, _streams(data) as (out, err):
        patch.chdir(place)
        for key, value in {**EXACT, **(env or {})}.items():
            patch.setenv(key, value)
        try:
            code = cli.run([str(arg) for arg in args])
            messages.finish()
        finally:
            messages.settings = before
            standard.closed.clear()
            streams.limit_lines(streams.MAX_LINE)
        sys.stdout.flush()
        sys.stderr.flush()
        texts = [os.pread(file.fileno(), os.fstat(file.fileno()).st_size, 0) for file in (out, err)]
    return Finished(code, texts[0], texts[1].decode("utf-8", "replace"))


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """As `run`, but `within` this process."""
    monkeypatch.chdir(tmp_path)
    return partial(within, tmp_path)


@pytest.fixture
def bf16_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """--precision bf16 also computes on processors that have no units for it."""
    monkeypatch.setenv("NLPTOOLS_EMULATE_BF16", "1")


@pytest.fixture
def float32_products() -> Iterator[Any]:
    """PyTorch's setting of float32 products on a CPU, at its beginning; put back afterwards."""
    import torch

    setting: Any = torch.backends.mkldnn.matmul  # type: ignore[attr-defined]
    before, setting.fp32_precision = setting.fp32_precision, "ieee"
    yield setting
    setting.fp32_precision = before
