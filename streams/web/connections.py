"""Connections to the port, limited in number and time so that health checks always succeed."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

import structlog
from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.web_protocol import RequestHandler

from streams.telemetry.traces import where

_log = structlog.stdlib.get_logger(__name__)

MAX_CONNECTIONS: Final = 128
"""Maximum concurrent connections.
A further one closes the oldest without a request; probes send theirs at once.
"""
REQUEST_SECONDS: Final = 5.0
"""Time limit for a request's headers, also between requests."""
CONNECTION_SECONDS: Final = 60.0
"""Maximum duration of a connection."""


class Connections:
    """The open connections.

    Args:
        headers: Headers of responses by the protocol itself, such as to an invalid request.
        most: Maximum number; at least 1.
        request_seconds: See `REQUEST_SECONDS`.
        connection_seconds: See `CONNECTION_SECONDS`.
    """

    def __init__(
        self,
        headers: Mapping[str, str],
        *,
        most: int = MAX_CONNECTIONS,
        request_seconds: float = REQUEST_SECONDS,
        connection_seconds: float = CONNECTION_SECONDS,
    ) -> None:
        self.headers = headers
        self.request_seconds = request_seconds
        self.connection_seconds = connection_seconds
        self._most = most
        # In order of arrival.
        self._open: dict[Connection, None] = {}

    def came(self, one: Connection) -> None:
        """Register a connection; above the limit, close another."""
        if len(self._open) >= self._most:
            oldest = next((other for other in self._open if other.is_waiting), next(iter(self._open)))
            oldest.abort()
            self.went(oldest)
        self._open[one] = None

    def went(self, one: Connection) -> None:
        """Unregister a connection."""
        self._open.pop(one, None)

    def accept(self, server: web.Server, **options: Any) -> Connection:
        """Build the protocol of a new connection."""
        return Connection(self, server, **options)


class Connection(RequestHandler):
    """One connection.

    Args:
        connections: All open connections.
        server: The request handler.
        **options: Options of aiohttp's handler.
    """

    __slots__ = ("_connections", "_deadlines", "_heard")

    def __init__(self, connections: Connections, server: web.Server, **options: Any) -> None:
        loop = asyncio.get_running_loop()
        super().__init__(server, loop=loop, keepalive_timeout=connections.request_seconds, **options)
        self._connections = connections
        self._heard = False
        self._deadlines: list[asyncio.TimerHandle] = []

    @property
    def is_waiting(self) -> bool:
        """Whether it has no request in progress."""
        return self._current_request is None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Register the connection and start its timers."""
        super().connection_made(transport)
        self._connections.came(self)
        loop = asyncio.get_running_loop()
        self._deadlines = [
            loop.call_later(self._connections.request_seconds, self._abort_unheard),
            loop.call_later(self._connections.connection_seconds, self.abort),
        ]

    def connection_lost(self, exc: BaseException | None) -> None:
        """Unregister the connection."""
        for deadline in self._deadlines:
            deadline.cancel()
        self._connections.went(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read data; the headers' timer ends when they are complete."""
        super().data_received(data)
        self._heard = self._heard or bool(self._messages) or self._current_request is not None

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Answer an invalid or failed request without details of server or request."""
        answer = super().handle_error(request, status, exc, message)
        if isinstance(answer, web.Response):
            answer.text = f"{status}\n"
        answer.content_type = "text/plain"
        answer.headers.update(self._connections.headers)
        answer.headers["Server"] = "judgestream"
        return answer

    def log_exception(self, *args: Any, **kwargs: Any) -> None:
        """Log invalid requests at level debug only; log our own errors by type and place."""
        error = kwargs.get("exc_info")
        if isinstance(error, BaseException) and not isinstance(error, HttpProcessingError):
            _log.error("request failed", error=type(error).__name__, where=where(error))
        _log.debug("request failed", exc_info=error, about=[str(one)[:200] for one in args])

    def abort(self) -> None:
        """Close the connection at once."""
        if self.transport is not None:
            self.transport.abort()

    def _abort_unheard(self) -> None:
        if not self._heard:
            self.abort()
