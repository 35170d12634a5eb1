"""Many clients of a server at once: good ones, slow ones, and those that break off or send too much."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import socket
import struct
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

RETRY = 0.1  # seconds until a client asks again that was told to come later
WELL_BEHAVED = ("good", "stream", "slow")
GREEDY = {"temperature": 0, "max_tokens": 6}


class Load:
    """Clients of the server at `host` and `port`, and what became of their requests."""

    def __init__(self, host: str, port: int, largest: int, seed: int = 0) -> None:
        self.host, self.port, self.largest = host, port, largest
        self.random = random.Random(seed)
        self.outcomes: Counter[str] = Counter()  # "kind: outcome" -> number of requests
        self.wrong: list[str] = []  # what no client may see
        self.seconds: list[float] = []  # that good clients have waited for their texts
        self.texts: dict[str, str] = {}  # prompt -> its greedy continuation

    async def learn(self) -> None:
        """Ask alone for the texts that all others have to get."""
        for prompt in ("w1", "w2", "w3", "w4"):
            self.texts[prompt] = await self._completion(prompt)

    async def run(self, clients: int, seconds: float, bad: bool = True) -> None:
        """Keep `clients` clients at work for so long; each begins again when it is done. All wait for their answers.

        Without `bad`, those of them that behave badly stay away.
        """
        end = time.monotonic() + seconds
        kinds = (self.good, self.stream, self.good, self.slow, self.broken, self.oversized, self.good, self.silent)
        chosen = [kinds[number % len(kinds)] for number in range(clients)]
        await asyncio.gather(*(self._repeat(kind, end) for kind in chosen if bad or kind.__name__ in WELL_BEHAVED))

    @property
    def accepted(self) -> int:
        """How many requests of clients that behave well were answered."""
        return sum(self.outcomes[f"{kind}: answered"] for kind in WELL_BEHAVED)

    async def _repeat(self, client: Callable[[], Awaitable[str]], end: float) -> None:
        kind = client.__name__
        while time.monotonic() < end:
            try:
                outcome = await client()
            except (ConnectionError, asyncio.IncompleteReadError, TimeoutError) as error:
                outcome = type(error).__name__
                if kind in WELL_BEHAVED:
                    self.wrong.append(f"{kind}: {outcome}")
            self.outcomes[f"{kind}: {outcome}"] += 1

    # -- kinds of clients ---------------------------------------------------------------------------------------------

    async def good(self) -> str:
        """Wants a text, and asks again while the server has no room."""
        prompt, began = self.random.choice(list(self.texts)), time.monotonic()
        if await self._completion(prompt) != self.texts[prompt]:
            self.wrong.append(f"another text of {prompt}")
        self.seconds.append(time.monotonic() - began)
        return "answered"

    async def stream(self) -> str:
        """Wants the same text in parts."""
        prompt = self.random.choice(list(self.texts))
        answer = await self._answer(prompt, stream=True)
        *events, last = [part.removeprefix("data: ") for part in answer.decode().split("\n\n") if part]
        text = "".join(json.loads(event)["choices"][0]["text"] for event in events)
        if (text, last) != (self.texts[prompt], "[DONE]"):
            self.wrong.append(f"another stream of {prompt}: {answer[-200:]!r}")
        return "answered"

    async def slow(self) -> str:
        """Sends its request in ten parts; it is answered as any other."""
        prompt = self.random.choice(list(self.texts))
        if _text(await self._answer(prompt, pause=0.05)) != self.texts[prompt]:
            self.wrong.append(f"another text of {prompt} for a slow client")
        return "answered"

    async def broken(self) -> str:
        """Sends what is no request, or breaks off in its middle or in the middle of the answer."""
        whole = self._request({"prompt": "w1", "max_tokens": 500, "stream": True, "n": 8})
        sent = self.random.choice((b"no HTTP\r\n\r\n", self._request(b"{"), whole[:30], whole[:-5], whole))
        reader, writer = await self._connect()
        writer.write(sent)
        await writer.drain()
        if sent in (whole[:30], whole[:-5], whole):
            await asyncio.sleep(self.random.random() / 4)
            _reset(writer)
            return "left"
        status, _ = await _read(reader)
        writer.close()
        if status != 400:
            self.wrong.append(f"status {status} for {sent[:30]!r}")
        return str(status)

    async def oversized(self) -> str:
        """Sends more than the server takes, with a length or in chunks."""
        reader, writer = await self._connect()
        if self.random.random() < 0.5:
            writer.write(self._request(b"", length=self.largest + 1))
        else:
            writer.write(self._request(b"", chunked=True))
        part = bytes(self.largest // 16 + 1)
        with contextlib.suppress(ConnectionError):  # the server closes the connection once it has answered
            for _ in range(20):
                writer.write(b"%x\r\n%s\r\n" % (len(part), part))
                await asyncio.wait_for(writer.drain(), 60)
        try:
            status, _ = await _read(reader)
        except (ConnectionError, asyncio.IncompleteReadError):
            return "closed"
        finally:
            _reset(writer)
        if status not in (413, 503):
            self.wrong.append(f"status {status} for a large request")
        return str(status)

    async def silent(self) -> str:
        """Connects, says nothing for a second, and leaves."""
        _, writer = await self._connect()
        await asyncio.sleep(1)
        writer.close()
        return "left"

    # -- requests -----------------------------------------------------------------------------------------------------

    async def _completion(self, prompt: str) -> str:
        return _text(await self._answer(prompt))

    async def _answer(self, prompt: str, pause: float = 0.0, **keys: Any) -> bytes:
        """The body of the answer, after as many trials as the server has no room for."""
        request = self._request({"prompt": prompt, **GREEDY, **keys})
        while True:
            reader, writer = await self._connect()
            step = len(request) // 10 + 1 if pause else len(request)
            for begin in range(0, len(request), step):
                writer.write(request[begin : begin + step])
                await asyncio.sleep(pause)
            status, body = await asyncio.wait_for(_read(reader), 120)
            writer.close()
            if status == 200:
                return body
            self.outcomes[f"told {status}"] += 1
            if status != 503:
                self.wrong.append(f"status {status}: {body[:200]!r}")
            await asyncio.sleep(RETRY)

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.wait_for(asyncio.open_connection(self.host, self.port), 60)

    def _request(self, body: dict[str, Any] | bytes, length: int | None = None, chunked: bool = False) -> bytes:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        size = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {len(data) if length is None else length}"
        head = f"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{size}\r\n\r\n"
        return head.encode() + data


def _text(answer: bytes) -> str:
    text: str = json.loads(answer)["choices"][0]["text"]
    return text


async def _read(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    """The status and the body of an answer. Raises IncompleteReadError if it breaks off."""
    head = await reader.readuntil(b"\r\n\r\n")
    fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:] if line)
    status = int(head.split()[1])
    if (length := fields.get(b"content-length")) is not None:
        return status, await reader.readexactly(int(length))
    body = b""
    while size := int((await reader.readuntil(b"\r\n")).strip(), 16):
        body += (await reader.readexactly(size + 2))[:-2]
    await reader.readexactly(2)
    return status, body


def _reset(writer: asyncio.StreamWriter) -> None:
    """End the connection as that of a client that was killed."""
    connection: socket.socket = writer.get_extra_info("socket")
    with contextlib.suppress(OSError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
