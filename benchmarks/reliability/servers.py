"""Programs in processes of their own: forks of a server per tool, which has imported the tool's packages once.

    python -m benchmarks.reliability.servers TOOL     # reads requests from stdin, a JSON object per line

A fork begins a session, so that what it leaves behind can be found and ended with it.
"""

from __future__ import annotations

import contextlib
import json
import locale
import os
import resource
import signal
import subprocess
import sys
import time
import traceback
from dataclasses import asdict, dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PROCESSOR = 20  # seconds of processor time that a program may take
WALL = 150  # seconds that a program may take: other work on the machine slows it down
ADDRESSES = 24 << 30  # bytes of address space, so that a hostile file cannot take the machine down
CANARY = "executed"  # the file that code from an input would make


@dataclass(frozen=True)
class Request:
    """A program to run.

    Attributes:
        program: its name in programs.py or ours.py.
        arguments: what it is called with.
        place: its working directory, which also gets its streams.
        c_locale: text is ASCII, as with LC_ALL=C and PYTHONUTF8=0.
        largest: bytes that a file may have; 0: any number.
        killed: at a file that is too large, the kernel ends the process; otherwise the write fails.
        stdout: "file", "closed", "full" (/dev/full) or "pipe" (one without a reader).
        limited: bounds on processor time and memory hold.
    """

    program: str
    place: str
    arguments: dict[str, Any] = field(default_factory=dict)
    c_locale: bool = False
    largest: int = 0
    killed: bool = False
    stdout: str = "file"
    limited: bool = True


@dataclass(frozen=True)
class End:
    """How a program ended: with a status, or by a signal (a negative one), or not in time."""

    status: int
    memory: int  # bytes, at most
    late: bool
    out: str
    err: str
    executed: bool

    @property
    def result(self) -> dict[str, Any] | None:
        """What the program found out: the last line of its output."""
        with contextlib.suppress(ValueError, IndexError):
            found = json.loads(self.out.rstrip("\n").split("\n")[-1])
            return found if isinstance(found, dict) else None
        return None


class Process:
    """A program at work."""

    def __init__(self, server: subprocess.Popen[str], place: Path) -> None:
        self.place = place
        while not (place / "pid").exists():
            if server.poll() is not None:
                raise SystemExit(f"the server of {place} has ended")
            time.sleep(0.03)
        self.began = time.monotonic()
        self.pid = int((place / "pid").read_text())

    def alive(self) -> bool:
        return not (self.place / "end").exists()

    def send(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def end(self, wall: float = WALL) -> End:
        """Wait until it has ended; end it after `wall` seconds."""
        late = False
        while self.alive():
            if not late and time.monotonic() - self.began > wall:
                late = True
                self.send(signal.SIGKILL)
            time.sleep(0.03)
        status, memory = json.loads((self.place / "end").read_text())
        out, err = (
            path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
            for path in (self.place / "stdout", self.place / "stderr")
        )
        late = late or status == -signal.SIGXCPU
        return End(status, memory, late, out, err, (self.place / CANARY).exists())

    def left(self) -> list[int]:
        """Processes of its session that still run."""
        found = []
        for stat in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                state, _, _, session = stat.read_text().rpartition(")")[2].split()[:4]
                if int(session) == self.pid and state != "Z":
                    found.append(int(stat.parent.name))
        return found


class Server:
    """The server of a tool, which is started with the first program."""

    def __init__(self, tool: str) -> None:
        self.tool = tool
        self._process: subprocess.Popen[str] | None = None

    def start(self, request: Request) -> Process:
        if self._process is None:
            env = {
                **os.environ,
                "PYTHONPATH": str(ROOT),
                "PYTHONHASHSEED": "0",
                "OMP_NUM_THREADS": "1",
                "PYTHONUTF8": "0",
            }
            env |= {
                "LC_ALL": "C.UTF-8",
                "HF_HUB_OFFLINE": "1",
                "TOKENIZERS_PARALLELISM": "false",
                "MKL_CBWR": "AUTO,STRICT",
            }
            command = [sys.executable, "-m", "benchmarks.reliability.servers", self.tool]
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, env=env, text=True, cwd=ROOT)
        place = Path(request.place)
        for name in ("pid", "end", "stdout", "stderr", CANARY):
            (place / name).unlink(missing_ok=True)
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(asdict(request)) + "\n")
        self._process.stdin.flush()
        return Process(self._process, place)

    def run(self, request: Request, wall: float = WALL) -> End:
        return self.start(request).end(wall)

    def close(self) -> None:
        if self._process is not None:
            assert self._process.stdin is not None
            self._process.stdin.close()
            self._process.wait()
            self._process = None


