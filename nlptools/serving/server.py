"""The server: a socket, a worker and uvicorn."""

from __future__ import annotations

import logging
import resource
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from nlptools import messages
from nlptools.configs import Compute
from nlptools.configs.serve import Serve
from nlptools.configs.units import duration
from nlptools.errors import Unavailable, reason
from nlptools.serving.access import ApiKeys, check_access

_GRACE = 5  # seconds that answers in hand have, when the server is to end
_MOST_FILES, _OTHER_FILES = 1 << 16, 64  # open ones, and those that are no connections


def run(path: str, settings: Serve, compute: Compute) -> None:
    """Serve the model in `path` until a signal ends the process.

    Raises:
        Unavailable: the packages are not installed, or the address cannot be listened on.
        UsageError: other machines could connect, and there are no keys.
        DataError: see `ApiKeys.read`.
        InputError, BundleError, UsageError: see `Service.open`.
    """
    check_access(settings.host, settings.api_key_file)
    keys = None if settings.api_key_file is None else ApiKeys.read(settings.api_key_file)
    try:
        import uvicorn

        from nlptools.serving.app import GRACE, application
        from nlptools.serving.connections import Connection
    except ImportError as error:
        raise Unavailable(f"serve needs the package {error.name}", extra="serve") from error
    from nlptools.serving.service import Service
    from nlptools.serving.worker import Worker

    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:  # before the model is read, which takes longer
        listening = socket.create_server((settings.host, settings.port), family=family)
    except OSError as error:
        raise Unavailable(f"cannot listen on {settings.host}, port {settings.port}: {reason(error)}") from error
    with listening, _broken_pipes_ignored():
        service = Service.open(path, settings, compute)
        with Worker(service.compute, batch_size=settings.batch_size, most_waiting=settings.most_waiting) as worker:
            host = f"[{settings.host}]" if ":" in settings.host else settings.host
            messages.note(f"{service.name}: http://{host}:{listening.getsockname()[1]}/v1")
            config = uvicorn.Config(
                application(service, worker, settings, keys),
                http=partial(Connection, duration(settings.timeout), 2 * GRACE, _most_connections()),  # type: ignore[arg-type]
                ws="none",
                log_level="error",
                access_log=False,
                timeout_graceful_shutdown=_GRACE,
            )
            logging.getLogger("asyncio").setLevel(logging.ERROR)  # else a line for each write to a client that has left
            uvicorn.Server(config).run(sockets=[listening])


def _most_connections() -> int:
    """As many as the process may open files, less those that answers need."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, _MOST_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        soft = wanted
    return max(1, (wanted if soft == resource.RLIM_INFINITY else soft) - _OTHER_FILES)


@contextmanager
def _broken_pipes_ignored() -> Iterator[None]:
    """A client that leaves ends its own connection, not the process, which SIGPIPE would end."""
    before = signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGPIPE, before)
