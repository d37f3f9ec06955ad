"""Basic authentication and TLS of HTTP ports."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
import ssl
from collections.abc import Mapping
from typing import Final

import structlog
from pydantic import SecretStr

from streams.errors import SettingsError
from streams.settings import BasicAuthSettings, TelemetrySettings, TlsSettings, resolve_secret
from streams.settings.certificates import RotatingContext

_log = structlog.stdlib.get_logger(__name__)

MAX_HEADER_CHARS: Final = 4096
"""A longer Authorization header is not decoded."""


class BasicAuth:
    """Checks the Authorization header of RFC 7617.

    Args:
        settings: User and source of the password; a file is read each time, so a rotated password works at
            once.
        env: Environment variables.

    Raises:
        SettingsError: The password is missing.
    """

    CHALLENGE: Final = 'Basic realm="judgestream", charset="UTF-8"'

    def __init__(self, settings: BasicAuthSettings, env: Mapping[str, str]) -> None:
        self._settings = settings
        self._env = env
        self._expected = self._digest()
        self._complained = False

    def admits(self, header: str | None) -> bool:
        """Return whether a request with this header is allowed, in constant time for any wrong password."""
        if self._settings.password_file is not None:
            self._reread()
        # Compare hashes: comparing the texts would reveal the password's length.
        return hmac.compare_digest(hashlib.sha256(_credentials(header)).digest(), self._expected)

    def _reread(self) -> None:
        try:
            self._expected = self._digest()
        except SettingsError as error:
            if not self._complained:
                _log.warning("the password cannot be read again; keeping the old one", error=str(error))
            self._complained = True
        else:
            self._complained = False

    def _digest(self) -> bytes:
        password = resolve_password(self._settings, self._env).get_secret_value()
        return hashlib.sha256(f"{self._settings.username}:{password}".encode()).digest()


def _credentials(header: str | None) -> bytes:
    """Return user and password of a header; empty if there are none."""
    scheme, _, encoded = (header or "").partition(" ")
    if scheme.lower() != "basic" or len(encoded) > MAX_HEADER_CHARS:
        return b""
    try:
        return base64.b64decode(encoded.strip().encode("ascii"), validate=True)
    except (binascii.Error, UnicodeEncodeError):
        return b""


def resolve_password(settings: BasicAuthSettings, env: Mapping[str, str] | None = None) -> SecretStr:
    """Return the page's password.

    Raises:
        SettingsError: It is missing.
    """
    password = resolve_secret(
        "telemetry.basic_auth.password",
        value=settings.password,
        env_name=settings.password_env,
        file=settings.password_file,
        env=env,
    )
    if password is None:  # the settings prevent this
        raise SettingsError(["telemetry.basic_auth.password_env: is required; set it or password_file"])
    return password


def server_tls(settings: TlsSettings) -> RotatingContext:
    """Build the port's TLS; new connections use a renewed certificate.

    Raises:
        SettingsError: A file cannot be used.
    """
    named = (settings.certificate_file, settings.key_file, settings.client_ca_file)
    return RotatingContext(lambda: _server_context(settings), [file for file in named if file is not None])


def _server_context(settings: TlsSettings) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # A resumed session would continue with old certificates.
    context.num_tickets = 0
    context.options |= ssl.OP_NO_TICKET
    try:
        context.load_cert_chain(settings.certificate_file, settings.key_file, password=_no_password)
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        raise SettingsError(
            [
                (
                    f"telemetry.tls: certificate_file {settings.certificate_file} and key_file "
                    f"{settings.key_file} cannot "
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
                        f"telemetry.tls.client_ca_file: {settings.client_ca_file} cannot be used "
                        f"({_why(error)}); "
                        "check the path and that it contains certificates (PEM)"
                    )
                ]
            ) from None
    return context


def _no_password() -> str:
    # Otherwise OpenSSL prompts on the terminal and the service hangs.
    raise ValueError("the key is encrypted; use one without a password")


def _why(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        return error.reason or "no PEM"
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def open_access(
    telemetry: TelemetrySettings, env: Mapping[str, str] | None = None
) -> tuple[BasicAuth | None, ssl.SSLContext | None]:
    """Build the port's authentication and TLS.

    Args:
        telemetry: The section `telemetry`.
        env: Environment variables; those of the process by default.

    Returns:
        Basic authentication and TLS context; each None if the settings name none.

    Raises:
        SettingsError: A password or file is missing.
    """
    env = os.environ if env is None else env
    auth, tls = telemetry.basic_auth, telemetry.tls
    return (
        None if auth is None else BasicAuth(auth, env),
        None if tls is None else server_tls(tls),
    )
