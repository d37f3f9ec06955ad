"""Explain why the broker refuses access: one sentence of reason, and the remedy."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from aiokafka.errors import (
    ClusterAuthorizationFailedError,
    GroupAuthorizationFailedError,
    IllegalSaslStateError,
    InvalidTimestampError,
    KafkaConnectionError,
    SaslAuthenticationFailed,
    TopicAuthorizationFailedError,
    UnsupportedSaslMechanismError,
)

from judge.text.printable import printable
from streams.errors import Explanation, KafkaAccessError, StreamsError, TokenError
from streams.settings.broker import KafkaSettings
from streams.settings.certificates import validity_of

DENIED: Final = (
    ClusterAuthorizationFailedError,
    GroupAuthorizationFailedError,
    TopicAuthorizationFailedError,
)
"""Errors for a missing permission; retries fail until it is granted."""


def explain(error: BaseException, kafka: KafkaSettings) -> Explanation | None:
    """Explain an error of a Kafka client, or its cause; None if it is unrelated to access."""
    links = _links(error)
    # Our own errors are the most specific; among other errors, the root cause is.
    ours = [one for one in links if isinstance(one, StreamsError)]
    for one in [*ours, *reversed(links)]:
        if isinstance(one, KafkaAccessError | TokenError):
            return one.explanation
        for row in _TABLE:
            if isinstance(one, row.error) and row.fits(one, kafka):
                words = _words(one, kafka)
                ended = _ended_certificate(kafka) if isinstance(one, _CLOSED) else None
                return ended or Explanation(
                    row.reason.format(**words), row.remedy.format(**words), row.lasting
                )
    return None


def explain_any(errors: Iterable[BaseException], kafka: KafkaSettings) -> Explanation | None:
    """Explain the error of several servers that says most: one that lasts, else the first."""
    known = [one for error in errors if (one := explain(error, kafka)) is not None]
    return max(known, key=lambda one: one.lasting, default=None)


def _ended_certificate(kafka: KafkaSettings) -> Explanation | None:
    """Explain a refusal by the validity of the client's certificate; brokers rarely report it."""
    file = kafka.security.certificate_file
    if file is None:
        return None
    try:
        begins, ends = validity_of(file)
    except (OSError, ValueError):
        return None
    if begins <= datetime.now(UTC) <= ends:
        return None
    what = f"is valid from {begins:%Y-%m-%d %H:%M} to {ends:%Y-%m-%d %H:%M} UTC only"
    return Explanation(
        f"the certificate in kafka.security.certificate_file ({file}) {what}",
        "renew it (the file is read again for each connection), and check this machine's clock",
    )


def _links(error: BaseException) -> list[BaseException]:
    """Return the error and its causes, the root cause last."""
    links: list[BaseException] = []
    at: BaseException | None = error
    while at is not None and len(links) < 20 and at not in links:
        links.append(at)
        if isinstance(at, BaseExceptionGroup):
            links.extend(at.exceptions)
        at = at.__cause__ if at.__cause__ is not None or at.__suppress_context__ else at.__context__
    return links


def principal_of(kafka: KafkaSettings) -> str:
    username = kafka.security.username
    return "the principal of this client" if username is None else f"User:{username}"


def _words(error: Any, kafka: KafkaSettings) -> dict[str, str]:
    security = kafka.security
    ca_file = security.ca_file
    return {
        "broker": f"the broker at {kafka.bootstrap_servers}",
        "servers": kafka.bootstrap_servers,
        "protocol": security.protocol,
        "mechanism": str(security.mechanism),
        "user": repr(security.username),
        "principal": principal_of(kafka),
        "group": _said(error) or kafka.group_id,
        "said": _said(error),
        "trusted": "now unset: the system's authorities" if ca_file is None else f"now {ca_file}",
        "now": f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S}",
    }


def _said(error: Any) -> str:
    said = error.args[0] if error.args else ""
    if isinstance(error, ssl.SSLCertVerificationError):
        said = str(getattr(error, "verify_message", "") or error).rstrip(".")
    elif isinstance(error, ssl.SSLError):
        said = error.reason or error
    elif isinstance(said, set | frozenset | list | tuple):
        said = ", ".join(sorted(map(str, said)))
    return printable(str(said or ""), 200)


_Fits = Callable[[Any, KafkaSettings], bool]


@dataclass(frozen=True, slots=True)
class _Row:
    error: type[BaseException] | tuple[type[BaseException], ...]
    reason: str
    remedy: str
    lasting: bool = True
    fits: _Fits = lambda _error, _kafka: True