# -- in the server ----------------------------------------------------------------------------------------------------


def main() -> None:
    from benchmarks.reliability.tools import TOOLS

    tool = TOOLS[sys.argv[1]]
    for name in tool.imports:
        import_module(name)
    programs = import_module(f"benchmarks.reliability.{tool.programs}")
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for line in sys.stdin:
        if os.fork() == 0:
            watch(programs, Request(**json.loads(line)))
            os._exit(0)


def watch(programs: Any, request: Request) -> None:
    """Run a program in a child, and write down how it ended."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    place = Path(request.place)
    if (child := os.fork()) == 0:
        become(programs, request)
    whole(place / "pid", str(child))
    _, status, usage = os.wait4(child, 0)
    whole(place / "end", json.dumps([os.waitstatus_to_exitcode(status), usage.ru_maxrss << 10]))


def whole(path: Path, text: str) -> None:
    path.with_name(f"{path.name}.new").write_text(text)
    os.replace(path.with_name(f"{path.name}.new"), path)


def become(programs: Any, request: Request) -> None:
    """Turn this process into a program, with its own streams, limits and place."""
    os.setsid()
    os.chdir(request.place)
    descriptors = [
        os.open(os.devnull, os.O_RDONLY),
        output(request.stdout),
        os.open("stderr", os.O_WRONLY | os.O_CREAT),
    ]
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
    if request.stdout == "closed":
        os.close(1)
    coding = "ascii" if request.c_locale else "utf-8"
    locale.setlocale(locale.LC_ALL, "C" if request.c_locale else "C.UTF-8")
    sys.stdin = sys.__stdin__ = open(0, encoding=coding, closefd=False)  # noqa: SIM115
    # an interpreter whose stdout is closed has None
    stdout = None if request.stdout == "closed" else open(1, "w", encoding=coding, closefd=False)  # noqa: SIM115
    sys.stdout = sys.__stdout__ = stdout  # type: ignore[assignment]
    sys.stderr = sys.__stderr__ = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)  # noqa: SIM115
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if request.limited:
        resource.setrlimit(resource.RLIMIT_CPU, (PROCESSOR, PROCESSOR + 5))
        resource.setrlimit(resource.RLIMIT_AS, (ADDRESSES, ADDRESSES))
    if request.largest:
        resource.setrlimit(resource.RLIMIT_FSIZE, (request.largest, request.largest))
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL if request.killed else signal.SIG_IGN)
    os._exit(called(getattr(programs, request.program), request.arguments))


def output(kind: str) -> int:
    if kind == "full":
        return os.open("/dev/full", os.O_WRONLY)
    if kind == "pipe":
        reading, writing = os.pipe()
        os.close(reading)
        return writing
    return os.open("stdout", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)


def called(program: Any, arguments: dict[str, Any]) -> int:
    """The status with which an interpreter ends that runs the program; it prints what the program returns."""
    status = 0
    try:
        result = program(**arguments)
        if result is not None:
            print(json.dumps(result))
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    except KeyboardInterrupt:
        traceback.print_exc()
        status = 130
    except BaseException:
        traceback.print_exc()
        status = 1
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        traceback.print_exc()
        status = 120  # as the interpreter does at its end
    sys.stderr.flush()
    return status


if __name__ == "__main__":
    main()
