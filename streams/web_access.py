"""Who gets at the worker's port, and how: user and password, and TLS."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import ipaddress
import os
import ssl
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final

import structlog
from pydantic import SecretStr

from streams.errors import SettingsError
from streams.settings import BasicAuthSettings, TelemetrySettings, TlsSettings, resolve_secret

_log = structlog.stdlib.get_logger(__name__)

LOOK_SECONDS: Final = 1.0
"""Files are looked at this often at most, and only while somebody asks."""
MAX_HEADER_CHARS: Final = 4096
"""A longer Authorization header is not even decoded."""


class _Watched:
    """Files that say whether they have changed since they were last read."""

    def __init__(self, files: Iterable[Path], clock: Callable[[], float]) -> None:
        self._files = tuple(files)
        self._clock = clock
        self._looked_at = clock()
        self._seen = self._stamps()

    def changed(self) -> bool:
        """Whether to read them again. A mounted secret is a link to a link: its target counts."""
        now = self._clock()
        if now - self._looked_at < LOOK_SECONDS:
            return False
        self._looked_at = now
        stamps = self._stamps()
        if stamps == self._seen:
            return False
        self._seen = stamps
        return True

    def _stamps(self) -> tuple[tuple[int, int, int] | None, ...]:
        return tuple(_stamp(file) for file in self._files)


def _stamp(file: Path) -> tuple[int, int, int] | None:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


class BasicAuth:
    """Checks the Authorization header of RFC 7617.

    Args:
        settings: User, and where the password is; its file is read anew when it changes.
        env: Environment variables.
        clock: Gives seconds and never goes back.

    Raises:
        SettingsError: The password is not where the settings say.
    """

    CHALLENGE: Final = 'Basic realm="judgestream", charset="UTF-8"'

    def __init__(
        self,
        settings: BasicAuthSettings,
        env: Mapping[str, str],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._env = env
        self._files = _Watched([] if settings.password_file is None else [settings.password_file], clock)
        self._expected = self._digest()

    def admits(self, header: str | None) -> bool:
        """Whether a request with this header may pass; takes as long for a wrong password as for a nearly right one."""
        if self._files.changed():
            try:
                self._expected = self._digest()
            except SettingsError as error:
                _log.warning("the password is not read anew, the one before stays", error=str(error))
        # Both are hashed first: a comparison of texts would tell how long the right one is.
        return hmac.compare_digest(hashlib.sha256(_credentials(header)).digest(), self._expected)

    def _digest(self) -> bytes:
        password = resolve_password(self._settings, self._env).get_secret_value()
        return hashlib.sha256(f"{self._settings.username}:{password}".encode()).digest()


def _credentials(header: str | None) -> bytes:
    """User and password as sent; empty, which is nobody's, where there are none."""
    scheme, _, encoded = (header or "").partition(" ")
    if scheme.lower() != "basic" or len(encoded) > MAX_HEADER_CHARS:
        return b""
    try:
        return base64.b64decode(encoded.strip().encode("ascii"), validate=True)
    except (binascii.Error, UnicodeEncodeError):
        return b""


def resolve_password(settings: BasicAuthSettings, env: Mapping[str, str] | None = None) -> SecretStr:
    """Fetch the page's password.

    Raises:
        SettingsError: It is not where the settings say.
    """
    password = resolve_secret(
        "telemetry.basic_auth.password",
        value=settings.password,
        env_name=settings.password_env,
        file=settings.password_file,
        env=env,
    )
    if password is None:  # the settings refuse this before
        raise SettingsError(["telemetry.basic_auth.password_env: is required; set it or password_file"])
    return password


class ServerTls:
    """The port's TLS; a certificate that was renewed is used from the next connection on.

    Args:
        settings: The files.
        clock: Gives seconds and never goes back.

    Raises:
        SettingsError: A file cannot be used.
    """

    def __init__(self, settings: TlsSettings, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._settings = settings
        named = (settings.certificate_file, settings.key_file, settings.client_ca_file)
        self._files = _Watched([file for file in named if file is not None], clock)
        self._current = _server_context(settings)
        self.context = _server_context(settings)
        """To listen with."""
        self.context.sni_callback = self._choose  # is asked at every handshake, with a name and without

    def _choose(self, connection: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> None:
        if self._files.changed():
            try:
                self._current = _server_context(self._settings)
            except SettingsError as error:
                _log.warning("certificates are not read anew, those before stay", error=str(error))
            else:
                _log.info("certificates read anew", file=str(self._settings.certificate_file))
        connection.context = self._current


def _server_context(settings: TlsSettings) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # A resumed session would outlive the certificates that it was begun with.
    context.num_tickets = 0
    context.options |= ssl.OP_NO_TICKET
    try:
        context.load_cert_chain(settings.certificate_file, settings.key_file, password=_no_password)
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        raise SettingsError(
            [
                (
                    f"telemetry.tls: certificate_file {settings.certificate_file} and key_file {settings.key_file} cannot "
                    f"be used ({_why(error)}); check paths, rights and that they belong together"
                )
            ]
        ) from None
    if settings.client_ca_file is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        try:
            context.load_verify_locations(settings.client_ca_file)
        except (OSError, ValueError) as error:
            raise SettingsError(
                [
                    (
                        f"telemetry.tls.client_ca_file: {settings.client_ca_file} cannot be used ({_why(error)}); "
                        "check the path and that it holds certificates (PEM)"
                    )
                ]
            ) from None
    return context


def _no_password() -> str:
    # Otherwise OpenSSL asks on the terminal, and a service hangs.
    raise ValueError("the key is encrypted; use one without a password")


def _why(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        return error.reason or "no PEM"
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def open_access(
    telemetry: TelemetrySettings, env: Mapping[str, str] | None = None
) -> tuple[BasicAuth | None, ServerTls | None]:
    """Build what guards the port.

    Args:
        telemetry: The section `telemetry`.
        env: Environment variables; those of the process by default.

    Returns:
        What asks for user and password, and TLS; None each where the settings name none.

    Raises:
        SettingsError: A password or file is not where the settings say.
    """
    env = os.environ if env is None else env
    auth, tls = telemetry.basic_auth, telemetry.tls
    return (
        None if auth is None else BasicAuth(auth, env),
        None if tls is None else ServerTls(tls),
    )


def is_loopback(host: str) -> bool:
    """Whether only this machine gets at an address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
