"""Memory of the filters does not grow with their input, and they end when nobody reads their output."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from conftest import Record, environment

from tests.cli import test_shares
from tests.cli.test_shares import JOBS

place = test_shares.place
LIGHT = ("tokenize", "build-vocab", "split", "extract", "phrases", "prompt")
LARGEST = int(os.environ.get("LARGEST_MEGABYTES", "2048"))  # of the long test
MORE = 16 << 20  # bytes that a large input may take besides those of a small one


def text_of(job: str) -> bytes:
    """About a megabyte of input."""
    line = "the [MASK] sat" if "bert" in job else "w1" if job.startswith("neighbors") else "w1 w2 w3 w1 w4 w2"
    return f"{line}\n".encode() * ((1 << 20) // (len(line) + 1))


# A process starts with the peak of its parent, so a small one starts the command: a file for its output, the command
START = """
import os, sys
null = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
_, status, usage = os.wait4(os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ, file_actions=null), 0)
print(usage.ru_maxrss)
sys.exit(os.waitstatus_to_exitcode(status))
"""


def peak(place: Path, job: str, kilobytes: int) -> int:
    """The peak memory of a command that reads so much from a pipe, in bytes."""
    block = text_of(job)
    command = [sys.executable, "-S", "-c", START, sys.executable, "-m", "nlptools", *job.split()]
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen(command, cwd=place, env=environment(), **pipes) as process:  # type: ignore[call-overload]

        def feed() -> None:
            with contextlib.suppress(BrokenPipeError), process.stdin as stdin:
                for begin in range(0, kilobytes, 1024):
                    stdin.write(block[: min(1024, kilobytes - begin) * 1024].rpartition(b"\n")[0] + b"\n")

        feeder = threading.Thread(target=feed)
        feeder.start()
        errors, out = process.stderr.read(), process.stdout.read()
        feeder.join()
        assert process.wait() == 0, (job, errors)
    return int(out) * 1024


def test_light_filters(place: Path) -> None:
    for job in ("tokenize -t char", "build-vocab"):
        small, large = (peak(place, job, megabytes * 1024) for megabytes in (1, 20))
        assert large - small < MORE, (job, small, large)


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
    sizes = (min(10, LARGEST // 2), LARGEST) if job.split()[0] in LIGHT else (1, min(8, LARGEST))
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
