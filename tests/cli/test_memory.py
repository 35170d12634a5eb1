"""Memory of the filters does not grow with their input, and they end when nobody reads their output."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from conftest import Run, environment

from tests.cli import test_shares
from tests.cli.test_shares import JOBS

place = test_shares.place
LIGHT = ("tokenize", "split", "extract", "phrases", "prompt")
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
@pytest.mark.parametrize("job", [job for job, _ in JOBS])
def test_every_filter(place: Path, job: str) -> None:
    light = job.split()[0] in LIGHT
    small, large = (peak(place, job, megabytes * 1024) for megabytes in ((10, LARGEST) if light else (1, 8)))
    print(f"{job}: {small >> 20} MB, {large >> 20} MB")
    assert large - small < MORE


def test_a_filter_ends_with_its_reader(shell: Run) -> None:
    for job in ("tokenize -t char", "split"):
        done = shell(f"yes w1 w2 | nlptools {job} | head -n 1; echo ${{PIPESTATUS[1]}}", timeout=30)
        assert done.err == "" and done.lines[-1] == "141" and len(done.lines) == 2, (job, done)
