"""Something happens to one of two processes: both end, the rank is named, the checkpoint before is whole, the run continues."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest
import rank_faults
from running import ended, processes

from nlptools.files import artifacts

TIMEOUT = 4  # seconds without a sign of life
HOST = re.escape(f"(host {socket.gethostname()})")
SIZES = {"layers": 1, "hidden": 8, "heads": 1, "context": 4, "batch-size": 2, "threads": 1, "steps": 12, "dropout": 0.1}
SIZES |= {"save-every": 3, "log-every": 1, "warmup": 0}
LOST = "rank {}: the connection to rank {} HOST is lost\n  hint: the same command continues"


@dataclass(frozen=True)
class Case:
    """A fault of the process of a rank."""

    fault: str
    rank: int
    codes: tuple[int, int]  # exit statuses of both
    message: str  # a regular expression, of what both write together
    wakes: float = 0.0  # seconds after which a stopped process goes on; 0: when the other one has ended
    continues: bool = True  # whether the same command then ends with the weights of a run without faults


CASES = {
    "killed": Case("kill", 1, (75, -9), LOST.format(0, 1)),
    "main killed in a save": Case("kill in a save", 0, (-9, 75), LOST.format(1, 0)),
    "stopped": Case("stop", 1, (75, 75), f"rank 0: rank 1 HOST has not answered for {TIMEOUT} seconds\n"),
    "main stopped": Case("stop", 0, (75, 75), f"rank 1: rank 0 HOST has not answered for {TIMEOUT} seconds\n"),
    "stopped for a second": Case("stop", 1, (0, 0), "^model: .* in 2 processes on 1 machine", wakes=1),
    "out of memory": Case("no memory", 1, (70, 70), "rank 0: rank 1 HOST has ended with status 70\n"),
    "disk full": Case("disk full", 0, (74, 74), "[Nn]o space left(.*\n)*.*rank 1: rank 0 HOST has ended with status 74\n"),
    "not finite": Case("not finite", 1, (3, 3), "not finite on rank 1 in 8 consecutive steps, up to step 12", continues=False),
}  # fmt: skip
NOTHING = Case("none", 0, (0, 0), "")
CHEAP = ("disk full", "not finite")


def suffer(place: Path, server: list[str], case: Case) -> str:
    """Train in two processes, of which one suffers a fault. Returns what they wrote to standard error."""
    options = [word for name, value in SIZES.items() for word in (f"--{name}", value)]
    command = ("train-lm", "-t", "../vocab.tsv", "--device", "cpu", *options, "-o", "lm", "../train.txt")
    program = (rank_faults.__file__, case.fault, case.rank)
    started = processes(2, place, *program, *command, command=server, NLPTOOLS_PROCESS_TIMEOUT=str(TIMEOUT))
    if case.fault == "stop":
        wake(place, case, started[1 - case.rank])
    errors = [process.communicate(timeout=60)[1] for process in started]
    assert tuple(process.returncode for process in started) == case.codes, errors
    return "".join(errors)


def wake(place: Path, case: Case, other: subprocess.Popen[str]) -> None:
    """Let a stopped process go on, after a while or when the other one has ended."""
    until = time.monotonic() + 60
    while (
        not (state := place / "pid").exists()
        or " (stopped)" not in Path(f"/proc/{state.read_text()}/status").read_text()
    ):
        assert time.monotonic() < until
        time.sleep(0.05)
    began = time.monotonic()
    if case.wakes:
        time.sleep(case.wakes)
    else:
        assert other.wait(60) == case.codes[1 - case.rank]
        assert time.monotonic() - began < TIMEOUT + 10
    os.kill(int((place / "pid").read_text()), signal.SIGCONT)


def write_text(place: Path) -> None:
    (place / "train.txt").write_text("a b c d e f\n" * 50)
    (place / "vocab.tsv").write_text("<unk>\t0\n</s>\t0\n" + "".join(f"{letter}\t1\n" for letter in "abcdef"))


def endures(place: Path, server: list[str], names: Iterable[str]) -> None:
    """Check the cases of these names: the message, and the weights in the end."""
    write_text(place)
    (place / "whole").mkdir()
    suffer(place / "whole", server, NOTHING)
    for name in names:
        case, here = CASES[name], place / name
        here.mkdir()
        text = suffer(here, server, case)
        assert re.search(case.message.replace("HOST", HOST), text, re.MULTILINE), (name, text)
        assert "Traceback" not in text and "internal error" not in text, (name, text)
        for checkpoint in (here / "lm/checkpoints").glob("step-*"):
            assert artifacts.verify(checkpoint), (name, checkpoint)
        if case.continues:
            suffer(here, server, NOTHING)
            same = [(at / "lm/model.safetensors").read_bytes() for at in (place / "whole", here)]
            assert same[0] == same[1], name


@pytest.mark.sampled(law="signals and failures")
def test_cheap_faults(tmp_path: Path, fork_server: list[str]) -> None:
    endures(tmp_path, fork_server, CHEAP)


@pytest.mark.slow
def test_faults(tmp_path: Path, fork_server: list[str]) -> None:
    endures(tmp_path, fork_server, [name for name in CASES if name not in CHEAP])


@pytest.mark.slow
def test_joining(tmp_path: Path, fork_server: list[str]) -> None:
    """A port that something else listens on, a process that does not come, and a main one that does not."""
    wait = {"NLPTOOLS_PROCESS_TIMEOUT": "2"}
    write_text(tmp_path)
    command = ("train-lm", "-t", "vocab.tsv", "--device", "cpu", "-o", "lm", "train.txt")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        both = ended(processes(2, tmp_path, *command, command=fork_server, port=taken.getsockname()[1], **wait), 69)
    assert "rank 0 cannot join the other processes: " in both[0][1] and "in use" in both[0][1], both
    assert "rank 1 cannot join the other processes: " in both[1][1], both
    for rank, message in enumerate(("no sign of rank 1 for 2 seconds", "no answer from 127.0.0.1:")):
        [(_, err)] = ended(processes(2, tmp_path, *command, command=fork_server, ranks=[rank], **wait), 69)
        assert f"nlptools train-lm: rank {rank} cannot join the other processes: {message}" in err
        assert "Traceback" not in err
    assert not (tmp_path / "lm").exists()
