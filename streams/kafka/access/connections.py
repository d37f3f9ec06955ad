"""Opens every connection of aiokafka's clients with the current password, and notes refusals.

aiokafka opens all connections by one function, `aiokafka.client.create_conn`, which knows a password only as
the text that its client was built with, and whose errors the client turns into log lines and tries again, for
ever. `streams.kafka.patches` puts `open_connection` in its place, which

- reads the password again where it is a `Password`, so that one that was rotated holds for new connections;
- has a request on a connection that has just ended fail as a failed connection, on uvloop, too
  (`Connection.send`);
- hears a broker out that refuses a token: aiokafka takes the refusal for a welcome (`_TokenLogin`);
- tells the `Admission` that came along what became of the connection.

Clients that bring neither are served as before.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import structlog
from aiokafka.conn import AIOKafkaConnection, CloseReason, OAuthAuthenticator
from aiokafka.errors import KafkaConnectionError, KafkaError

from streams.errors import Explanation, KafkaAccessError, SettingsError, TokenError
from streams.kafka.access.errors import explain
from streams.settings import KafkaSettings, resolve_password
from streams.settings.certificates import validity_of

_log = structlog.stdlib.get_logger(__name__)

REFUSED_SECONDS: Final = 60.0
"""So long a broker may refuse every new connection before a worker gives up: a rotated secret may come a
little late."""
TELL_SECONDS: Final = 15.0
CLOSE_SECONDS: Final = 1.0


class Admission:
    """Whether the broker lets us in: what became of the latest connections. Used from several threads.

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
        """Why the latest connection was refused, and what to do; None while there is none, or since one was
        let in."""
        self.on_refused: Callable[[KafkaAccessError], None] | None = None
        """Called when every connection was refused for `REFUSED_SECONDS`, at each further one. Without it
        nothing is noted: anyone who makes one try alone hears of it anyway."""

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
        error: What became of a connection.
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
        "renew it (a changed file is read again for each connection), and check this machine's clock",
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
            _log.warning("the password cannot be read again, the last one goes on", error=str(error))
        return self._last

    def __repr__(self) -> str:
        return "Password(**********)"


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


class Connection(AIOKafkaConnection):  # type: ignore[misc]  # aiokafka is not annotated
    """One connection to a broker, as aiokafka's clients use it."""

    _transport: asyncio.WriteTransport | None = None

    def authenticator_oauth(self) -> _TokenLogin:
        """Log in with a token."""
        return _TokenLogin(sasl_oauth_token_provider=self._sasl_oauth_token_provider)

    async def connect(self) -> Any:
        """Connect; where that fails nothing is left behind.

        aiokafka closes a connection whose login is refused and does not wait for its end, which with TLS is
        the broker's to give, and a broker takes its time over those that it refuses (100 ms and more). Nobody
        has anything to say any more.
        """
        try:
            return await super().connect()
        except BaseException:
            await self.end(abort=True)
            raise

    def send(self, *args: Any, **kwargs: Any) -> Any:
        """Send a request; what is returned is to be awaited.

        Raises:
            KafkaConnectionError: The connection is closed.
        """
        with self._as_closed():
            return super().send(*args, **kwargs)

    def _send_sasl_token(self, *args: Any, **kwargs: Any) -> Any:
        with self._as_closed():
            return super()._send_sasl_token(*args, **kwargs)

    @contextlib.contextmanager
    def _as_closed(self) -> Iterator[None]:
        """Say in aiokafka's words that the connection is closed.

        Between its end and aiokafka's hearing of it uvloop refuses to write with a `RuntimeError`. aiokafka
        expects none: whatever task meets it ends, and with it heartbeats, commits or metadata, for ever.
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
    # Carried by what the client hands on untouched; a listener without TLS and login refuses nobody.
    carriers = (options.get("ssl_context"), options.get("sasl_oauth_token_provider"), password)
    admission = next((found for one in carriers if (found := getattr(one, "admission", None))), None)
    try:
        connection = Connection(host, port, **options)
        await connection.connect()
    except Exception as error:
        if admission is not None:
            admission.failed(error)
        if isinstance(error, TokenError | ValueError):
            # ValueError: the broker's part of SCRAM does not hold. aiokafka tries again only after errors of
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
