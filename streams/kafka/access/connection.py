"""Connections to a broker: aiokafka's, with the current password, a limit on silence and a known refusal.

aiokafka opens all connections with `aiokafka.client.create_conn`, which `streams.kafka.patches` replaces with
`open_connection`, and it replaces `AIOKafkaClient.bootstrap`. What differs:

- The password is read again for each connection if it is a `Password`, so that a rotated one is used.
- The `Admission` in the options learns of the outcome: aiokafka logs refusals and retries forever.
- A connection with pending requests that receives nothing for `QUIET_SECONDS` is closed. aiokafka waits for
  the request timeout, which may be a whole rebalance; the member would lose its place in the group.
- If a broker refuses a token, its error is read; aiokafka treats the refusal as success (`_TokenLogin`).
- A bootstrap that is cancelled closes its connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
import logging
import math
import ssl
import time
import weakref
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import structlog
from aiokafka.conn import AIOKafkaConnection, CloseReason, OAuthAuthenticator
from aiokafka.errors import KafkaConnectionError
from aiokafka.protocol.admin import ApiVersionRequest, SaslHandShakeRequest
from aiokafka.protocol.commit import OffsetCommitRequest, OffsetFetchRequest
from aiokafka.protocol.coordination import FindCoordinatorRequest
from aiokafka.protocol.fetch import FetchRequest
from aiokafka.protocol.group import HeartbeatRequest
from aiokafka.protocol.metadata import MetadataRequest
from aiokafka.protocol.offset import OffsetRequest

from streams.errors import KafkaAccessError, SettingsError, TokenError
from streams.kafka.access.errors import explain
from streams.settings.base import read_secret
from streams.settings.broker import KafkaSettings

_log = structlog.stdlib.get_logger(__name__)

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
CARRIERS: Final = ("ssl_context", "sasl_plain_password", "sasl_oauth_token_provider")
"""Options of a client that carry its `Admission`, because aiokafka passes them on unchanged."""
REFUSED_SECONDS: Final = 60.0
"""A worker stops after refusals for this long; until then a rotated secret may still be distributed."""


class Admission:
    """Tracks whether the broker accepts connections. Used from several threads."""

    def __init__(self, kafka: KafkaSettings, now: Callable[[], float] = time.monotonic) -> None:
        self._kafka = kafka
        self._now = now
        self._refused_at: float | None = None
        self.trouble: str | None = None
        """Reason and remedy of the latest refusal; None before one, and after a successful connection."""
        self.on_refused: Callable[[KafkaAccessError], None] | None = None
        """Called for refusals once they have lasted `REFUSED_SECONDS`; None: refusals are not tracked."""

    def failed(self, error: BaseException) -> None:
        if self.on_refused is None:
            return
        explanation = explain(error, self._kafka)
        if explanation is None or not explanation.lasting:
            return
        now = self._now()
        self.trouble = str(explanation)
        if self._refused_at is None:
            self._refused_at = now
        _log.warning(
            "the broker refuses new connections", reason=explanation.reason, remedy=explanation.remedy
        )
        if now - self._refused_at >= REFUSED_SECONDS:
            self.on_refused(KafkaAccessError(explanation))

    def succeeded(self) -> None:
        if self._refused_at is not None:
            self._refused_at = self.trouble = None
            _log.info("the broker accepts connections again")


class Password:
    """The broker's current password: read again for each connection if it is in a file."""

    def __init__(self, kafka: KafkaSettings, env: Mapping[str, str] | None = None) -> None:
        self._kafka = kafka
        self._env = env
        self._last = self._resolve()

    def _resolve(self) -> str:
        password = read_secret(self._kafka.security.password, "kafka.security.password", self._env)
        return "" if password is None else password.get_secret_value()

    def read(self) -> str:
        try:
            self._last = self._resolve()
        except SettingsError as error:
            _log.warning("the password cannot be reread; keeping the last one", error=str(error))
        return self._last

    def __repr__(self) -> str:
        return "Password(**********)"


class _TokenLogin(OAuthAuthenticator):  # type: ignore[misc]  # aiokafka is not annotated
    """Logs in with a token, and reads the reason if the broker refuses it.

    The broker sends the error only after the client has acknowledged its message (RFC 7628, section 3.2.3).
    Without this step the connection seems open but answers nothing.
    """

    async def step(self, payload: bytes | None) -> tuple[str | bytes, bool] | None:
        following: tuple[str | bytes, bool] | None = await super().step(payload)
        return (b"\x01", True) if following is None and payload else following


