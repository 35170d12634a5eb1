"""The process that renders one chat template, which `template_sandbox` starts.

The template sees what `apply_chat_template` of the transformers package gives it: messages, tools, documents and the special
tokens; the filters, tests and globals of Jinja, some of them with other arguments. Before each task the process sets a limit
to its own memory and processor time, so that no expression of a template can exceed them, also inside a single operation.
A message between the processes is its length in 8 bytes, then JSON. The first task has the source of the template, each later
one the values that it sees; the answer is an object with one key: "text", "refused" or "unfit".
"""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
import struct
from collections.abc import Mapping
from datetime import datetime
from typing import Any, NoReturn

from jinja2 import Template, TemplateError, nodes
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace

_LENGTH = struct.Struct(">Q")
_LONGEST = 1000  # characters of a message
_REASONING = ("reasoning_content", "thinking", "reasoning")  # names of the same field of a message


class _Refused(TemplateError):
    """The template calls raise_exception."""


class _Unfit(Exception):
    """The template exceeds the limit that the message names."""


class _Generation(Extension):
    """The block around an answer of the assistant: only its content is written."""

    tags = {"generation"}  # noqa: RUF012 - as the base class declares it

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        return nodes.Scope(parser.parse_statements(("name:endgeneration",), drop_needle=True), lineno=line)


class _Namespace(Namespace):
    """Jinja's namespace, without names that Python gives a meaning."""

    def __init__(self, /, *args: Mapping[str, object], **values: object) -> None:
        super().__init__()
        for name, value in dict(*args, **values).items():
            self[name] = value

    def __setitem__(self, name: str, value: object) -> None:
        if str(name).startswith("_"):
            raise SecurityError(f"a namespace with the name {name!r}")
        super().__setitem__(name, value)


def _refuse(message: object) -> NoReturn:
    raise _Refused(str(message))


def _tojson(
    x: object,
    ensure_ascii: bool = False,
    indent: int | str | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def compiled(source: str) -> Template:
    """A template in the dialect of transformers. Raises TemplateError, or the error of a limit or of Python's compiler."""
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, loopcontrols]
    )
    environment.filters["tojson"] = _tojson
    environment.globals["raise_exception"] = _refuse
    environment.globals["strftime_now"] = lambda format: datetime.now().strftime(format)
    environment.globals["namespace"] = _Namespace
    return environment.from_string(source)


def rendered(template: Template, values: Mapping[str, Any], most: int) -> str:
    """The text of a conversation, of at most `most` characters."""
    messages = [_message(message) for message in values["messages"]]
    parts: list[str] = []
    size = 0
    for part in template.generate({"tools": None, "documents": None, **values, "messages": messages}):
        size += len(part)
        if size > most:
            raise _Unfit(f"writes more than {most:,} characters")
        parts.append(part)
    return "".join(parts)


def _message(message: Mapping[str, object]) -> dict[str, object]:
    """A message as transformers gives it: without keys that have no value, its reasoning under all names that templates read."""
    known = {key: value for key, value in message.items() if value is not None}
    given = [known[name] for name in _REASONING if name in known]
    return {"thinking": given[0], **known, "reasoning_content": given[0]} if given else known


def _excuse(error: Exception) -> dict[str, str]:
    """Why a task fails: a bound, or an error that may depend on the conversation, which refuses it."""
    match error:
        case _Unfit():
            return {"unfit": str(error)}
        case MemoryError():
            return {"unfit": f"needs more than {resource.getrlimit(resource.RLIMIT_AS)[0] >> 20} MiB of memory"}
        case RecursionError():
            return {"unfit": "calls itself, or is nested, without end"}
        case OverflowError() | SecurityError():
            return {"unfit": f"does what it may not do: {error}"[:_LONGEST]}
    return {"refused": (str(error) or type(error).__name__)[:_LONGEST]}


def _limit(seconds: float, memory: int) -> None:
    """Set the processor time that is left, and the size of the process in bytes."""
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (memory if hard == resource.RLIM_INFINITY else min(memory, hard), hard))
    signal.setitimer(signal.ITIMER_PROF, seconds)  # its signal ends the process, also inside an operation of C


def _receive(connection: socket.socket) -> Any:
    """The next task. Ends the process when there is none."""
    header = connection.recv(_LENGTH.size, socket.MSG_WAITALL)
    if len(header) < _LENGTH.size:
        os._exit(0)
    (left,) = _LENGTH.unpack(header)
    data = bytearray()
    while len(data) < left:
        data += connection.recv(left - len(data)) or os._exit(0)
    return json.loads(data.decode("utf-8", "surrogatepass"))


def _send(connection: socket.socket, answer: Mapping[str, str]) -> None:
    data = json.dumps(answer, ensure_ascii=False).encode("utf-8", "surrogatepass")
    connection.sendall(_LENGTH.pack(len(data)) + data)


def main() -> None:
    """Answer tasks on the socket that is standard input, until it is closed."""
    connection = socket.socket(fileno=0)
    for limit in (resource.RLIMIT_FSIZE, resource.RLIMIT_CORE):
        resource.setrlimit(limit, (0, 0))
    template = Template("")
    while True:
        _limit(0, resource.RLIM_INFINITY)
        task = _receive(connection)
        _limit(task["seconds"], task["memory"])
        try:
            if "source" in task:
                template, text = compiled(task["source"]), ""
            else:
                text = rendered(template, task["values"], task["output"])
            _send(connection, {"text": text})
        except Exception as error:
            _send(connection, _excuse(error))
