"""Explain why the broker refuses access: one sentence of reason, and the remedy."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

from aiokafka.errors import (
    ClusterAuthorizationFailedError,
    GroupAuthorizationFailedError,
    IllegalSaslStateError,
    InvalidTimestampError,
    SaslAuthenticationFailed,
    TopicAuthorizationFailedError,
    UnsupportedSaslMechanismError,
)

from judge.text.printable import printable
from streams.errors import (
    Explanation,
    KafkaAccessError,
    LoginWantedError,
    StreamsError,
    TokenError,
    WrongProtocolError,
)
from streams.settings import KafkaSettings

MAX_QUOTE_CHARS: Final = 200
_MAX_CHAIN: Final = 20
DENIED: Final = (
    ClusterAuthorizationFailedError,
    GroupAuthorizationFailedError,
    TopicAuthorizationFailedError,
)
"""Errors for a missing permission; retries fail until it is granted."""


def explain(error: BaseException, kafka: KafkaSettings) -> Explanation | None:
    """Explain an error of a Kafka client.

    Args:
        error: The error; its causes are examined, too.

    Returns:
        Reason and remedy; None if the error is unrelated to access.
    """
    links = _links(error)
    # Our own errors are the most specific; among other errors, the root cause is.
    ours = [one for one in links if isinstance(one, StreamsError)]
    for one in [*ours, *reversed(links)]:
        for kind, explain_one in _EXPLAINERS:
            if isinstance(one, kind):
                found = explain_one(one, kafka)
                if found is not None:
                    return found
    return None


def _links(error: BaseException) -> list[BaseException]:
    """Return the error and its causes, the root cause last."""
    links: list[BaseException] = []
    at: BaseException | None = error
    while at is not None and len(links) < _MAX_CHAIN and at not in links:
        links.append(at)
        if isinstance(at, BaseExceptionGroup):
            links.extend(at.exceptions)
        at = at.__cause__ if at.__cause__ is not None or at.__suppress_context__ else at.__context__
    return links


def _quote(text: Any) -> str:
    return printable(str(text), MAX_QUOTE_CHARS)


def _broker(kafka: KafkaSettings) -> str:
    return f"the broker at {kafka.bootstrap_servers}"


# TLS

_VERIFY_EXPIRED: Final = 10
_VERIFY_NOT_YET: Final = 9
_VERIFY_NAMES: Final = frozenset({62, 64})
_VERIFY_ISSUER: Final = frozenset({2, 18, 19, 20, 21})


def _certificate_of_broker(error: ssl.SSLCertVerificationError, kafka: KafkaSettings) -> Explanation:
    code, message = getattr(error, "verify_code", 0), _quote(getattr(error, "verify_message", "") or error)
    if code == _VERIFY_EXPIRED:
        return Explanation(
            "certificate",
            f"the certificate of {_broker(kafka)}, or of the authority that signed it, has expired",
            "renew it there, and check this machine's clock",
        )
    if code == _VERIFY_NOT_YET:
        return Explanation(
            "certificate",
            f"the certificate of {_broker(kafka)} is not valid yet",
            "check this machine's clock and the broker's certificate",
        )
    if code in _VERIFY_NAMES:
        return Explanation(
            "certificate",
            f"the certificate of {_broker(kafka)} is for another host ({message.rstrip('.')})",
            "use a name of the certificate in kafka.bootstrap_servers and the broker's "
            "advertised.listeners, or issue a certificate for this host",
        )
    if code in _VERIFY_ISSUER:
        trusted = kafka.security.ca_file
        return Explanation(
            "certificate",
            (f"the certificate of {_broker(kafka)} is not signed by a trusted authority ({message})"),
            "put the certificate of the authority that signed it into kafka.security.ca_file "
            + (f"(now {trusted})" if trusted is not None else "(now unset: the system's authorities)"),
        )
    return Explanation(
        "certificate",
        f"the certificate of {_broker(kafka)} cannot be trusted ({message})",
        "check the broker's certificate and kafka.security.ca_file",
    )


def _tls(error: ssl.SSLError, kafka: KafkaSettings) -> Explanation | None:
    said = (error.reason or str(error)).upper()
    if "WRONG_VERSION_NUMBER" in said or "RECORD_LAYER_FAILURE" in said or "HTTP_REQUEST" in said:
        return _speaks_plain_text(kafka)
    if "ALERT" not in said:
        return None
    if "CERTIFICATE" in said or "UNKNOWN_CA" in said or "HANDSHAKE_FAILURE" in said:
        return _own_certificate(said, kafka)
    return Explanation(
        "protocol",
        f"{_broker(kafka)} and this client cannot agree on TLS parameters ({_quote(error.reason)})",
        "check the TLS versions and ciphers that the listener allows",
    )


def _own_certificate(said: str, kafka: KafkaSettings) -> Explanation:
    ours = "the certificate of kafka.security.certificate_file"
    if kafka.security.certificate_file is None:
        return Explanation(
            "certificate",
            f"{_broker(kafka)} requires a client certificate, and none is set",
            (
                "set kafka.security.certificate_file and key_file (mutual TLS), or use a listener without "
                "client certificates"
            ),
        )
    if "EXPIRED" in said:
        return Explanation("certificate", f"{ours} has expired", "renew it")
    if "UNKNOWN_CA" in said:
        return Explanation(
            "certificate",
            f"{_broker(kafka)} does not trust the authority that signed {ours}",
            "use a certificate signed by an authority in the broker's truststore, with intermediate "
            "certificates in the same file",
        )
    return Explanation(
        "certificate",
        f"{_broker(kafka)} refuses {ours} ({_quote(said.lower())})",
        "check that it has not expired and that an authority in the broker's truststore has signed it",
    )


def _speaks_plain_text(kafka: KafkaSettings) -> Explanation:
    protocol = kafka.security.protocol
    other = {"SSL": "PLAINTEXT", "SASL_SSL": "SASL_PLAINTEXT"}.get(protocol, "PLAINTEXT")
    return Explanation(
        "protocol",
        f"kafka.security.protocol is {protocol}, and the port of {_broker(kafka)} does not use TLS",
        f"use the port of the TLS listener, or set the protocol to {other} on a trusted network",
    )


def _wrong_protocol(error: WrongProtocolError, kafka: KafkaSettings) -> Explanation:
    if not error.speaks_tls:
        return _speaks_plain_text(kafka)
    protocol = kafka.security.protocol
    other = "SASL_SSL" if protocol.startswith("SASL_") else "SSL"
    return Explanation(
        "protocol",
        f"kafka.security.protocol is {protocol}, and the port {error.server} uses TLS",
        f"set the protocol to {other} (with ca_file for your own authority), or use another port",
    )


# SASL


def _login_wanted(error: LoginWantedError, kafka: KafkaSettings) -> Explanation:
    protocol = kafka.security.protocol
    other = {"SSL": "SASL_SSL"}.get(protocol, "SASL_PLAINTEXT")
    offered = f" (it offers {', '.join(error.mechanisms)})" if error.mechanisms else ""
    return Explanation(
        "protocol",
        f"kafka.security.protocol is {protocol}, and the listener {error.server} requires a login{offered}",
        f"set the protocol to {other}, with mechanism and its credentials (such as username and "
        "password_env)",
    )


def _login(error: SaslAuthenticationFailed, kafka: KafkaSettings) -> Explanation:
    security = kafka.security
    said = _quote(error.args[0]) if error.args and error.args[0] else "no reason given"
    if security.username is None:
        return Explanation(
            "login",
            f"{_broker(kafka)} refuses the token ({said})",
            "check its issuer, audience, scope and lifetime against the listener's sasl.oauthbearer settings",
        )
    return Explanation(
        "login",
        (
            f"{_broker(kafka)} refuses the user {security.username!r} or its password with "
            f"{security.mechanism} ({said})"
        ),
        "check kafka.security.username, the password, and that the user exists there for this mechanism",
    )


def _mechanism(error: UnsupportedSaslMechanismError, kafka: KafkaSettings) -> Explanation:
    offered = error.args[0] if error.args and isinstance(error.args[0], list) else []
    offers = f" (it offers {_quote(', '.join(offered))})" if offered else ""
    return Explanation(
        "protocol",
        f"the listener of {_broker(kafka)} does not offer {kafka.security.mechanism}{offers}",
        "set kafka.security.mechanism to one that it offers, or use another listener",
    )


def _no_sasl(_: IllegalSaslStateError, kafka: KafkaSettings) -> Explanation:
    protocol = kafka.security.protocol
    other = "SSL" if protocol == "SASL_SSL" else "PLAINTEXT"
    return Explanation(
        "protocol",
        f"kafka.security.protocol is {protocol}, and the listener of {_broker(kafka)} does not use SASL",
        f"use the port of the SASL listener, or set the protocol to {other}",
    )


def _token(error: TokenError, _: KafkaSettings) -> Explanation:
    return Explanation("token", error.reason, error.remedy, lasting=error.lasting)


# Permissions


def _topic(error: TopicAuthorizationFailedError, kafka: KafkaSettings) -> Explanation:
    named = error.args[0] if error.args else ""
    names = ", ".join(sorted(map(str, named))) if isinstance(named, set | frozenset | list | tuple) else named
    return Explanation(
        "permission",
        f"{principal_of(kafka)} lacks permissions on the topic {_quote(names)}".rstrip(),
        "grant what docs/permissions.md lists for it (kafka-acls --add)",
    )


def _group(error: GroupAuthorizationFailedError, kafka: KafkaSettings) -> Explanation:
    named = _quote(error.args[0]) if error.args and error.args[0] else kafka.group_id
    return Explanation(
        "permission",
        f"{principal_of(kafka)} may not use the consumer group {named}",
        "grant Read on this group (kafka-acls --add --operation Read --group ...)",
    )


def _cluster(_: ClusterAuthorizationFailedError, kafka: KafkaSettings) -> Explanation:
    return Explanation(
        "permission",
        f"{principal_of(kafka)} lacks permissions on the cluster",
        "grant IdempotentWrite on the cluster if the broker is older than 2.8 (since then Write on a topic "
        "is enough); with topics.create also Create",
    )


def principal_of(kafka: KafkaSettings) -> str:
    """Return the principal's name, as far as the settings define it."""
    username = kafka.security.username
    return "the principal of this client" if username is None else f"User:{username}"


