"""Keys of clients, addresses that need them, and the memory that requests may take while they arrive."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient
from starlette.types import Message, Receive, Scope, Send

from nlptools.configs.serve import Serve
from nlptools.errors import DataError, InputError, UsageError
from nlptools.serving.access import ApiKeys, check_access, is_loopback
from nlptools.serving.app import application
from nlptools.serving.errors import Refused
from nlptools.serving.guards import SMALL, BodyBudget
from nlptools.serving.service import Service
from nlptools.serving.worker import Worker

KEYS = ["0123456789abcdef", "f" * 64]


@pytest.fixture
def client() -> Iterator[TestClient]:
    """A server with keys, and with a model that can do nothing."""
    settings = Serve(host="0.0.0.0", cors=("http://page.example",))
    with (
        Worker(lambda jobs: [], batch_size=1, most_waiting=1) as worker,
        TestClient(application(Service("none", None, None), worker, settings, ApiKeys(KEYS))) as client,
    ):
        yield client


def test_only_clients_with_a_key_are_answered(client: TestClient) -> None:
    for key in KEYS:
        for scheme in ("Bearer", "bearer", "BEARER "):
            assert client.get("/v1/models", headers={"authorization": f"{scheme} {key}"}).status_code == 200
    for header in (None, "", KEYS[0], "Bearer", "Bearer ", f"Bearer {KEYS[0]}x", f"Bearer {KEYS[0][:-1]}", "Bearer é"):
        headers = {} if header is None else {"authorization": header.encode()}
        posted = client.post("/v1/completions", headers=headers, content=b"[" * 100_000)
        for answer in (posted, client.get("/nothing", headers=headers)):
            error = answer.json()["error"]
            assert answer.status_code == 401 and answer.headers["www-authenticate"] == "Bearer"
            assert answer.headers["connection"] == "close"
            assert (error["type"], error["code"]) == ("invalid_request_error", "invalid_api_key")
    assert client.get("/health").json() == {"status": "ok"}


def test_a_browser_may_ask_without_a_key_what_it_may_send(client: TestClient) -> None:
    asks = {"access-control-request-method": "POST", "access-control-request-headers": "authorization"}
    page = {"origin": "http://page.example"}
    assert client.options("/v1/completions", headers={**page, **asks}).status_code == 200
    refused = client.post("/v1/completions", headers=page)
    assert refused.status_code == 401 and refused.headers["access-control-allow-origin"] == page["origin"]


def test_files_of_keys(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_text(f"{KEYS[0]}\r\n{KEYS[1]}")
    keys = ApiKeys.read(str(path))
    assert all(keys.admits(f"Bearer {key}".encode()) for key in KEYS)
    for content, message in (
        (b"", "no keys"),
        (b"0123456789abcde\n", "keys:1: not a key, expected 16"),
        (f"{KEYS[0]}\n\n".encode(), "keys:2: not a key"),
        (b"0123456789 abcdef\n", "keys:1: not a key"),
        ("0123456789abcdeé\n".encode(), "keys:1: not a key"),
        (b"\xff" * 20, "UTF-8"),
    ):
        path.write_bytes(content)
        with pytest.raises(DataError, match=message):
            ApiKeys.read(str(path))
    with pytest.raises(InputError):
        ApiKeys.read(str(tmp_path / "nothing"))


def test_addresses_that_other_machines_reach_need_keys() -> None:
    for host in ("127.0.0.1", "127.9.9.9", "::1", "localhost"):
        assert is_loopback(host)
        check_access(host, None)
    for host in ("0.0.0.0", "::", "192.168.0.1", "example.org", "127.0.0.1.example.org", "", "localhost.example"):
        assert not is_loopback(host)
        check_access(host, "keys")
        with pytest.raises(UsageError, match="there are no keys"):
            check_access(host, None)


def test_large_bodies_share_a_budget_and_small_ones_always_have_room() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        for _ in scope["sizes"]:
            await receive()
        scope["arrived"].set()
        await scope["go"].wait()

    async def send(message: Message) -> None: ...

    async def run() -> None:
        guard = BodyBudget(app, 1000)
        held, go, at_once = asyncio.Event(), asyncio.Event(), asyncio.Event()
        at_once.set()

        async def ask(*sizes: int, arrived: asyncio.Event = at_once, go: asyncio.Event = at_once) -> None:
            """Receive parts of these sizes; keep them until `go`."""
            parts = iter(sizes)

            async def receive() -> Message:
                return {"type": "http.request", "body": bytes(next(parts)), "more_body": True}

            await guard({"type": "http", "sizes": sizes, "arrived": arrived, "go": go}, receive, send)

        first = asyncio.create_task(ask(SMALL, 600, arrived=held, go=go))
        await held.wait()
        for sizes in ((SMALL + 401,), (SMALL, 300, 101)):
            with pytest.raises(Refused, match="large requests"):
                await ask(*sizes)
        await ask(SMALL + 400)
        await ask(1, SMALL - 1)
        go.set()
        await first
        await ask(SMALL + 1000)

    asyncio.run(run())
