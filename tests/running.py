"""Training commands that tests stop while they run."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import forks
from conftest import environment


def rows(directory: Path, kind: str | None = None) -> list[dict[str, Any]]:
    """What a run has logged, or what of this kind."""
    found = [json.loads(line) for line in (directory / "log.jsonl").read_text().split("\n") if line]
    return [row for row in found if kind in (None, row["kind"])]


class Fork(subprocess.Popen[Any]):
    """A process that begins with the words of the fixture `fork_server`; signals reach the process that does its work."""

    @property
    def worker(self) -> int:
        """The number of that process, once it has begun."""
        address = self.args[self.args.index(forks.__file__) + 1]  # type: ignore[union-attr, index]
        return int(Path(f"{address}.{self.pid}").read_text())

    def send_signal(self, number: int) -> None:
        self.poll()
        if self.returncode is None:
            os.kill(self.worker, number)


def processes(
    count: int,
    cwd: Path,
    *args: object,
    command: Sequence[str] = (sys.executable,),
    ranks: Sequence[int] = (),
    port: int = 0,
    **variables: str,
) -> list[subprocess.Popen[str]]:
    """Processes that `command` and `args` begin, as a launcher starts those of one run; by default of Python.

    `ranks`: only these; `port`: where they meet, by default a free one; `variables`: of the environment.
    """
    if not port:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
    where = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(count), "OMP_NUM_THREADS": "1"}
    kind = Fork if forks.__file__ in command else subprocess.Popen
    return [
        kind(
            [*command, *map(str, args)],
            cwd=cwd,
            env=environment(**where, RANK=str(rank), LOCAL_RANK=str(rank), LOCAL_WORLD_SIZE=str(count), **variables),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in ranks or range(count)
    ]


def ended(started: Sequence[subprocess.Popen[str]], code: int = 0) -> list[tuple[str, str]]:
    """What each process wrote to its two streams; all must have ended with the status `code`."""
    outputs = [process.communicate(timeout=120) for process in started]
    assert [process.returncode for process in started] == [code] * len(started), outputs
    return outputs


class Running:
    """A training command at work. `directory` is what its -o names; it may hold the log of earlier parts of the run.

    `server`: the fixture `fork_server`, for a fork in place of a new interpreter.
    """

    def __init__(self, directory: Path, *command: Any, server: list[str] | None = None) -> None:
        self.directory = directory
        self.before = self._step()
        words = [*(server or [sys.executable, "-m", "nlptools"]), *map(str, command), "-o", directory.name]
        kind = Fork if server else subprocess.Popen
        self.process = kind(words, cwd=directory.parent, env=environment(), stderr=subprocess.PIPE)

    def _step(self) -> int:
        with contextlib.suppress(ValueError, OSError):  # a line that is being written, no log yet
            return max((int(row.get("step", 0)) for row in rows(self.directory)), default=0)
        return 0

    def wait_for_step(self, step: int) -> None:
        """Until this process itself, not an earlier one, has logged `step` or a later one: it listens to signals."""
        until = time.monotonic() + 60
        while self._step() < max(step, self.before + 1):
            assert self.process.poll() is None, self.process.communicate()
            assert time.monotonic() < until, "training did not get going"
            time.sleep(0.01)

    def stop(self, number: int) -> tuple[int, bytes]:
        """What it exits with after this signal, and what it said."""
        self.process.send_signal(number)
        _, err = self.process.communicate(timeout=60)
        return self.process.returncode, err
