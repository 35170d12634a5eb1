"""Memory of the filters does not grow with their input, time grows with the length of a line, not with its square, and they end
when nobody reads their output.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from pathlib import Path

import pytest
from conftest import Record, environment

from tests.cli import test_shares
from tests.cli.test_shares import JOBS

place = test_shares.place
LIGHT = ("tokenize", "build-vocab", "split", "extract", "phrases", "prompt")
LARGEST = int(os.environ.get("LARGEST_MEGABYTES", "2048"))  # of the long test
SLOW = "--sample"  # an option that makes them slow
MORE = 16 << 20  # bytes that a large input may take besides those of a small one


def is_light(job: str) -> bool:
    """Whether it reads gigabytes within minutes."""
    return job.split()[0] in LIGHT and SLOW not in job


def text_of(job: str) -> bytes:
    """About a megabyte of input."""
    line = "the [MASK] sat" if "bert" in job else "w1" if job.startswith("neighbors") else "w1 w2 w3 w1 w4 w2"
    if is_light(job):
        line = " ".join([line] * 6)  # as long as a sentence
    return f"{line}\n".encode() * ((1 << 20) // (len(line) + 1))


# A process starts with the peak of its parent, so a small one starts the command: a file for its output, the command
START = """
import os, sys
null = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
_, status, usage = os.wait4(os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ, file_actions=null), 0)
print(usage.ru_maxrss, usage.ru_utime + usage.ru_stime)
sys.exit(os.waitstatus_to_exitcode(status))
"""


def cost(place: Path, job: str, blocks: Iterable[bytes]) -> tuple[int, float]:
    """The peak memory of a command that reads these blocks from a pipe, in bytes, and its seconds of processor time."""
    command = [sys.executable, "-S", "-c", START, sys.executable, "-m", "nlptools", *job.split()]
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen(command, cwd=place, env=environment(), **pipes) as process:  # type: ignore[call-overload]

        def feed() -> None:
            with contextlib.suppress(BrokenPipeError), process.stdin as stdin:
                for block in blocks:
                    stdin.write(block)

        feeder = threading.Thread(target=feed)
        feeder.start()
        errors, out = process.stderr.read(), process.stdout.read()
        feeder.join()
        assert process.wait() == 0 or b"no training data" in errors, (job, errors)
    memory, seconds = out.split()
    return int(memory) * 1024, float(seconds)


def peak(place: Path, job: str, kilobytes: int) -> int:
    """The peak memory of a command that reads so many lines."""
    text, sizes = text_of(job), (min(1024, kilobytes - begin) for begin in range(0, kilobytes, 1024))
    return cost(place, job, (text[: size * 1024].rpartition(b"\n")[0] + b"\n" for size in sizes))[0]


@pytest.mark.sampled(law="memory does not grow with the data")
def test_light_filters(place: Path) -> None:
    for job in ("tokenize -t char", "build-vocab"):
        small, large = (peak(place, job, megabytes * 1024) for megabytes in (1, 20))
        assert large - small < MORE, (job, small, large)


@pytest.mark.sampled(law="memory does not grow with the data")
def test_bleu(place: Path) -> None:
    peaks = []
    for megabytes in (1, 4):
        (place / "reference").write_bytes(text_of("bleu") * megabytes)
        peaks.append(peak(place, "bleu reference", megabytes * 1024))
    assert peaks[1] - peaks[0] < MORE, peaks


@pytest.mark.slow
@pytest.mark.parametrize("job", ["build-vocab", *(job for job, _ in JOBS)])
def test_every_filter(place: Path, job: str, record_property: Record) -> None:
    """Those that take hours for gigabytes read 8 MB at most; for `bleu` see `benchmarks/scaling.py`."""
    sizes = (min(10, LARGEST // 2), LARGEST) if is_light(job) else (1, min(8, LARGEST))
    small, large = (peak(place, job, megabytes * 1024) for megabytes in sizes)
    record_property("largest difference, MB", round((large - small) / (1 << 20), 1))
    assert large - small < MORE, (sizes, small, large)


def seconds_after_reader(place: Path, job: str) -> float:
    """How long a filter of an endless input goes on after someone has read a line of its output and closed it."""
    with (
        subprocess.Popen(["yes", text_of(job).decode().partition("\n")[0]], stdout=subprocess.PIPE) as source,
        subprocess.Popen(
            [sys.executable, "-m", "nlptools", *job.split()],
            cwd=place,
            env=environment(),
            stdin=source.stdout,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as process,
    ):
        assert source.stdout and process.stdout and process.stderr
        source.stdout.close()
        try:
            assert process.stdout.readline(), (job, process.stderr.read())
            began = time.monotonic()
            process.stdout.close()
            assert (process.wait(60), process.stderr.read()) == (-signal.SIGPIPE, b""), job
        finally:
            process.kill()
            source.kill()
    return time.monotonic() - began


def test_a_filter_ends_with_its_reader(place: Path) -> None:
    for job in ("tokenize -t char", "split"):
        seconds_after_reader(place, job)


@pytest.mark.slow
@pytest.mark.parametrize("job", [job for job, _ in JOBS])
def test_every_filter_ends_with_its_reader(place: Path, job: str, record_property: Record) -> None:
    record_property("longest seconds", round(seconds_after_reader(place, job), 2))


RUNS = {
    "letter": "a",
    "space": " ",
    "comma": ",",
    "quote": "\N{DOUBLE LOW-9 QUOTATION MARK}",
    "Chinese": "\N{CJK UNIFIED IDEOGRAPH-4E2D}",
    "marks": "e\N{COMBINING ACUTE ACCENT}\N{COMBINING GRAVE ACCENT}",
    "joiners": "\N{WOMAN}\N{ZERO WIDTH JOINER}",
    "flags": "\N{REGIONAL INDICATOR SYMBOL LETTER I}",
}
TOKENIZERS = ("whitespace", "ascii-whitespace", "words", "13a", "intl", "zh", "bytes", "pieces.model")
LONG = ["build-vocab", "dedupe", *(f"tokenize -t {name}" for name in TOKENIZERS), *(job for job, _ in JOBS)]


def growth(place: Path, job: str, run: str, kilobytes: int) -> float:
    """How many times as much processor time a line of eight times the length takes."""
    unit, gap = RUNS[run].encode(), b"[MASK]" if job.startswith("fill") else b""
    begin, small, large = (
        cost(place, job, [gap + unit * (size * 1024 // len(unit)) + b"\n"])[1] for size in (0, kilobytes, 8 * kilobytes)
    )
    return (large - begin) / max(small - begin, 0.2)  # less is noise


def test_time_grows_with_the_length_of_a_line(place: Path) -> None:
    assert growth(place, "tokenize -t words", "joiners", 64) < 30


@pytest.mark.slow
@pytest.mark.parametrize("job", LONG)
def test_every_filter_on_long_runs(place: Path, job: str, record_property: Record) -> None:
    """One megabyte and eight; for models, which cut a line or read it in windows, a sixteenth of it."""
    found = {run: growth(place, job, run, 1024 if job.split()[0] in LIGHT else 64) for run in RUNS}
    record_property("count", len(found))
    record_property("largest growth of time for 8 times the length", round(max(found.values()), 1))
    assert max(found.values()) < 30, found
