"""How to get into the broker, for Faust and for aiokafka's own clients."""

from __future__ import annotations

import ssl
from typing import Any

from aiokafka.helpers import create_ssl_context
from faust.auth import SASLCredentials, SSLCredentials

from streams.errors import SettingsError
from streams.settings import KafkaSettings, SecuritySettings, resolve_password


def ssl_context(security: SecuritySettings) -> ssl.SSLContext | None:
    """Build the TLS context; None where the protocol has no TLS.

    Raises:
        SettingsError: A certificate or key cannot be used.
    """
    if not security.protocol.endswith("SSL"):
        return None
    files = {
        "cafile": security.ca_file,
        "certfile": security.certificate_file,
        "keyfile": security.key_file,
    }
    try:
        context: ssl.SSLContext = create_ssl_context(
            **{name: None if file is None else str(file) for name, file in files.items()}
        )
    except (OSError, ssl.SSLError) as error:
        named = ", ".join(str(file) for file in files.values() if file is not None) or "the system's store"
        raise SettingsError(
            [f"kafka.security: certificates cannot be used ({error}); check {named}"]
        ) from None
    return context


def client_options(kafka: KafkaSettings) -> dict[str, Any]:
    """Give the arguments that every aiokafka client takes.

    Raises:
        SettingsError: A secret or certificate is not where the settings say.
    """
    security = kafka.security
    password = resolve_password(security)
    options: dict[str, Any] = {
        "bootstrap_servers": kafka.bootstrap_servers,
        "security_protocol": security.protocol,
        "ssl_context": ssl_context(security),
    }
    if security.mechanism is not None:
        options |= {
            "sasl_mechanism": security.mechanism,
            "sasl_plain_username": security.username,
            "sasl_plain_password": None if password is None else password.get_secret_value(),
        }
    return options


def faust_credentials(kafka: KafkaSettings) -> SASLCredentials | SSLCredentials | None:
    """Give what Faust wants to be told; None for a broker that is open.

    Raises:
        SettingsError: A secret or certificate is not where the settings say.
    """
    options = client_options(kafka)
    if "sasl_mechanism" in options:
        return SASLCredentials(
            username=options["sasl_plain_username"],
            password=options["sasl_plain_password"],
            mechanism=options["sasl_mechanism"],
            ssl_context=options["ssl_context"],
        )
    if options["ssl_context"] is not None:
        return SSLCredentials(options["ssl_context"])
    return None
