"""Connections of the server."""

from __future__ import annotations

import socket
import threading
import time
from functools import partial

import pytest

pytest.importorskip("uvicorn", reason="needs the extra serve")
import uvicorn
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from nlptools.serving.connections import Connection

REQUEST = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"


def answer(address: tuple[str, int]) -> bytes:
    """What the server sends for a request."""
    with socket.create_connection(address, timeout=30) as client:
        client.sendall(REQUEST)
        return b"".join(iter(partial(client.recv, 1 << 16), b""))


def test_more_connections_than_allowed() -> None:
    app = Starlette(routes=[Route("/", lambda _: PlainTextResponse("here"))])
    listening = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(app, http=partial(Connection, 30, 30, 2), ws="none", log_level="error")  # type: ignore[arg-type]
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        address = listening.getsockname()
        assert answer(address).endswith(b"here")
        held = [socket.create_connection(address, timeout=30) for _ in range(2)]
        while len(server.server_state.connections) < 2:
            time.sleep(0.01)
        refused = answer(address)
        assert refused.startswith(b"HTTP/1.1 503 ") and b"too many connections" in refused
        held[0].close()
        while len(server.server_state.connections) > 1:
            time.sleep(0.01)
        assert answer(address).endswith(b"here")  # and the one that is still open
        held[1].sendall(REQUEST)
        assert held[1].recv(1 << 16).startswith(b"HTTP/1.1 200 ")
        held[1].close()
    finally:
        server.should_exit = True
        thread.join()
        listening.close()
