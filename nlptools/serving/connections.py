"""Connections of the server: their number is limited, and each request has to arrive, and its answer has to be read, in time.

uvicorn has a limit for connections that are idle between two requests only, so that a client could hold one for ever with a byte
a second.
"""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from nlptools.serving.errors import error_object

_PATIENCE = 1  # seconds that a connection beyond the limit may stay


class Connection(H11Protocol):
    """A connection with a limit of `limit` seconds per request.

    The head of a request that has not arrived by then is answered with status 408. The application answers late bodies; a
    client that has not read its answer `grace` seconds after the limit is left. With more than `most` connections, the new one
    is answered with status 503.
    """

    def __init__(self, limit: float, grace: float, most: int, **options: Any) -> None:
        super().__init__(**options)
        self.limit, self.grace, self.most = limit, grace, most
        self._request: RequestResponseCycle | None = None  # the one in hand
        self._alarm: asyncio.TimerHandle | None = None
        self._refused = False  # as one too many

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """See asyncio.Protocol."""
        super().connection_made(transport)
        self._watch()
        self._refused = len(self.connections) > self.most
        if self._refused:
            self.loop.call_later(_PATIENCE, self.transport.abort)  # without a request until then

    def data_received(self, data: bytes) -> None:
        """See asyncio.Protocol."""
        if self._refused:  # only now: a client that still writes when the connection is closed may not read the answer
            self._refuse(503, "too many connections")
        else:
            super().data_received(data)

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio.Protocol."""
        if self._alarm is not None:
            self._alarm.cancel()
        super().connection_lost(exc)

    def handle_events(self) -> None:
        """See H11Protocol: called for new data, and after an answer for data that came before its end."""
        super().handle_events()
        self._watch()

    def on_response_complete(self) -> None:
        """See H11Protocol."""
        super().on_response_complete()
        self._watch()

    def _watch(self) -> None:
        """Set the alarm again when a request begins or ends."""
        cycle: RequestResponseCycle | None = self.cycle
        request = None if cycle is None or cycle.response_complete else cycle
        if self._alarm is None or request is not self._request:
            if self._alarm is not None:
                self._alarm.cancel()
            self._request = request
            self._alarm = self.loop.call_later(self.limit + (self.grace if request else 0), self._overdue)

    def _overdue(self) -> None:
        if self._request is None and not self.transport.is_closing() and self.conn.trailing_data[0]:
            self._refuse(408, f"no whole request within {self.limit:g} seconds")
            return
        if self.transport.get_write_buffer_size():  # the client reads no answer: the system must not keep it either
            connection = self.transport.get_extra_info("socket")
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.transport.abort()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is not HTTP."""
        self._refuse(400, msg)

    def _refuse(self, status: int, message: str) -> None:
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):  # an answer is under way
            self.transport.abort()
            return
        body = json.dumps(error_object(message, status)).encode()
        headers = [("content-type", "application/json"), ("content-length", str(len(body))), ("connection", "close")]
        for event in (h11.Response(status_code=status, headers=headers), h11.Data(data=body), h11.EndOfMessage()):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()
