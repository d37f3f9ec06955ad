"""Build the connection options of every Kafka client."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from aiokafka.helpers import create_ssl_context

from streams.errors import SettingsError
from streams.kafka.access.connection import Admission, Password
from streams.kafka.access.tokens import open_tokens
from streams.kafka.patches import install
from streams.settings import KafkaSettings, SecuritySettings, read_secret
from streams.settings.certificates import RotatingContext

_MECHANISMS: Final = {"AWS_MSK_IAM": "OAUTHBEARER"}
"""SASL mechanism names that differ from the name in the settings."""


class Access:
    """Credentials and TLS for clients. May be shared by clients in several threads.

    Args:
        env: Environment variables; those of the process by default.
    """

    def __init__(self, kafka: KafkaSettings, env: Mapping[str, str] | None = None) -> None:
        install()
        security = kafka.security
        self.admission = Admission(kafka)
        self._options: dict[str, Any] = {
            "bootstrap_servers": kafka.bootstrap_servers,
            "security_protocol": security.protocol,
            "ssl_context": self._carrying(ssl_context(security, env)),
        }
        if security.mechanism is not None:
            self._options["sasl_mechanism"] = _MECHANISMS.get(security.mechanism, security.mechanism)
        if security.username is not None:
            self._options["sasl_plain_username"] = security.username
            self._options["sasl_plain_password"] = self._carrying(Password(kafka, env))
        tokens = open_tokens(security, tls=_trusting, env=env)
        if tokens is not None:
            self._options["sasl_oauth_token_provider"] = self._carrying(tokens)

    def _carrying(self, carrier: Any) -> Any:
        if carrier is not None:
            carrier.admission = self.admission
        return carrier

    def client_options(self) -> dict[str, Any]:
        """Return the options that every aiokafka client takes."""
        return dict(self._options)


def client_options(kafka: KafkaSettings, env: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return the options that every aiokafka client takes."""
    return Access(kafka, env).client_options()


def ssl_context(security: SecuritySettings, env: Mapping[str, str] | None = None) -> RotatingContext | None:
    """Build the TLS context, which reloads changed files; None for a protocol without TLS."""
    if not security.protocol.endswith("SSL"):
        return None
    key_password = None if security.key_password is None else security.key_password.file
    named = (security.ca_file, security.certificate_file, security.key_file, key_password)
    files = [file for file in named if file is not None]
    return RotatingContext(lambda: _build(security, env), files)


def _build(security: SecuritySettings, env: Mapping[str, str] | None) -> ssl.SSLContext:
    password = read_secret(security.key_password, "kafka.security.key_password", env)
    files = {
        "cafile": security.ca_file,
        "certfile": security.certificate_file,
        "keyfile": security.key_file,
    }
    asked = False

    def key_password() -> str:
        # Without a callback OpenSSL would prompt on the terminal.
        nonlocal asked
        asked = True
        return "" if password is None else password.get_secret_value()

    try:
        context: ssl.SSLContext = create_ssl_context(
            **{name: None if file is None else str(file) for name, file in files.items()},
            password=key_password,
        )
    except (OSError, ValueError) as error:
        if asked:
            what = "is encrypted" if password is None else "cannot be decrypted with this password"
            raise SettingsError(
                [
                    (
                        f"kafka.security.key_file: {security.key_file} {what}; set key_password_env or "
                        "key_password_file"
                    )
                ]
            ) from None
        named = ", ".join(str(file) for file in files.values() if file is not None) or "the system's store"
        raise SettingsError(
            [f"kafka.security: certificates cannot be used ({error}); check {named}"]
        ) from None
    return context


def _trusting(ca_file: Path) -> RotatingContext:
    """Build the TLS context of the token endpoint, which has its own certificate authority."""

    def build() -> ssl.SSLContext:
        try:
            return ssl.create_default_context(cafile=str(ca_file))
        except (OSError, ValueError) as error:
            raise SettingsError(
                [f"kafka.security.oauth.ca_file: {ca_file} cannot be used ({error}); check it"]
            ) from None

    return RotatingContext(build, [ca_file])
