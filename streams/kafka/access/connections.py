"""Open every connection of aiokafka's clients with the current password, and track refusals.

aiokafka opens all connections with `aiokafka.client.create_conn`. It uses the password that the client was
built with, and the client logs its errors and retries forever. `streams.kafka.patches` replaces it with
`open_connection`, which

- reads the password again if it is a `Password`, so that new connections use a rotated one;
- opens a `Connection` (`streams.kafka.access.connection`);
- reports the outcome to the `Admission` in the options.

It also replaces `AIOKafkaClient.bootstrap`, which leaves a connection open if it is cancelled.

For clients without either, it works as before.
"""

from __future__ import annotations

import contextvars
import functools
import logging
import time
import weakref
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import structlog
from aiokafka.errors import KafkaConnectionError

from streams.errors import Explanation, KafkaAccessError, SettingsError, TokenError
from streams.kafka.access.connection import Connection
from streams.kafka.access.errors import explain
from streams.settings import KafkaSettings, read_secret
from streams.settings.certificates import validity_of

_log = structlog.stdlib.get_logger(__name__)

_opened: contextvars.ContextVar[weakref.WeakSet[Connection] | None] = contextvars.ContextVar(
    "opened", default=None
)
"""The connections of the client that is bootstrapping in this task."""
REFUSED_SECONDS: Final = 60.0
"""A worker stops after refusals for this long; until then a rotated secret may still be distributed."""
TELL_SECONDS: Final = 15.0


class Admission:
    """Tracks whether the broker accepts connections. Used from several threads.

    Args:
        now: The monotonic clock, in seconds.
    """

    def __init__(self, kafka: KafkaSettings, now: Callable[[], float] = time.monotonic) -> None:
        self._kafka = kafka
        self._now = now
        self._refused_at: float | None = None
        self._told_at = 0.0
        self.trouble: str | None = None
        """Reason and remedy of the latest refusal; None before one, and after a successful connection."""
        self.on_refused: Callable[[KafkaAccessError], None] | None = None
        """Called for every refusal once refusals have lasted `REFUSED_SECONDS`. If None, refusals are not
        tracked: a caller with a single try gets the error itself."""

    def failed(self, error: BaseException) -> None:
        """Record that a connection failed."""
        if self.on_refused is None:
            return
        explanation = ended_certificate(error, self._kafka) or explain(error, self._kafka)
        if explanation is None or not explanation.lasting:
            return
        now = self._now()
        self.trouble = str(explanation)
        if self._refused_at is None:
            self._refused_at = now
            self._tell(explanation, now)
        elif now - self._told_at >= TELL_SECONDS:
            self._tell(explanation, now)
        if now - self._refused_at >= REFUSED_SECONDS:
            self.on_refused(KafkaAccessError(explanation))

    def _tell(self, explanation: Explanation, now: float) -> None:
        self._told_at = now
        _log.warning(
            "the broker refuses new connections", reason=explanation.reason, remedy=explanation.remedy
        )

    def succeeded(self) -> None:
        """Record that a connection was opened."""
        if self._refused_at is not None:
            self._refused_at = self.trouble = None
            _log.info("the broker accepts connections again")


def ended_certificate(error: BaseException, kafka: KafkaSettings) -> Explanation | None:
    """Explain a refusal by the validity of the client's certificate; brokers rarely report it.

    Returns:
        Reason and remedy; None if the certificate is valid or the error has another cause.
    """
    file = kafka.security.certificate_file
    found = explain(error, kafka)
    if file is None or (found is not None and found.kind != "certificate"):
        return None
    try:
        validity = validity_of(file)
    except (OSError, ValueError):
        return None
    now = datetime.now(UTC)
    if validity.begins <= now <= validity.ends:
        return None
    what = (
        f"has expired on {validity.ends:%Y-%m-%d %H:%M} UTC"
        if now > validity.ends
        else f"is not valid before {validity.begins:%Y-%m-%d %H:%M} UTC"
    )
    return Explanation(
        "certificate",
        f"the certificate in kafka.security.certificate_file ({file}) {what}",
        "renew it (the file is read again for each connection), and check this machine's clock",
    )


class Password:
    """The broker's current password: read again for each connection if it is in a file.

    Args:
        env: Environment variables; those of the process by default.

    Raises:
        SettingsError: The password is missing.
    """

    def __init__(self, kafka: KafkaSettings, env: Mapping[str, str] | None = None) -> None:
        self._kafka = kafka
        self._env = env
        self._last = self._resolve()

    def _resolve(self) -> str:
        password = read_secret(self._kafka.security.password, "kafka.security.password", self._env)
        return "" if password is None else password.get_secret_value()

    def read(self) -> str:
        """Return the password; the last one if the file cannot be read."""
        try:
            self._last = self._resolve()
        except SettingsError as error:
            _log.warning("the password cannot be reread; keeping the last one", error=str(error))
        return self._last

    def __repr__(self) -> str:
        return "Password(**********)"


async def open_connection(host: str, port: int, **options: Any) -> Connection:
    """Open one connection to a broker, and log in. The caller must await its `end`.

    Args:
        options: Options of aiokafka's connections; the password may be a `Password`.
    """
    password = options.get("sasl_plain_password")
    if isinstance(password, Password):
        options["sasl_plain_password"] = password.read()
    # The client passes these options on unchanged. Without TLS and login no connection is refused.
    carriers = (options.get("ssl_context"), options.get("sasl_oauth_token_provider"), password)
    admission = next((found for one in carriers if (found := getattr(one, "admission", None))), None)
    try:
        connection = Connection(host, port, **options)
        if (opened := _opened.get()) is not None:
            opened.add(connection)
        await connection.connect()
    except Exception as error:
        if admission is not None:
            admission.failed(error)
        if isinstance(error, TokenError | ValueError):
            # ValueError: the broker's SCRAM signature is wrong. aiokafka retries only after its own errors.
            raise KafkaConnectionError(f"login failed at {host}:{port}: {error}") from error
        raise
    if admission is not None:
        admission.succeeded()
    return connection


def closing_bootstrap(bootstrap: Callable[[Any], Awaitable[None]]) -> Callable[[Any], Awaitable[None]]:
    """Wrap `AIOKafkaClient.bootstrap`: if it is cancelled, the connection that it opened is closed.

    aiokafka keeps that connection in a local variable while it waits for the metadata, so the client's own
    `close` does not find it.
    """

    @functools.wraps(bootstrap)
    async def closing(client: Any) -> None:
        opened: weakref.WeakSet[Connection] = weakref.WeakSet()
        token = _opened.set(opened)
        try:
            await bootstrap(client)
        except BaseException:
            for connection in tuple(opened):
                await connection.end(abort=True)
            raise
        finally:
            _opened.reset(token)

    return closing


class WithoutLogins(logging.Filter):
    """Drops aiokafka's debug log lines about SASL requests, which contain credentials."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether the line is kept."""
        arguments = record.args if isinstance(record.args, tuple) else ()
        return not any(type(argument).__name__.startswith("SaslAuthenticate") for argument in arguments)
