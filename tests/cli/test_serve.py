"""serve: the official client talks to it, and it ends as other commands do."""

from __future__ import annotations

import contextlib
import json
import re
import select
import signal
import socket
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from conftest import Run, environment
from running import Fork


@contextmanager
def serving(words: Path, fork_server: list[str], *options: str) -> Iterator[tuple[str, Fork]]:
    """The address of a server, and its process."""
    command = [*fork_server, "serve", str(words), "--port", "0", "--threads", "1", "--name", "tiny", *options]
    with Fork(command, stderr=subprocess.PIPE, text=True, env=environment()) as process:
        assert process.stderr is not None
        line = process.stderr.readline()
        match = re.search(r"tiny: (http://127\.0\.0\.1:\d+/v1)", line)
        assert match, line + process.stderr.read()
        try:
            yield match[1], process
        finally:
            process.kill()


@pytest.fixture
def server(words: Path, fork_server: list[str]) -> Iterator[tuple[str, Fork]]:
    with serving(words, fork_server) as started:
        yield started


def post(address: str, body: dict[str, Any]) -> bytes:
    """The head and the body of a request, of which the server would close the connection."""
    data = json.dumps(body).encode()
    head = (
        f"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {len(data)}\r\n\r\n"
    )
    return head.encode() + data


def connected(address: str) -> socket.socket:
    place = urlsplit(address)
    return socket.create_connection((place.hostname, place.port), timeout=60)


def rest(connection: socket.socket) -> bytes:
    """What the server still sends before it closes the connection."""
    parts = []
    with contextlib.suppress(ConnectionResetError):
        while part := connection.recv(65536):
            parts.append(part)
    return b"".join(parts)


def test_clients_that_hang_up_or_dawdle_lose_only_their_own_connection(words: Path, fork_server: list[str]) -> None:
    with serving(words, fork_server, "--timeout", "1") as (address, process):
        stream = post(address, {"prompt": "w1", "max_tokens": 500, "stream": True, "n": 8})
        for n in range(24):
            with connected(address) as connection:
                connection.sendall(stream)
                if n % 2:
                    connection.recv(100)
                # a reset, as of a client that was killed
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        # a byte at a time: the beginning of the head, and the beginning of the body
        whole = post(address, {"prompt": "w1"})
        with contextlib.ExitStack() as stack:
            given = (b"P", b"POST /v1/comp", whole[:-5], b"")  # the last one says nothing
            slow = [stack.enter_context(connected(address)) for _ in given]
            for connection, part in zip(slow, given, strict=True):
                connection.sendall(part)
            *answers, nothing = map(rest, slow)
        for answer in answers:
            assert answer.startswith(b"HTTP/1.1 408 ") and json.loads(answer.partition(b"\r\n\r\n")[2])["error"]
        assert nothing == b""
        with connected(address) as connection:
            connection.sendall(b"this is no HTTP\r\n\r\n")
            answer = rest(connection)
        assert answer.startswith(b"HTTP/1.1 400 ") and json.loads(answer.partition(b"\r\n\r\n")[2])["error"]
        # a client that reads nothing of a large answer
        with connected(address) as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            echo = {"prompt": "x" * 200_000, "echo": True, "n": 100, "max_tokens": 1}
            connection.sendall(post(address, echo))
            poll = select.poll()
            poll.register(connection, select.POLLHUP | select.POLLERR)
            assert poll.poll(60_000)
        with connected(address) as connection:
            connection.sendall(whole)
            assert rest(connection).startswith(b"HTTP/1.1 200 ")
        assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=20)
        assert process.returncode == -signal.SIGTERM


def test_the_official_client_talks_to_it(server: tuple[str, Fork]) -> None:
    openai = pytest.importorskip("openai")
    address, process = server
    client = openai.OpenAI(base_url=address, api_key="none", max_retries=0, timeout=60)
    assert [model.id for model in client.models.list()] == ["tiny"]
    whole = client.completions.create(model="tiny", prompt="w1 w2", max_tokens=5, temperature=0, logprobs=1)
    assert whole.choices[0].logprobs.token_logprobs and whole.usage.completion_tokens <= 5
    pieces = client.completions.create(model="tiny", prompt="w1 w2", max_tokens=5, temperature=0, stream=True)
    assert "".join(piece.choices[0].text for piece in pieces) == whole.choices[0].text
    assert client.models.retrieve("tiny").id == "tiny"
    with pytest.raises(openai.NotFoundError, match="'tiny'"):
        client.models.retrieve("other")
    asked: dict[str, Any] = {
        "model": "tiny",
        "prompt": "w1 w2",
        "max_tokens": 4,
        "n": 2,
        "seed": 1,
        "logprobs": 1,
        "echo": True,
    }
    choices, entries = client.completions.create(**asked).choices, [0, 0]
    texts = ["", ""]
    for piece in client.completions.create(**asked, stream=True):
        [part] = piece.choices
        texts[part.index] += part.text
        entries[part.index] += len(part.logprobs.tokens) if part.logprobs else 0
    assert texts == [choice.text for choice in choices] and texts[0].startswith("w1 w2")
    assert entries == [len(choice.logprobs.token_logprobs) for choice in choices]
    assert len(client.embeddings.create(model="tiny", input=["w1", "w2"]).data) == 2
    with pytest.raises(openai.BadRequestError, match="chat template"):
        client.chat.completions.create(model="tiny", messages=[{"role": "user", "content": "w1"}])
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=20)
    assert (process.returncode, errors) == (-signal.SIGTERM, "")


def test_what_cannot_be_served_is_one_line(call: Run, words: Path, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = call("serve", words, "--port", taken.getsockname()[1])
    assert done.code == 69 and "address already in use" in done.err and done.err.count("\n") == 1
    done = call("serve", tmp_path / "nothing", "--port", 0)
    assert done.code == 66 and done.err.startswith("nlptools serve: ") and "no such model directory" in done.err
