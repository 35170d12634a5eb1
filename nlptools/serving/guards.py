"""Middleware in front of the application: keys, and the memory that requests take while they arrive."""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from nlptools.serving.access import ApiKeys
from nlptools.serving.errors import Refused, error_object

OPEN = ("/health",)  # what load balancers ask without a key
SMALL = 64 << 10  # bytes of a body that always have room


class RequireKey:
    """Answers requests without a key of `keys` with status 401, before their body is read."""

    def __init__(self, app: ASGIApp, keys: ApiKeys) -> None:
        self.app, self.keys = app, keys

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        if scope["type"] == "http" and scope["path"] not in OPEN:
            given = Headers(scope=scope).get("authorization")
            if not self.keys.admits(None if given is None else given.encode("latin-1")):
                message = "no valid API key, expected the header Authorization: Bearer KEY"
                headers = {"www-authenticate": "Bearer", "connection": "close"}
                await JSONResponse(error_object(message, 401), 401, headers)(scope, receive, send)
                return
        await self.app(scope, receive, send)


class BodyBudget:
    """Bounds the memory of all request bodies: beyond the first `SMALL` bytes of each, they share `most` bytes.

    A request takes its part from the first byte to the end of its answer. A request that needs more than is left gets status
    503, so small requests are answered however many large ones arrive.
    """

    def __init__(self, app: ASGIApp, most: int) -> None:
        self.app, self.most = app, most
        self._taken = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        received = taken = 0

        async def counted() -> Message:
            nonlocal received, taken
            message = await receive()
            received += len(message.get("body", b""))
            more = max(0, received - SMALL) - taken
            if self._taken + more > self.most:
                raise Refused(503, "too many large requests are arriving", headers={"connection": "close"})
            taken += more
            self._taken += more
            return message

        try:
            await self.app(scope, counted, send)
        finally:
            self._taken -= taken
