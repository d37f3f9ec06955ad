"""One connection to a broker, with three fixes to aiokafka's.

- On uvloop, a request on a connection that was just closed raises a `KafkaConnectionError`.
- A connection with pending requests that receives nothing for `QUIET_SECONDS` is closed. aiokafka waits for
  the request timeout, which may be a whole rebalance; the member would lose its place in the group.
- If a broker refuses a token, its error is read; aiokafka treats the refusal as success (`_TokenLogin`).
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Awaitable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import structlog
from aiokafka.conn import AIOKafkaConnection, CloseReason, OAuthAuthenticator
from aiokafka.errors import KafkaConnectionError, KafkaError
from aiokafka.protocol.admin import ApiVersionRequest, SaslHandShakeRequest
from aiokafka.protocol.commit import OffsetCommitRequest, OffsetFetchRequest
from aiokafka.protocol.coordination import FindCoordinatorRequest
from aiokafka.protocol.fetch import FetchRequest
from aiokafka.protocol.group import HeartbeatRequest
from aiokafka.protocol.metadata import MetadataRequest
from aiokafka.protocol.offset import OffsetRequest

_log = structlog.stdlib.get_logger(__name__)

CLOSE_SECONDS: Final = 1.0
QUIET_SECONDS: Final = 8.0
"""Close a connection with pending requests after this time without received bytes: it is half-open."""
_LOOKS: Final = 4
"""Checks in `QUIET_SECONDS`. Checks are counted instead of time, which also passes while the process is
suspended."""
_ANSWERED_AT_ONCE: Final = frozenset(
    request.API_KEY
    for request in (
        *(ApiVersionRequest, SaslHandShakeRequest, MetadataRequest, FindCoordinatorRequest),
        *(HeartbeatRequest, OffsetCommitRequest, OffsetFetchRequest, FetchRequest, OffsetRequest),
    )
)
"""Requests that a broker answers at once. A join waits for other members, a write for other brokers."""


class _TokenLogin(OAuthAuthenticator):  # type: ignore[misc]  # aiokafka is not annotated
    """Logs in with a token, and reads the reason if the broker refuses it.

    A broker answers a refused token with a JSON message, and sends the error only after the client has
    acknowledged that message (RFC 7628, section 3.2.3). Without this step the connection seems open but
    answers nothing.
    """

    async def step(self, payload: bytes | None) -> tuple[str | bytes, bool] | None:
        """Return the next message to send, or None at the end."""
        following: tuple[str | bytes, bool] | None = await super().step(payload)
        return (b"\x01", True) if following is None and payload else following


@dataclass(slots=True)
class _Quiet:
    """Number of checks since the last bytes arrived."""

    looks: int = 0
    """Below 0 while the broker throttles this client."""


class Connection(AIOKafkaConnection):  # type: ignore[misc]  # aiokafka is not annotated
    """A connection to a broker, as aiokafka's clients use it."""

    _transport: asyncio.WriteTransport | None = None
    _quiet: _Quiet
    _next_look: asyncio.TimerHandle | None = None

    def authenticator_oauth(self) -> _TokenLogin:
        """Return the authenticator for tokens."""
        return _TokenLogin(sasl_oauth_token_provider=self._sasl_oauth_token_provider)

    async def connect(self) -> Any:
        """Connect; if that fails, abort the connection.

        aiokafka closes a connection whose login is refused but does not wait for the end. With TLS that needs
        the broker, which delays its reply to a refused client (100 ms and more).
        """
        try:
            return await super().connect()
        except BaseException:
            await self.end(abort=True)
            raise

    def send(self, *args: Any, **kwargs: Any) -> Any:
        """Send a request; the caller must await the result.

        Raises:
            KafkaConnectionError: The connection is closed, or the broker does not answer.
        """
        with self._as_closed():
            answer = super().send(*args, **kwargs)
        if self._next_look is None:
            self._quiet.looks = min(0, self._quiet.looks)
            self._look_later()
        return self._noting_quotas(answer)

    async def _noting_quotas(self, answer: Awaitable[Any]) -> Any:
        """Return the response; pause the checks while the broker throttles this client."""
        response = await answer
        if throttled_ms := getattr(response, "throttle_time_ms", 0):
            self._quiet.looks = -math.ceil(throttled_ms / 1000 * _LOOKS / QUIET_SECONDS)
        return response

    def _create_reader_task(self) -> Any:
        """Start the reader, and reset the checks when bytes arrive."""
        quiet, feed_data = _Quiet(), self._reader.feed_data

        def heard(data: bytes) -> None:
            quiet.looks = 0
            feed_data(data)

        self._quiet, self._reader.feed_data = quiet, heard
        return super()._create_reader_task()

    def _look_later(self) -> None:
        loop = asyncio.get_running_loop()
        self._next_look = loop.call_later(QUIET_SECONDS / _LOOKS, self._look)

    def _look(self) -> None:
        """Close the connection after too many checks without received bytes."""
        self._next_look = None
        owed = [getattr(request, "API_KEY", None) for _, request, _ in self._requests]
        if not owed:
            return
        self._quiet.looks = self._quiet.looks + 1 if _ANSWERED_AT_ONCE.issuperset(owed) else 0
        if self._quiet.looks < _LOOKS:
            self._look_later()
            return
        _log.warning(
            "the broker does not answer; reconnecting",
            broker=f"{self.host}:{self.port}",
            seconds=QUIET_SECONDS,
        )
        self.close(reason=CloseReason.CONNECTION_TIMEOUT)

    def _send_sasl_token(self, *args: Any, **kwargs: Any) -> Any:
        with self._as_closed():
            return super()._send_sasl_token(*args, **kwargs)

    @contextlib.contextmanager
    def _as_closed(self) -> Iterator[None]:
        """Translate uvloop's error for a closed connection into aiokafka's.

        Until aiokafka notices the close, uvloop raises a `RuntimeError` on write. aiokafka does not handle
        it, so the task that gets it (heartbeats, commits or metadata) would end for good.
        """
        try:
            yield
        except RuntimeError as error:
            if (
                isinstance(error, KafkaError)
                or self._writer is None
                or not self._writer.transport.is_closing()
            ):
                raise
            self.close(reason=CloseReason.CONNECTION_BROKEN)
            raise KafkaConnectionError(f"connection to {self.host}:{self.port} is closed") from error

    def close(self, *args: Any, **kwargs: Any) -> Any:
        """Start to close; the returned future, if any, completes when the connection is closed."""
        if self._writer is not None:
            self._transport = self._writer.transport
        return super().close(*args, **kwargs)

    async def end(self, *, abort: bool = False) -> None:
        """Close, and wait until the connection is closed.

        Args:
            abort: Skip the TLS shutdown. By default it is aborted after `CLOSE_SECONDS`.
        """
        closed = self.close()
        if closed is None or self._transport is None:  # never opened
            return
        if not abort:
            await asyncio.wait({closed}, timeout=CLOSE_SECONDS)
        if not closed.done():
            self._transport.abort()
            await asyncio.wait({closed}, timeout=CLOSE_SECONDS)
