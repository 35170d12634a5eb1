"""serve with many clients at once, some of them slow, broken or greedy: the others get their answers, in constant memory."""

from __future__ import annotations

import asyncio
import os
import signal
import statistics
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from conftest import Record, Run
from serving_load import Load

from tests.cli.test_serve import serving

SECONDS = float(os.environ.get("LOAD_SECONDS", "60"))  # of the long test


def memory(pid: int) -> int:
    """The resident memory of a process, in bytes."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def descriptors(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def load(words: Path, server: list[str], clients: int, seconds: float, record: Record) -> tuple[Load, list[int]]:
    """Clients at work for so long, and the memory of the server before that, at its half and at the end.

    Before, those that behave well are alone for a fifth of the time. No request may be lost.
    """
    with serving(words, server, "--most-body", "1M") as (address, process):
        place = urlsplit(address)
        assert place.hostname and place.port
        clients_at_work, taken = Load(place.hostname, place.port, 1 << 20), []

        async def run() -> int:
            await clients_at_work.learn()
            before = descriptors(process.worker)
            for bad, share in ((False, 0.2), (True, 0.5), (True, 0.5)):
                clients_at_work.seconds = []
                await clients_at_work.run(clients, seconds * share, bad)
                await asyncio.sleep(0.2)
                taken.append(memory(process.worker))
                waited = statistics.quantiles(clients_at_work.seconds, n=100)
                for percent in (50, 99):
                    name = "with bad ones" if bad else "alone"
                    record(
                        f"seconds that {percent} of 100 good clients waited at most, {name}",
                        round(waited[percent - 1], 3),
                    )
            return before

        before = asyncio.run(run())
        until = time.monotonic() + 30
        while descriptors(process.worker) > before and time.monotonic() < until:
            time.sleep(0.1)
        assert descriptors(process.worker) <= before, "connections are left open"
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=30)
        assert (process.returncode, errors) == (-signal.SIGTERM, "")
    record("count", clients_at_work.accepted)
    record("lost", len(clients_at_work.wrong))
    for when, size in zip(("start", "half", "end"), taken, strict=True):
        record(f"memory at the {when}, MB", size >> 20)
    print(*sorted(clients_at_work.outcomes.items()), taken, sep="\n")
    return clients_at_work, taken


def test_thirty_clients(words: Path, fork_server: list[str], record_property: Record) -> None:
    clients, _ = load(words, fork_server, 30, 1, record_property)
    assert not clients.wrong
    for kind in ("good: answered", "stream: answered", "slow: answered", "broken: left", "silent: left"):
        assert clients.outcomes[kind], kind
    assert sum(n for outcome, n in clients.outcomes.items() if outcome.startswith("oversized")) > 0


@pytest.mark.slow
def test_a_thousand_clients(words: Path, fork_server: list[str], record_property: Record) -> None:
    clients, (_, half, end) = load(words, fork_server, 1000, SECONDS, record_property)
    assert not clients.wrong and clients.outcomes["good: answered"] >= 375
    assert end - half < 32 << 20


def test_an_address_for_other_machines_needs_keys(call: Run, words: Path, tmp_path: Path) -> None:
    done = call("serve", words, "--host", "0.0.0.0", "--port", 0)
    assert done.code == 2 and "lets other machines connect" in done.err and "--api-key-file FILE" in done.err
    (tmp_path / "keys").write_text("short\n")
    done = call("serve", words, "--host", "0.0.0.0", "--port", 0, "--api-key-file", "keys")
    assert done.code == 65 and done.err.startswith("nlptools serve: keys:1: not a key")
