"""Opens every connection of aiokafka's clients with the current password, and notes refusals.

aiokafka opens all connections by one function, `aiokafka.client.create_conn`, which knows a password only as
the text that its client was built with, and whose errors the client turns into log lines and retries,
forever. `streams.kafka.patches` puts `open_connection` in its place, which

- reads the password again where it is a `Password`, so that one that was rotated holds for new connections;
- opens a `Connection` of ours (`streams.kafka.access.connection`);
- tells the `Admission` that came along what happened to the connection.

Clients that bring neither are served as before.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import structlog
from aiokafka.errors import KafkaConnectionError

from streams.errors import Explanation, KafkaAccessError, SettingsError, TokenError
from streams.kafka.access.connection import Connection
from streams.kafka.access.errors import explain
from streams.settings import KafkaSettings, resolve_password
from streams.settings.certificates import validity_of

_log = structlog.stdlib.get_logger(__name__)

REFUSED_SECONDS: Final = 60.0
"""So long a broker may refuse every new connection before a worker gives up: a rotated secret may come a
little late."""
TELL_SECONDS: Final = 15.0


class Admission:
    """Whether the broker connected: what happened to the latest connections. Used from several threads.

    Args:
        kafka: The settings that the clients are built from.
        now: The monotonic clock, in seconds.
    """

    def __init__(self, kafka: KafkaSettings, now: Callable[[], float] = time.monotonic) -> None:
        self._kafka = kafka
        self._now = now
        self._refused_at: float | None = None
        self._told_at = 0.0
        self.trouble: str | None = None
        """Why the latest connection was refused, and what to do; None if there is none, or since one
        succeeded.
        """
        self.on_refused: Callable[[KafkaAccessError], None] | None = None
        """Called when every connection was refused for `REFUSED_SECONDS`, at each further one. Without it
        nothing is noted: anyone who makes one try alone is notified of it anyway."""

    def failed(self, error: BaseException) -> None:
        """Note that a connection could not be opened."""
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
        """Note that a connection was opened."""
        if self._refused_at is not None:
            self._refused_at = self.trouble = None
            _log.info("the broker accepts connections again")


def ended_certificate(error: BaseException, kafka: KafkaSettings) -> Explanation | None:
    """Say when the client's certificate ended, where the broker refuses it: its own words rarely do.

    Args:
        error: What happened to a connection.
        kafka: The settings that it was opened with.

    Returns:
        Reason and remedy; None where the certificate holds, or the error is about something else.
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
    """The broker's password as it is now: read again at each connection where it stands in a file.

    Args:
        kafka: The settings.
        env: Environment variables; those of the process by default.

    Raises:
        SettingsError: It is not where the settings say.
    """

    def __init__(self, kafka: KafkaSettings, env: Mapping[str, str] | None = None) -> None:
        self._kafka = kafka
        self._env = env
        self._last = self._resolve()

    def _resolve(self) -> str:
        password = resolve_password(self._kafka.security, self._env)
        return "" if password is None else password.get_secret_value()

    def read(self) -> str:
        """Give the password; the last one where the file cannot be read just now."""
        try:
            self._last = self._resolve()
        except SettingsError as error:
            _log.warning("the password cannot be reread; keeping the last one", error=str(error))
        return self._last

    def __repr__(self) -> str:
        return "Password(**********)"


async def open_connection(host: str, port: int, **options: Any) -> Connection:
    """Open one connection to a broker, and log in. Anyone who opens it awaits its `end`.

    Args:
        host: Where.
        port: Where.
        options: As aiokafka's connections take them; the password may be a `Password`.
    """
    password = options.get("sasl_plain_password")
    if isinstance(password, Password):
        options["sasl_plain_password"] = password.read()
    # Carried in a field that the client passes on unchanged; a listener without TLS and login refuses no
    # client.
    carriers = (options.get("ssl_context"), options.get("sasl_oauth_token_provider"), password)
    admission = next((found for one in carriers if (found := getattr(one, "admission", None))), None)
    try:
        connection = Connection(host, port, **options)
        await connection.connect()
    except Exception as error:
        if admission is not None:
            admission.failed(error)
        if isinstance(error, TokenError | ValueError):
            # ValueError: the broker's part of SCRAM does not hold. aiokafka retries only after errors of
            # its own.
            raise KafkaConnectionError(f"no login at {host}:{port}: {error}") from error
        raise
    if admission is not None:
        admission.succeeded()
    return connection


class WithoutLogins(logging.Filter):
    """Keeps out what aiokafka says about single requests on the level debug when they carry a login."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Say whether a line is kept."""
        arguments = record.args if isinstance(record.args, tuple) else ()
        return not any(type(argument).__name__.startswith("SaslAuthenticate") for argument in arguments)