@dataclass(slots=True)
class _Quiet:
    looks: int = 0
    """Below 0 while the broker throttles this client."""


class BrokerConnection(AIOKafkaConnection):  # type: ignore[misc]  # aiokafka is not annotated
    _was_open = False
    _quiet: _Quiet
    _next_look: asyncio.TimerHandle | None = None

    @property
    def tls(self) -> ssl.SSLObject | None:
        return None if self._writer is None else self._writer.get_extra_info("ssl_object")

    def authenticator_oauth(self) -> _TokenLogin:
        return _TokenLogin(sasl_oauth_token_provider=self._sasl_oauth_token_provider)

    async def connect(self) -> Any:
        """Connect; if that fails, wait until the connection is closed."""
        try:
            return await super().connect()
        except BaseException:
            await self.end()
            raise

    def send(self, *args: Any, **kwargs: Any) -> Any:
        """Send a request; the caller must await the result."""
        answer = super().send(*args, **kwargs)
        if self._next_look is None:
            self._quiet.looks = min(0, self._quiet.looks)
            self._look_later()
        return self._noting_quotas(answer)

    async def _noting_quotas(self, answer: Awaitable[Any]) -> Any:
        try:
            response = await answer
        except KafkaConnectionError as error:
            _note(error)
            raise
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

    def close(self, *args: Any, **kwargs: Any) -> Any:
        """Abort: a TLS shutdown would wait for the broker, and fail if a response came meanwhile."""
        if self._writer is not None:
            self._was_open = True
            self._writer.transport.abort()
        return super().close(*args, **kwargs)

    async def end(self) -> None:
        closed = self.close()
        if closed is not None and self._was_open:
            await asyncio.wait({closed}, timeout=1)


_opened: contextvars.ContextVar[weakref.WeakSet[BrokerConnection] | None] = contextvars.ContextVar(
    "opened", default=None
)
_errors: contextvars.ContextVar[list[BaseException] | None] = contextvars.ContextVar("errors", default=None)


@contextlib.contextmanager
def connection_errors() -> Iterator[list[BaseException]]:
    """Collect why connections of this task's clients fail: aiokafka logs it, and raises another error."""
    errors: list[BaseException] = []
    token = _errors.set(errors)
    try:
        yield errors
    finally:
        _errors.reset(token)


def _note(error: BaseException) -> None:
    if (errors := _errors.get()) is not None:
        errors.append(error)


async def open_connection(host: str, port: int, **options: Any) -> BrokerConnection:
    """Open one connection to a broker, and log in. The caller must await its `end`."""
    # Without TLS and login no connection is refused.
    carriers = (options.get(name) for name in CARRIERS)
    admission = next((one for carrier in carriers if (one := getattr(carrier, "admission", None))), None)
    password = options.get("sasl_plain_password")
    if isinstance(password, Password):
        options["sasl_plain_password"] = password.read()
    try:
        connection = BrokerConnection(host, port, **options)
        if (opened := _opened.get()) is not None:
            opened.add(connection)
        await connection.connect()
    except Exception as error:
        if admission is not None:
            admission.failed(error)
        _note(error)
        if isinstance(error, TokenError | ValueError):
            # ValueError: the broker's SCRAM signature is wrong. aiokafka retries only after its own errors.
            raise KafkaConnectionError(f"login failed at {host}:{port}: {error}") from error
        raise
    if admission is not None:
        admission.succeeded()
    return connection


def closing_bootstrap(bootstrap: Callable[[Any], Awaitable[None]]) -> Callable[[Any], Awaitable[None]]:
    """Wrap `AIOKafkaClient.bootstrap`: if it is cancelled, the connection is closed that only it knows."""

    @functools.wraps(bootstrap)
    async def closing(client: Any) -> None:
        opened: weakref.WeakSet[BrokerConnection] = weakref.WeakSet()
        token = _opened.set(opened)
        try:
            await bootstrap(client)
        except BaseException:
            for connection in tuple(opened):
                await connection.end()
            raise
        finally:
            _opened.reset(token)

    return closing


class WithoutLogins(logging.Filter):
    """Drops aiokafka's debug log lines about SASL requests, which contain credentials."""

    def filter(self, record: logging.LogRecord) -> bool:
        arguments = record.args if isinstance(record.args, tuple) else ()
        return not any(type(argument).__name__.startswith("SaslAuthenticate") for argument in arguments)