def _clock(_: InvalidTimestampError, kafka: KafkaSettings) -> Explanation:
    now = datetime.now(UTC)
    return Explanation(
        "clock",
        f"{_broker(kafka)} refuses records with this machine's time ({now:%Y-%m-%d %H:%M:%S} UTC)",
        "set the clock of this machine (or of the broker)",
        lasting=False,
    )


# The network


def _refused(_: ConnectionRefusedError, kafka: KafkaSettings) -> Explanation:
    return Explanation(
        "unreachable",
        f"nothing listens at {kafka.bootstrap_servers}",
        "check kafka.bootstrap_servers and that the broker runs",
        lasting=False,
    )


def _unknown_host(_: socket.gaierror, kafka: KafkaSettings) -> Explanation:
    return Explanation(
        "unreachable",
        f"a host of {kafka.bootstrap_servers} has no address (DNS)",
        "check the name and the resolver",
        lasting=False,
    )


def _timeout(_: TimeoutError, kafka: KafkaSettings) -> Explanation:
    return Explanation(
        "unreachable",
        f"{_broker(kafka)} does not answer in time",
        "check the network path (firewall, network policy) and the broker's load",
        lasting=False,
    )


_Explainer = Callable[[Any, KafkaSettings], Explanation | None]
_EXPLAINERS: Final[tuple[tuple[type[BaseException], _Explainer], ...]] = (
    (KafkaAccessError, lambda error, _: error.explanation),
    (WrongProtocolError, _wrong_protocol),
    (LoginWantedError, _login_wanted),
    (TokenError, _token),
    (ssl.SSLCertVerificationError, _certificate_of_broker),
    (ssl.SSLError, _tls),
    (SaslAuthenticationFailed, _login),
    (UnsupportedSaslMechanismError, _mechanism),
    (IllegalSaslStateError, _no_sasl),
    (TopicAuthorizationFailedError, _topic),
    (GroupAuthorizationFailedError, _group),
    (ClusterAuthorizationFailedError, _cluster),
    (InvalidTimestampError, _clock),
    (socket.gaierror, _unknown_host),
    (ConnectionRefusedError, _refused),
    (TimeoutError, _timeout),
)
