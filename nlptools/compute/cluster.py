"""The processes of a distributed run: joining, and the report when one of them ends before the others."""

from __future__ import annotations

import contextlib
import os
import socket
import time
import traceback
from collections.abc import Iterable, Iterator
from typing import Any

import torch
import torch.distributed as dist

from nlptools.errors import Stopped, Unavailable

_GRACE = 5.0  # seconds for the remaining processes to report to each other
_stores: list[Any] = []  # the key-value store with which the processes have joined


def join(device: torch.device, rank: int, world_size: int) -> None:
    """Join the other processes at the address in MASTER_ADDR and MASTER_PORT.

    Raises:
        Unavailable: there is no address, or no answer.
    """
    kind = "nccl" if device.type == "cuda" else "gloo"
    options = {"device_id": device} if device.type == "cuda" else {}
    try:
        store, rank, world_size = next(dist.rendezvous("env://", rank, world_size))  # type: ignore[attr-defined]
        dist.init_process_group(kind, store=store, rank=rank, world_size=world_size, **options)  # type: ignore[arg-type]
    except (ValueError, RuntimeError) as error:
        text = " ".join(str(error).split())[:200]
        hint = "start the command with torchrun or srun: they set RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT"
        raise Unavailable(f"rank {rank} cannot join the other processes: {text}", hint=hint) from None
    _stores[:] = [store]


@contextlib.contextmanager
def communication(rank: int, world_size: int) -> Iterator[None]:
    """Context in which a process communicates with all others.

    Raises:
        Stopped: another process has ended; the message has its rank.
    """
    try:
        yield
    except torch.OutOfMemoryError:
        raise
    except RuntimeError as error:
        traceback.clear_frames(error.__traceback__)  # the frames hold the process group
        missing = [str(other) for other in _missing(rank, world_size) if other != rank]
        plural = "s" if len(missing) > 1 else ""
        who = f"rank{plural} {', '.join(missing)}" if missing else "another process"
        raise Stopped(
            f"rank {rank}: the connection to {who} is lost", hint="the same command continues from the last checkpoint"
        ) from error


def _missing(rank: int, world_size: int) -> list[int]:
    """The ranks that do not report within a few seconds; returns at once when all but one have reported."""
    if dist.get_backend() == "gloo":
        dist.destroy_process_group()  # unblocks the processes that wait for this one
    until = time.monotonic() + _GRACE
    try:
        # check the server first: the store itself writes long messages to standard error when it has no server
        socket.create_connection((os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])), _GRACE).close()
        missing = _report("lost", rank, range(world_size), 1, until)
        if rank == 0:  # it may serve the store, so it waits until the others have read it
            _report("known", rank, [other for other in range(world_size) if other not in missing], 0, until)
        else:
            _report("known", rank, [], 0, until)
    except (OSError, RuntimeError):
        return [0]
    return missing


def _report(what: str, rank: int, ranks: Iterable[int], most: int, until: float) -> list[int]:
    """Report under the key `what`, then wait until at most `most` of `ranks` are missing; returns the missing ones."""
    store = _stores[0]
    store.set(f"{what}/{rank}", "")
    while True:
        missing = [other for other in ranks if not store.check([f"{what}/{other}"])]
        if len(missing) <= most or time.monotonic() > until:
            return missing
        time.sleep(0.02)
