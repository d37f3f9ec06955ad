"""Explain why the broker refuses access: one sentence of reason, and the remedy."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
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
    AccessProblem,
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
        if isinstance(one, KafkaAccessError):
            return one.explanation
        if isinstance(one, TokenError):
            return Explanation("token", one.reason, one.remedy, lasting=one.lasting)
        for row in _TABLE:
            if isinstance(one, row.error) and row.fits(one, kafka):
                words = _words(one, kafka)
                return Explanation(
                    row.kind, row.reason.format(**words), row.remedy.format(**words), lasting=row.lasting
                )
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


def principal_of(kafka: KafkaSettings) -> str:
    """Return the principal's name, as far as the settings define it."""
    username = kafka.security.username
    return "the principal of this client" if username is None else f"User:{username}"


def _words(error: Any, kafka: KafkaSettings) -> dict[str, str]:
    """Return what the texts of the table name."""
    security = kafka.security
    ca_file, protocol = security.ca_file, security.protocol
    return {
        "broker": f"the broker at {kafka.bootstrap_servers}",
        "servers": kafka.bootstrap_servers,
        "server": getattr(error, "server", ""),
        "protocol": protocol,
        "without_tls": {"SASL_SSL": "SASL_PLAINTEXT"}.get(protocol, "PLAINTEXT"),
        "with_tls": "SASL_SSL" if protocol.startswith("SASL_") else "SSL",
        "with_login": {"SSL": "SASL_SSL"}.get(protocol, "SASL_PLAINTEXT"),
        "without_login": "SSL" if protocol == "SASL_SSL" else "PLAINTEXT",
        "mechanism": str(security.mechanism),
        "offers": _offers(error),
        "user": repr(security.username),
        "principal": principal_of(kafka),
        "group": _said(error) or kafka.group_id,
        "said": _said(error),
        "trusted": "now unset: the system's authorities" if ca_file is None else f"now {ca_file}",
        "now": f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S}",
    }


def _offers(error: Any) -> str:
    offered = getattr(error, "mechanisms", None) or (error.args[0] if error.args else None)
    return (
        f" (it offers {_quote(', '.join(offered))})" if isinstance(offered, list | tuple) and offered else ""
    )


def _said(error: Any) -> str:
    """Return the message of an error."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return _quote(getattr(error, "verify_message", "") or error).rstrip(".")
    if isinstance(error, ssl.SSLError):
        return _quote(error.reason or error)
    said = error.args[0] if error.args else ""
    if isinstance(said, set | frozenset | list | tuple):
        said = ", ".join(sorted(map(str, said)))
    return _quote(said or "")


def _reason(error: ssl.SSLError) -> str:
    return (error.reason or str(error)).upper()


_Fits = Callable[[Any, KafkaSettings], bool]


@dataclass(frozen=True, slots=True)
class _Row:
    error: type[BaseException]
    kind: AccessProblem
    reason: str
    remedy: str
    lasting: bool = True
    fits: _Fits = lambda _error, _kafka: True


def _verified(*codes: int) -> _Fits:
    """Return whether OpenSSL's verification ended with one of these codes."""
    return lambda error, _: getattr(error, "verify_code", 0) in codes


def _alert(*words: str) -> _Fits:
    """Return whether the peer ended the handshake with an alert that has one of these words."""
    return lambda error, _: "ALERT" in _reason(error) and any(word in _reason(error) for word in words)


def _plain_text(error: ssl.SSLError, _: KafkaSettings) -> bool:
    return any(
        word in _reason(error) for word in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST")
    )


_refused: Final = _alert("CERTIFICATE", "UNKNOWN_CA", "HANDSHAKE_FAILURE")
_NO_TLS: Final = "kafka.security.protocol is {protocol}, and the port of {broker} does not use TLS"
_OTHER_PORT: Final = (
    "use the port of the TLS listener, or set the protocol to {without_tls} on a trusted network"
)
_OURS: Final = "the certificate of kafka.security.certificate_file"

