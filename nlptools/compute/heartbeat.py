"""Signs of life between the processes of a run: each learns which other process has ended or hangs.

The main process has a connection to each other process. Once a second both ends send a line: an empty one as a sign of life,
or `RANK STATUS` when a process ends. A connection that closes without a status means that the process was killed; a process
that sends nothing for `limit()` seconds is stopped, or its machine is gone.

A process that waits for a message of another cannot be interrupted, so the thread here ends the process if its main thread
does not end it within a few seconds.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import selectors
import socket
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nlptools import environment, messages
from nlptools.errors import NlptoolsError, Stopped
from nlptools.files import atomic

GRACE = 5.0  # seconds for the main thread to end the process
_BEAT = 1.0  # seconds between signs of life
_LOST, _SILENT = -1, -2  # instead of an exit status
# another process that has ended must not end this one by SIGPIPE, before it has its own status; macOS has no such flag
_NO_SIGNAL: int = vars(socket).get("MSG_NOSIGNAL", 0)


def limit() -> int:
    """Seconds without a sign of life, or without joining, after which a process counts as lost."""
    return max(2, environment.number("NLPTOOLS_PROCESS_TIMEOUT", 120))


def end_process(error: NlptoolsError) -> None:
    """End this process with an error, from a thread, while the main thread cannot be interrupted."""
    atomic.undo()
    messages.error(str(error), error.hint)
    os._exit(error.exit_code)


@dataclass(frozen=True)
class End:
    """The end of a process."""

    rank: int
    status: int  # exit status, or why there is none

    def error(self, own: int, hosts: Sequence[str]) -> Stopped:
        """The error with which the process `own` ends."""
        who = f"rank {self.rank} (host {hosts[self.rank]})"
        if self.status >= 0:
            return Stopped(f"rank {own}: {who} has ended with status {self.status}", exit_code=self.status)
        lost = f"the connection to {who} is lost"
        silent = f"{who} has not answered for {limit()} seconds"
        text = lost if self.status == _LOST else silent
        return Stopped(f"rank {own}: {text}", hint="the same command continues from the last checkpoint")


class Listener:
    """Where the main process accepts the connections of the others."""

    def __init__(self) -> None:
        both = socket.has_dualstack_ipv6()
        family = socket.AF_INET6 if both else socket.AF_INET
        self._socket = socket.create_server(("", 0), family=family, dualstack_ipv6=both, backlog=1024)
        self._token = secrets.token_hex(16)

    @property
    def address(self) -> str:
        """The port, and a secret by which the other processes prove that they belong to the run."""
        return f"{self._socket.getsockname()[1]} {self._token}"

    def accept(self, world_size: int, until: float) -> dict[int, socket.socket]:
        """The connections of the other processes, by rank. Raises OSError at the time `until`."""
        peers: dict[int, socket.socket] = {}
        with self._socket:
            while len(peers) < world_size - 1:
                self._socket.settimeout(max(0.01, until - time.monotonic()))
                peer, _ = self._socket.accept()
                peer.settimeout(max(0.01, until - time.monotonic()))
                with contextlib.suppress(ValueError, OSError):  # a stranger
                    token, rank = peer.makefile("r", encoding="ascii").readline(100).split(" ")
                    if secrets.compare_digest(token, self._token):
                        peers[int(rank)] = peer
        return peers


def connect(host: str, address: str, rank: int) -> dict[int, socket.socket]:
    """The connection to the main process, which listens at `address`. Raises OSError."""
    port, token = address.split(" ")
    peer = socket.create_connection((host, int(port)), limit())
    peer.sendall(f"{token} {rank}\n".encode())
    return {0: peer}


class Heartbeat(threading.Thread):
    """The thread that sends and receives signs of life.

    Args:
        peers: the connections to the processes of these ranks.
        hosts: the host name of each process.
    """

    def __init__(self, rank: int, peers: Mapping[int, socket.socket], hosts: Sequence[str]) -> None:
        super().__init__(daemon=True, name="heartbeat")
        self.rank, self.hosts = rank, hosts
        self._peers = dict(peers)
        self._quiet = dict.fromkeys(peers, 0.0)  # seconds since the last sign of life
        self._rest = dict.fromkeys(peers, b"")  # the beginning of a line
        self._end: End | None = None
        self._ended, self._leaving = threading.Event(), threading.Event()
        os.register_at_fork(after_in_child=self._close)  # else the connections stay open when this process is killed

    def error(self) -> Stopped | None:
        """The error for the end of another process, or None if none ends within a few seconds. The caller ends the process."""
        self._ended.wait(GRACE)
        self._leaving.set()
        return None if self._end is None else self._end.error(self.rank, self.hosts)

    def leave(self, status: int) -> None:
        """Tell the other processes that this one ends."""
        if not self._leaving.is_set() or self._end is None:
            self._send(f"{self.rank} {status}\n")
        self._leaving.set()

    def run(self) -> None:
        """Exchange signs of life until this process leaves, or another one has ended."""
        before = sent = time.monotonic()
        with selectors.DefaultSelector() as ready:
            for rank, peer in self._peers.items():
                peer.setblocking(False)
                ready.register(peer, selectors.EVENT_READ, rank)
            while self._peers and self._end is None and not self._leaving.is_set():
                heard = [int(key.data) for key, _ in ready.select(_BEAT)]
                now = time.monotonic()
                for rank in self._quiet:  # the time in which this process was stopped itself does not count
                    self._quiet[rank] += min(now - before, 2 * _BEAT)
                before = now
                for rank in heard:
                    self._receive(rank, ready)
                if now - sent >= _BEAT:
                    self._send("\n")
                    sent = now
                for rank in [rank for rank in self._peers if self._quiet[rank] > limit()]:
                    self._note(End(rank, _SILENT))
        if self._end is not None and not self._leaving.wait(GRACE):
            end_process(self._end.error(self.rank, self.hosts))

    def _receive(self, rank: int, ready: selectors.BaseSelector) -> None:
        peer = self._peers[rank]
        data = b""
        with contextlib.suppress(OSError):
            data = peer.recv(1 << 12)
        self._quiet[rank] = 0.0
        *lines, self._rest[rank] = (self._rest[rank] + data).split(b"\n")
        ends = [End(*map(int, line.split())) for line in lines if line]
        left = [end for end in ends if end.status in (0, Stopped.exit_code)]
        for end in [end for end in ends if end not in left] or ([] if data or left else [End(rank, _LOST)]):
            self._note(end)
        if left or not data:
            ready.unregister(peer)
            self._peers.pop(rank).close()

    def _note(self, end: End) -> None:
        """Remember that a process has ended; the main process tells the others."""
        if self._end is None:
            self._end = end
            if self.rank == 0:
                self._send(f"{end.rank} {end.status}\n")
            self._ended.set()

    def _send(self, text: str) -> None:
        for peer in list(self._peers.values()):
            with contextlib.suppress(OSError):  # noticed when it is read
                peer.sendall(text.encode(), _NO_SIGNAL)

    def _close(self) -> None:
        for peer in self._peers.values():
            peer.close()
