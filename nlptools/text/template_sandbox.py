"""The sandbox of chat templates: a separate process for each template, with limits on time, memory and output.

Jinja's sandbox isolates a template, but `'x' * 10**10` still exhausts memory, and a loop may run for ever. A separate process
(`template_worker`) therefore renders the template of a model directory. It starts once, and answers for every conversation. A
template that exceeds a limit ends this process only.
"""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import weakref
from collections.abc import Mapping
from dataclasses import dataclass

from nlptools.errors import BundleError, DataError, Unavailable, display, shorten, visible

_LENGTH = struct.Struct(">Q")
_START = "import sys; sys.path[:] = sys.argv[1:]; from nlptools.text.template_worker import main; main()"
_LONGEST = 300  # characters of a message of the template
_NO_SIGNAL = getattr(socket, "MSG_NOSIGNAL", 0)


@dataclass(frozen=True)
class Bounds:
    """Limits of one rendering; most grow with the conversation.

    Attributes:
        source: characters of the template.
        seconds: of processor time; and one for every 100,000 characters of the conversation.
        memory: bytes of the process; and 32 for each character of the conversation.
        output: characters; and 16 for each character of the conversation.
    """

    source: int = 1 << 20
    seconds: float = 5.0
    memory: int = 512 << 20
    output: int = 1 << 20


class Sandbox:
    """A template in the dialect of the `transformers` package."""

    def __init__(self, name: str, source: str, special: Mapping[str, str], bounds: Bounds | None = None) -> None:
        """Args:
        name: the model directory, for messages.
        special: the special tokens, by the names that the template has for them.

        Raises:
            BundleError: the template is not valid, too large, or exceeds a bound while it is read.
            Unavailable: Jinja is not installed.
        """
        self.name, self.source, self.special, self.bounds = display(name), source, special, bounds or Bounds()
        if importlib.util.find_spec("jinja2") is None:
            raise Unavailable(f"{self.name}: its chat template needs the jinja2 package", extra="chat")
        if len(source) > self.bounds.source:
            raise BundleError(
                f"{self.name}: its chat template has {len(source):,} characters, expected at most {self.bounds.source:,}"
            )
        self._lock = threading.Lock()
        self._process: _Process | None = None
        with self._lock:
            self._started()

    def __call__(self, messages: object, generation: bool) -> str:
        """See `chat_templates.Conversation`.

        Raises:
            DataError: the template refuses the messages.
            BundleError: it exceeds a bound.
        """
        values = {**self.special, "messages": messages, "add_generation_prompt": generation}
        with self._lock:
            answer = self._ask(self._started(), {"values": values})
        if "refused" in answer:
            raise DataError(f"the chat template of {self.name} fails: {_line(answer['refused'])}")
        return answer["text"]

    def _started(self) -> _Process:
        """The process, which has read the template; a new one after the end of the last one, and after a fork."""
        process = self._process
        if process is None or process.owner != os.getpid():
            process = self._process = _Process()
            answer = self._ask(process, {"source": self.source})
            if "refused" in answer:
                raise BundleError(f"{self.name}: not a valid chat template: {_line(answer['refused'])}")
        return process

    def _ask(self, process: _Process, task: Mapping[str, object]) -> dict[str, str]:
        """The answer to a task. Raises BundleError if the template exceeds a bound."""
        try:
            text = json.dumps(task, ensure_ascii=False)
        except RecursionError:
            raise DataError("a message is nested too deeply") from None
        bounds, size = self.bounds, len(text)
        limits = {
            "seconds": bounds.seconds + size / 100_000,
            "memory": bounds.memory + 32 * size,
            "output": bounds.output + 16 * size,
        }
        data = (json.dumps(limits)[:-1] + ", " + text[1:]).encode("utf-8", "surrogatepass")
        try:
            reply = process.ask(data, 6 * limits["output"])
        except BaseException:  # such as Ctrl-C: the unread answer would be taken for the next one
            self._process = None
            process.end()
            raise
        if reply is None:
            self._process = None
            ended = process.end()
            limit = f"takes more than {limits['seconds']:.0f} s of processor time"
            reply = {"unfit": limit if ended == -signal.SIGPROF else f"ended its process with status {ended}"}
        if "unfit" in reply:
            raise BundleError(f"{self.name}: its chat template {_line(reply['unfit'])}")
        return reply


class _Process:
    """A process of `template_worker`, which ends with this object."""

    def __init__(self) -> None:
        self.owner = os.getpid()
        self._socket, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-c", _START, *sys.path],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C is for us; it ends when we do
            )
        self.end = weakref.finalize(self, _end, self.owner, self._process, self._socket)

    def ask(self, data: bytes, most: float) -> dict[str, str] | None:
        """The answer to a task of at most `most` bytes; None: the process has ended, or answers something else."""
        try:
            self._socket.sendall(_LENGTH.pack(len(data)) + data, _NO_SIGNAL)
            (size,) = _LENGTH.unpack(self._received(_LENGTH.size))
            if size > most:
                return None
            answer = json.loads(self._received(size).decode("utf-8", "surrogatepass"))
        except (OSError, EOFError, ValueError):
            return None
        fine = isinstance(answer, dict) and all(isinstance(value, str) for value in answer.values())
        return answer if fine and len(answer) == 1 else None

    def _received(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            part = self._socket.recv(min(size - len(data), 1 << 20))
            if not part:
                raise EOFError
            data += part
        return bytes(data)


def _end(owner: int, process: subprocess.Popen[bytes], connection: socket.socket) -> int | None:
    """End a process, and return its status; after a fork it is another process's."""
    connection.close()
    if owner != os.getpid():
        return None
    try:
        return process.wait(0.2)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


def _line(text: str) -> str:
    return visible(shorten(text, _LONGEST))
