"""The processes of a distributed run: joining, and the error when one of them ends before the others."""

from __future__ import annotations

import atexit
import contextlib
import os
import socket
import threading
import time
import traceback
from collections.abc import Iterator
from datetime import timedelta
from itertools import count
from typing import TYPE_CHECKING

import torch
import torch.distributed as dist

from nlptools.compute import heartbeat
from nlptools.compute.heartbeat import Heartbeat, Listener
from nlptools.errors import Stopped, Unavailable

if TYPE_CHECKING:
    from torch.distributed.distributed_c10d import Store

# The heartbeat finds processes that end or hang. A longer wait is legitimate: the main process reads the text meanwhile.
_COLLECTIVE = timedelta(days=7)
_hearts: list[Heartbeat] = []  # of this process, once it has joined
_joined = count()


def join(device: torch.device, rank: int, world_size: int) -> None:
    """Join the other processes at the address in MASTER_ADDR and MASTER_PORT.

    Raises:
        Unavailable: there is no address, or no answer in time.
    """
    kind = "nccl" if device.type == "cuda" else "gloo"
    options = {"device_id": device} if device.type == "cuda" else {}
    # the store and the group of PyTorch wait without a limit, for example if another program answers at the address
    late = _refused(rank, f"no answer for {heartbeat.limit()} seconds")
    timer = threading.Timer(heartbeat.limit() + heartbeat.GRACE, heartbeat.end_process, [late])
    timer.daemon = True
    timer.start()
    until = time.monotonic() + heartbeat.limit()
    try:
        store = _store(rank, world_size, until)
        _hearts[:] = [_meet(store, rank, world_size, until)]
        dist.init_process_group(
            kind,
            store=store,
            rank=rank,
            world_size=world_size,
            timeout=_COLLECTIVE,
            **options,  # type: ignore[arg-type]
        )
    except (OSError, ValueError, RuntimeError) as error:
        raise _refused(rank, " ".join(str(error).split())[:200]) from None
    finally:
        timer.cancel()


def _refused(rank: int, why: str) -> Unavailable:
    hint = "start the command with torchrun or srun: they set RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT"
    return Unavailable(f"rank {rank} cannot join the other processes: {why}", hint=hint)


def _store(rank: int, world_size: int, until: float) -> Store:
    """The key-value store of the processes, which the main one serves, or torchrun. Raises ValueError, OSError, RuntimeError."""
    for variable in ("MASTER_ADDR", "MASTER_PORT"):
        if variable not in os.environ:
            raise ValueError(f"environment variable {variable} is not set")
    host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    serves = rank == 0 and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True"
    if not serves:
        _wait_for(host, port, until)
    timeout = timedelta(seconds=heartbeat.limit())
    store = dist.TCPStore(host, port, world_size, serves, timeout, wait_for_workers=False)  # type: ignore[attr-defined]
    return dist.PrefixStore(  # type: ignore[attr-defined]
        f"nlptools/{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}/{next(_joined)}", store
    )


def _wait_for(host: str, port: int, until: float) -> None:
    """Wait until the store is served: its client writes long messages meanwhile. Raises OSError."""
    while True:
        try:
            socket.create_connection((host, port), heartbeat.limit()).close()
            return
        except OSError as error:
            if time.monotonic() > until:
                text = f"no answer from {host}:{port} for {heartbeat.limit()} seconds ({error.strerror or error})"
                raise OSError(text) from None
            time.sleep(0.1)


def _meet(store: Store, rank: int, world_size: int, until: float) -> Heartbeat:
    """Wait for all processes, and begin to exchange signs of life. Raises OSError, RuntimeError."""
    listener = Listener() if rank == 0 else None
    store.set(f"rank/{rank}", f"{listener.address if listener is not None else ''}\n{socket.gethostname()}")
    keys = [f"rank/{other}" for other in range(world_size)]
    while missing := [key.removeprefix("rank/") for key in keys if not store.check([key])]:
        if time.monotonic() > until:
            ranks = f"rank{'s' * (len(missing) > 1)} {', '.join(missing[:10])}{', …' * (len(missing) > 10)}"
            raise OSError(f"no sign of {ranks} for {heartbeat.limit()} seconds")
        time.sleep(0.05)
    known = [entry.decode().split("\n") for entry in store.multi_get(keys)]
    if listener is not None:
        peers = listener.accept(world_size, until + 1)
    else:
        peers = heartbeat.connect(os.environ["MASTER_ADDR"], known[0][0], rank)
    heart = Heartbeat(rank, peers, [host for _, host in known])
    heart.start()
    atexit.register(heart.leave, 0)
    return heart


@contextlib.contextmanager
def communication(rank: int) -> Iterator[None]:
    """Context in which a process communicates with all others.

    Raises:
        Stopped: another process was killed, or has ended with the exit status of an error, which this one takes over; the
            message has its rank.
    """
    try:
        yield
    except torch.OutOfMemoryError:
        raise
    except RuntimeError as error:
        traceback.clear_frames(error.__traceback__)  # the frames hold the process group
        if dist.get_backend() == "gloo":
            dist.destroy_process_group()  # unblocks the processes that wait for this one
        lost = _hearts[0].error() or Stopped(
            f"rank {rank}: the connection to another process is lost",
            hint="the same command continues from the last checkpoint",
        )
        raise lost from error


def leave(status: int) -> None:
    """Leave the other processes, which learn that this one ends with the exit status `status`."""
    if dist.is_initialized():
        dist.destroy_process_group()
    for heart in _hearts:
        heart.leave(status)
