"""Errors as OpenAI's API writes them: JSON objects."""

from __future__ import annotations

import json
from collections.abc import Mapping

from starlette.datastructures import MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

# the codes by which OpenAI's clients tell errors apart: (status, key of the request) -> code
_CODES = {(404, "model"): "model_not_found", (401, None): "invalid_api_key"}


def error_object(message: str, status: int, key: str | None = None) -> dict[str, object]:
    """The object of an error; `key` is the one of the request that is wrong."""
    kind = "invalid_request_error" if status < 500 else "server_error"
    code = _CODES.get((status, key))
    return {"error": {"message": _encodable(message), "type": kind, "param": key and _encodable(key), "code": code}}


def _encodable(text: str) -> str:
    """`text`, which may repeat half a surrogate pair of a request, as UTF-8 can encode it."""
    return text.encode("utf-8", "backslashreplace").decode()


class Refused(Exception):
    """A request that is answered with an error."""

    def __init__(
        self, status: int, message: str, key: str | None = None, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.response = JSONResponse(error_object(message, status, key), status, headers)


class JsonErrors:
    """Middleware that makes JSON objects of errors that other middleware writes as plain text."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        begun: Message | None = None  # the beginning of a plain answer, held back until its text arrives

        async def changed(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start" and message["status"] >= 400 and _is_plain(message):
                begun = message
            elif begun is not None:
                body = json.dumps(error_object(message.get("body", b"").decode(), begun["status"])).encode()
                headers = MutableHeaders(raw=begun["headers"])
                headers["content-type"], headers["content-length"] = "application/json", str(len(body))
                start, begun = begun, None
                await send(start)
                await send({"type": "http.response.body", "body": body})
            else:
                await send(message)

        await self.app(scope, receive, changed)


def _is_plain(message: Message) -> bool:
    return MutableHeaders(raw=message["headers"]).get("content-type", "").startswith("text/plain")