_TABLE: Final = (
    _Row(WrongProtocolError, "protocol", _NO_TLS, _OTHER_PORT, fits=lambda error, _: not error.speaks_tls),
    _Row(WrongProtocolError, "protocol",
         "kafka.security.protocol is {protocol}, and the port {server} uses TLS",
         "set the protocol to {with_tls} (with ca_file for your own authority), or use another port"),
    _Row(LoginWantedError, "protocol",
         "kafka.security.protocol is {protocol}, and the listener {server} requires a login{offers}",
         "set the protocol to {with_login}, with mechanism and its credentials (such as username and "
         "password_env)"),
    _Row(ssl.SSLCertVerificationError, "certificate",
         "the certificate of {broker}, or of the authority that signed it, has expired",
         "renew it there, and check this machine's clock", fits=_verified(10)),
    _Row(ssl.SSLCertVerificationError, "certificate",
         "the certificate of {broker} is not valid yet",
         "check this machine's clock and the broker's certificate", fits=_verified(9)),
    _Row(ssl.SSLCertVerificationError, "certificate",
         "the certificate of {broker} is for another host ({said})",
         "use a name of the certificate in kafka.bootstrap_servers and the broker's advertised.listeners, "
         "or issue a certificate for this host", fits=_verified(62, 64)),
    _Row(ssl.SSLCertVerificationError, "certificate",
         "the certificate of {broker} is not signed by a trusted authority ({said})",
         "put the certificate of the authority that signed it into kafka.security.ca_file ({trusted})",
         fits=_verified(2, 18, 19, 20, 21)),
    _Row(ssl.SSLCertVerificationError, "certificate",
         "the certificate of {broker} cannot be trusted ({said})",
         "check the broker's certificate and kafka.security.ca_file"),
    _Row(ssl.SSLError, "protocol", _NO_TLS, _OTHER_PORT, fits=_plain_text),
    _Row(ssl.SSLError, "certificate",
         "{broker} requires a client certificate, and none is set",
         "set kafka.security.certificate_file and key_file (mutual TLS), or use a listener without client "
         "certificates",
         fits=lambda error, kafka: not kafka.security.certificate_file and _refused(error, kafka)),
    _Row(ssl.SSLError, "certificate", _OURS + " has expired", "renew it",
         fits=lambda error, kafka: _refused(error, kafka) and "EXPIRED" in _reason(error)),
    _Row(ssl.SSLError, "certificate",
         "{broker} does not trust the authority that signed " + _OURS,
         "use a certificate signed by an authority in the broker's truststore, with intermediate "
         "certificates in the same file", fits=_alert("UNKNOWN_CA")),
    _Row(ssl.SSLError, "certificate",
         "{broker} refuses " + _OURS + " ({said})",
         "check that it has not expired and that an authority in the broker's truststore has signed it",
         fits=_refused),
    _Row(ssl.SSLError, "protocol",
         "{broker} and this client cannot agree on TLS parameters ({said})",
         "check the TLS versions and ciphers that the listener allows", fits=_alert("")),
    _Row(SaslAuthenticationFailed, "login",
         "{broker} refuses the token ({said})",
         "check its issuer, audience, scope and lifetime against the listener's sasl.oauthbearer settings",
         fits=lambda _, kafka: kafka.security.username is None),
    _Row(SaslAuthenticationFailed, "login",
         "{broker} refuses the user {user} or its password with {mechanism} ({said})",
         "check kafka.security.username, the password, and that the user exists there for this mechanism"),
    _Row(UnsupportedSaslMechanismError, "protocol",
         "the listener of {broker} does not offer {mechanism}{offers}",
         "set kafka.security.mechanism to one that it offers, or use another listener"),
    _Row(IllegalSaslStateError, "protocol",
         "kafka.security.protocol is {protocol}, and the listener of {broker} does not use SASL",
         "use the port of the SASL listener, or set the protocol to {without_login}"),
    _Row(TopicAuthorizationFailedError, "permission",
         "{principal} lacks permissions on the topic {said}",
         "grant what docs/permissions.md lists for it (kafka-acls --add)"),
    _Row(GroupAuthorizationFailedError, "permission",
         "{principal} may not use the consumer group {group}",
         "grant Read on this group (kafka-acls --add --operation Read --group ...)"),
    _Row(ClusterAuthorizationFailedError, "permission",
         "{principal} lacks permissions on the cluster",
         "grant IdempotentWrite on the cluster if the broker is older than 2.8 (since then Write on a topic "
         "is enough); with topics.create also Create"),
    _Row(InvalidTimestampError, "clock",
         "{broker} refuses records with this machine's time ({now} UTC)",
         "set the clock of this machine (or of the broker)", lasting=False),
    _Row(socket.gaierror, "unreachable", "a host of {servers} has no address (DNS)",
         "check the name and the resolver", lasting=False),
    _Row(ConnectionRefusedError, "unreachable", "nothing listens at {servers}",
         "check kafka.bootstrap_servers and that the broker runs", lasting=False),
    _Row(TimeoutError, "unreachable", "{broker} does not answer in time",
         "check the network path (firewall, network policy) and the broker's load", lasting=False),
)  # fmt: skip
"""By type of error; the first row that fits explains it."""
