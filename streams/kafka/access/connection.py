"""One connection to a broker, as aiokafka's clients use it, with three differences.

- A request on a connection that has just ended fails as a failed connection, on uvloop, too.
- A connection on which a broker owes an answer and nothing arrives for `QUIET_SECONDS` is closed. aiokafka
  waits as long as a rebalance may take, and the place in the group is lost meanwhile.
- A broker that refuses a token is heard out: aiokafka takes the refusal for a welcome (`_TokenLogin`).
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
"""A broker that owes an answer and sends nothing for this long does not hear us: the connection is
half-open."""
_LOOKS: Final = 4
"""In `QUIET_SECONDS`. They are counted, not the time: a process that stood still has not listened."""
_ANSWERED_AT_ONCE: Final = frozenset(
    request.API_KEY
    for request in (
        *(ApiVersionRequest, SaslHandShakeRequest, MetadataRequest, FindCoordinatorRequest),
        *(HeartbeatRequest, OffsetCommitRequest, OffsetFetchRequest, FetchRequest, OffsetRequest),
    )
)
"""What a broker answers within moments. A join waits for other members, a write for other brokers."""


class _TokenLogin(OAuthAuthenticator):  # type: ignore[misc]  # aiokafka is not annotated
    """Logs in with a token, and asks for the reason where the broker does not take it.

    A broker answers a token that it refuses with a note of its own, and with the error only when the client
    has acknowledged that (RFC 7628, section 3.2.3). Without this the connection passes for open and answers
    nothing.
    """

    async def step(self, payload: bytes | None) -> tuple[str | bytes, bool] | None:
        """Give what is to be sent next, or None at the end."""
        following: tuple[str | bytes, bool] | None = await super().step(payload)
        return (b"\x01", True) if following is None and payload else following


@dataclass(slots=True)
class _Quiet:
    """How often was looked since something arrived."""

    looks: int = 0
    """Below 0 while the broker throttles."""


class Connection(AIOKafkaConnection):  # type: ignore[misc]  # aiokafka is not annotated
    """One connection to a broker, as aiokafka's clients use it."""

    _transport: asyncio.WriteTransport | None = None
    _quiet: _Quiet
    _next_look: asyncio.TimerHandle | None = None

    def authenticator_oauth(self) -> _TokenLogin:
        """Log in with a token."""
        return _TokenLogin(sasl_oauth_token_provider=self._sasl_oauth_token_provider)

    async def connect(self) -> Any:
        """Connect; where that fails nothing is left behind.

        aiokafka closes a connection whose login is refused and does not wait for its end, which with TLS is
        the broker's to give, and a broker takes its time over those that it refuses (100 ms and more). Nobody
        has anything to say any longer.
        """
        try:
            return await super().connect()
        except BaseException:
            await self.end(abort=True)
            raise

    def send(self, *args: Any, **kwargs: Any) -> Any:
        """Send a request; what is returned is to be awaited.

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
        """Give the answer; a broker that throttles says for how long it will not read what comes next."""
        response = await answer
        if throttled_ms := getattr(response, "throttle_time_ms", 0):
            self._quiet.looks = -math.ceil(throttled_ms / 1000 * _LOOKS / QUIET_SECONDS)
        return response

    def _create_reader_task(self) -> Any:
        """Begin to read, and note whenever something arrives, be it a part of an answer."""
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
        """Close the connection if the broker has been quiet for too long."""
        self._next_look = None
        owed = [getattr(request, "API_KEY", None) for _, request, _ in self._requests]
        if not owed:
            return
        self._quiet.looks = self._quiet.looks + 1 if _ANSWERED_AT_ONCE.issuperset(owed) else 0
        if self._quiet.looks < _LOOKS:
            self._look_later()
            return
        _log.warning(
            "the broker does not answer: connecting again",
            broker=f"{self.host}:{self.port}",
            seconds=QUIET_SECONDS,
        )
        self.close(reason=CloseReason.CONNECTION_TIMEOUT)

    def _send_sasl_token(self, *args: Any, **kwargs: Any) -> Any:
        with self._as_closed():
            return super()._send_sasl_token(*args, **kwargs)

    @contextlib.contextmanager
    def _as_closed(self) -> Iterator[None]:
        """Say in aiokafka's words that the connection is closed.

        Between its end and aiokafka's hearing of it uvloop refuses to write with a `RuntimeError`. aiokafka
        expects none: whatever task meets it ends, and with it heartbeats, commits or metadata, forever.
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
        """Begin to close; the future that is returned, if any, is done at the end."""
        if self._writer is not None:
            self._transport = self._writer.transport
        return super().close(*args, **kwargs)

    async def end(self, *, abort: bool = False) -> None:
        """Close, and wait until it is closed: TLS takes a moment.

        Args:
            abort: At once, without a farewell. Otherwise that happens after `CLOSE_SECONDS`.
        """
        closed = self.close()
        if closed is None or self._transport is None:  # never opened
            return
        if not abort:
            await asyncio.wait({closed}, timeout=CLOSE_SECONDS)
        if not closed.done():
            self._transport.abort()
            await asyncio.wait({closed}, timeout=CLOSE_SECONDS)
