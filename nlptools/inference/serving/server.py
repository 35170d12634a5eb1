"""The server: a socket, a worker and uvicorn."""

from __future__ import annotations

import socket

from nlptools import messages
from nlptools.configs import Compute
from nlptools.configs.serve import Serve
from nlptools.errors import Unavailable, reason

_GRACE = 5  # seconds that answers in hand have, when the server is to end


def run(path: str, settings: Serve, compute: Compute) -> None:
    """Serve the model in `path` until a signal ends the process.

    Raises:
        Unavailable: the packages are not installed, or the address cannot be listened on.
        InputError, BundleError, UsageError: see `Service.open`.
    """
    try:
        import uvicorn

        from nlptools.inference.serving.app import application
    except ImportError as error:
        raise Unavailable(f"serve needs the package {error.name}", extra="serve") from error
    from nlptools.inference.serving.service import Service
    from nlptools.inference.serving.worker import Worker

    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:  # before the model is read, which takes longer
        listening = socket.create_server((settings.host, settings.port), family=family)
    except OSError as error:
        raise Unavailable(f"cannot listen on {settings.host}, port {settings.port}: {reason(error)}") from error
    with listening:
        service = Service.open(path, settings, compute)
        with Worker(service.compute, batch_size=settings.batch_size, most_waiting=settings.most_waiting) as worker:
            host = f"[{settings.host}]" if ":" in settings.host else settings.host
            messages.note(f"{service.name}: http://{host}:{listening.getsockname()[1]}/v1")
            config = uvicorn.Config(
                application(service, worker, settings),
                log_level="warning",
                access_log=False,
                timeout_graceful_shutdown=_GRACE,
            )
            uvicorn.Server(config).run(sockets=[listening])