def _verified(*codes: int) -> _Fits:
    """Return whether OpenSSL's verification ended with one of these codes."""
    return lambda error, _: getattr(error, "verify_code", 0) in codes


def _alert(*words: str) -> _Fits:
    """Return whether the peer ended the handshake with an alert that has one of these words."""

    def fits(error: ssl.SSLError, _: KafkaSettings) -> bool:
        reason = (error.reason or str(error)).upper()
        return "ALERT" in reason and any(word in reason for word in words)

    return fits


_CLOSED: Final = (KafkaConnectionError, ConnectionResetError, ssl.SSLError)
_refused: Final = _alert("CERTIFICATE", "UNKNOWN_CA", "HANDSHAKE_FAILURE")
_TABLE: Final = (
    _Row(UnsupportedSaslMechanismError, "{broker} does not offer the mechanism {mechanism} ({said})",
         "set kafka.security.mechanism to one that its listener offers, or use another listener"),
    _Row(IllegalSaslStateError, "{broker} asks for no login, and kafka.security.protocol is {protocol}",
         "set protocol to PLAINTEXT or SSL, or use another listener"),
    _Row(ssl.SSLCertVerificationError,
         "the certificate of {broker}, or of the authority that signed it, is not valid now ({said})",
         "renew it there, and check this machine's clock", fits=_verified(9, 10)),
    _Row(ssl.SSLCertVerificationError, "the certificate of {broker} is for another host ({said})",
         "use a name of the certificate in kafka.bootstrap_servers and the broker's advertised.listeners, "
         "or issue a certificate for this host", fits=_verified(62, 64)),
    _Row(ssl.SSLCertVerificationError, "the certificate of {broker} cannot be trusted ({said})",
         "put the certificate of the authority that signed it into kafka.security.ca_file ({trusted})"),
    _Row(ssl.SSLError, "{broker} requires a client certificate, and none is set",
         "set kafka.security.certificate_file and key_file (mutual TLS), or use a listener without client "
         "certificates",
         fits=lambda error, kafka: not kafka.security.certificate_file and _refused(error, kafka)),
    _Row(ssl.SSLError, "{broker} refuses the certificate of kafka.security.certificate_file ({said})",
         "check that an authority in the broker's truststore has signed it, with intermediate certificates "
         "in the same file",
         fits=_refused),
    _Row(ssl.SSLError, "{broker} and this client cannot agree on TLS parameters ({said})",
         "check the TLS versions and ciphers that the listener allows", fits=_alert("")),
    _Row(SaslAuthenticationFailed, "{broker} refuses the token ({said})",
         "check its issuer, audience, scope and lifetime against the listener's sasl.oauthbearer settings",
         fits=lambda _, kafka: kafka.security.username is None),
    _Row(SaslAuthenticationFailed,
         "{broker} refuses the user {user} or its password with {mechanism} ({said})",
         "check kafka.security.username, the password, and that the user exists there for this mechanism"),
    _Row(TopicAuthorizationFailedError, "{principal} lacks permissions on the topic {said}",
         "grant what docs/permissions.md lists for it (kafka-acls --add)"),
    _Row(GroupAuthorizationFailedError, "{principal} may not use the consumer group {group}",
         "grant Read on this group (kafka-acls --add --operation Read --group ...)"),
    _Row(ClusterAuthorizationFailedError, "{principal} lacks permissions on the cluster",
         "grant IdempotentWrite on the cluster if the broker is older than 2.8 (since then Write on a topic "
         "is enough); with topics.create also Create"),
    _Row(InvalidTimestampError, "{broker} refuses records with this machine's time ({now} UTC)",
         "set the clock of this machine (or of the broker)", lasting=False),
    _Row(socket.gaierror, "a host of {servers} has no address (DNS)",
         "check the name and the resolver", lasting=False),
    _Row(ConnectionRefusedError, "nothing listens at {servers}",
         "check kafka.bootstrap_servers and that the broker runs", lasting=False),
    _Row(_CLOSED, "{broker} closes the connection, and kafka.security.protocol is {protocol}",
         "set protocol and mechanism to those of its listener, and check that the broker runs", lasting=False,
         fits=lambda error, _: not isinstance(error, KafkaConnectionError) or str(error).endswith("closed")),
    _Row(TimeoutError, "{broker} does not answer in time",
         "check the network path (firewall, network policy) and the broker's load", lasting=False),
)  # fmt: skip
