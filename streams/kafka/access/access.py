"""Build the connection options of every Kafka client."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from aiokafka.helpers import create_ssl_context

from streams.errors import SettingsError
from streams.kafka.access.connection import CARRIERS, Admission, Password
from streams.kafka.access.tokens import open_tokens
from streams.kafka.patches import install
from streams.settings.base import read_secret
from streams.settings.broker import KafkaSettings, SecuritySettings
from streams.settings.certificates import RotatingContext


def client_options(
    kafka: KafkaSettings, env: Mapping[str, str] | None = None, admission: Admission | None = None
) -> dict[str, Any]:
    """Return the options of an aiokafka client. The admission learns of refused connections."""
    install()
    security = kafka.security
    options: dict[str, Any] = {
        "bootstrap_servers": kafka.bootstrap_servers,
        "security_protocol": security.protocol,
        "ssl_context": ssl_context(security, env),
    }
    if security.mechanism is not None:
        is_oauth = security.mechanism == "AWS_MSK_IAM"
        options["sasl_mechanism"] = "OAUTHBEARER" if is_oauth else security.mechanism
    if security.username is not None:
        options["sasl_plain_username"] = security.username
        options["sasl_plain_password"] = Password(kafka, env)
    tokens = open_tokens(security, tls=_trusting, env=env)
    if tokens is not None:
        options["sasl_oauth_token_provider"] = tokens
    for name in CARRIERS:
        if options.get(name) is not None:
            options[name].admission = admission
    return options


def ssl_context(security: SecuritySettings, env: Mapping[str, str] | None) -> RotatingContext | None:
    """Build the TLS context, which reloads changed files; None for a protocol without TLS."""
    if not security.protocol.endswith("SSL"):
        return None
    key_password = None if security.key_password is None else security.key_password.file
    named = (security.ca_file, security.certificate_file, security.key_file, key_password)
    files = [file for file in named if file is not None]
    return RotatingContext(lambda: _build(security, env), files)


def _build(security: SecuritySettings, env: Mapping[str, str] | None) -> ssl.SSLContext:
    password = read_secret(security.key_password, "kafka.security.key_password", env)
    places = (security.ca_file, security.certificate_file, security.key_file)
    ca_file, certificate, key = (None if file is None else str(file) for file in places)
    try:
        context: ssl.SSLContext = create_ssl_context(
            cafile=ca_file,
            certfile=certificate,
            keyfile=key,
            # Without any OpenSSL would ask for one on the terminal.
            password="" if password is None else password.get_secret_value(),
        )
    except (OSError, ValueError) as error:
        named = ", ".join(str(file) for file in places if file is not None) or "the system's store"
        locked = "" if key is None else ", and key_password_env or key_password_file if the key is encrypted"
        raise SettingsError(
            [f"kafka.security: certificates cannot be used ({error}); check {named}{locked}"]
        ) from None
    return context


def _trusting(ca_file: Path) -> RotatingContext:
    """Build the TLS context of the token endpoint, which trusts the system's authorities, too."""

    def build() -> ssl.SSLContext:
        try:
            context = ssl.create_default_context()
            context.load_verify_locations(ca_file)
        except (OSError, ValueError) as error:
            raise SettingsError(
                [f"kafka.security.ca_file: {ca_file} cannot be used ({error}); check it"]
            ) from None
        return context

    return RotatingContext(build, [ca_file])
