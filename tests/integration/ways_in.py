"""Security settings for a guarded Kafka: valid ways in and faults."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.integration.secure_kafka import PASSWORD, Authority, SecureKafka

USER = "judgestream"
PARTS = ("part-intake", "part-judge", "part-monitor")
ENVIRONMENT = {
    "KAFKA_PASSWORD": PASSWORD,
    "WRONG_PASSWORD": "wrong-password",
    "CLIENT_SECRET": "client-secret",
}
"""The environment variables that settings name."""


def tls(kafka: SecureKafka) -> dict[str, Any]:
    return {"protocol": "SSL", "ca_file": str(kafka.authority.file)}


def mutual(kafka: SecureKafka, stem: str = USER, **changes: Any) -> dict[str, Any]:
    identity = kafka.authority.issue(stem, "client.test", common_name=USER, **changes)
    return tls(kafka) | {"certificate_file": str(identity.certificate), "key_file": str(identity.key)}


def scram(kafka: SecureKafka, mechanism: str = "SCRAM-SHA-512", username: str = USER) -> dict[str, Any]:
    login = {"mechanism": mechanism, "username": username, "password_env": "KAFKA_PASSWORD"}
    return tls(kafka) | login | {"protocol": "SASL_SSL"}


def in_the_clear() -> dict[str, Any]:
    login = {"mechanism": "PLAIN", "username": USER, "password_env": "KAFKA_PASSWORD"}
    return {"protocol": "SASL_PLAINTEXT", **login}


def token(kafka: SecureKafka, file: Path) -> dict[str, Any]:
    return tls(kafka) | {"protocol": "SASL_SSL", "mechanism": "OAUTHBEARER", "token_file": str(file)}


def without(security: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in security.items() if name not in names}


def strangers(kafka: SecureKafka) -> Path:
    """Certificates of an authority that the broker does not trust."""
    directory = kafka.directory / "strangers"
    if not directory.is_dir():
        directory.mkdir()
        Authority(directory).issue("client", "client.test", common_name=USER)
    return directory


@dataclass(frozen=True, slots=True)
class Fault:
    """A wrong security setting that keeps a client out."""

    what: str
    listener: str
    security: Callable[[SecureKafka], dict[str, Any]]
    expected: str
    """A pattern of the message: reason, semicolon, remedy."""
    lasting: bool = True
    """Whether a retry cannot help; a listener that closes connections may be starting."""

    def section(self, kafka: SecureKafka) -> dict[str, Any]:
        server = kafka.bootstrap_servers if self.listener == "CLIENTS" else kafka.at(self.listener)
        return {"bootstrap_servers": server, "security": self.security(kafka)}


def written_token(kafka: SecureKafka, stem: str, **claims: Any) -> dict[str, Any]:
    file = kafka.directory / f"{stem}.token"
    file.write_text(kafka.issuer.token(USER, **claims))
    return token(kafka, file)


CLOSES = "closes the connection, and kafka.security.protocol is"
FAULTS = (
    Fault(
        "token that has expired",
        "TOKEN",
        lambda kafka: written_token(kafka, "expired", life_seconds=-5.0),
        r"token: the token in .* expired \d+ s ago; renew it \(a file is read again",
    ),
    Fault(
        "token for another audience",
        "TOKEN",
        lambda kafka: written_token(kafka, "others", life_seconds=600.0, audience="others"),
        r"refuses the token \(.*\); check its issuer, audience, scope and lifetime",
    ),
    Fault(
        "wrong password",
        "SCRAM",
        lambda kafka: scram(kafka) | {"password_env": "WRONG_PASSWORD"},
        r"refuses the user 'judgestream' or its password with SCRAM-SHA-512 .*; check kafka\.security\.username",  # noqa: E501
    ),
    Fault(
        "unknown user",
        "SCRAM",
        lambda kafka: scram(kafka, username="nobody"),
        "refuses the user 'nobody' or its password",
    ),
    Fault(
        "wrong password with PLAIN",
        "LOGIN",
        lambda _: in_the_clear() | {"password_env": "WRONG_PASSWORD"},
        "refuses the user 'judgestream' or its password with PLAIN",
    ),
    Fault(
        "mechanism that is not offered",
        "TOKEN",
        scram,
        r"does not offer the mechanism SCRAM-SHA-512 .*; set kafka\.security\.mechanism",
    ),
    Fault(
        "wrong authority",
        "TLS",
        lambda kafka: tls(kafka) | {"ca_file": str(strangers(kafka) / "ca.pem")},
        r"cannot be trusted .*kafka\.security\.ca_file \(now .*strangers/ca\.pem\)",
    ),
    Fault(
        "the system's authorities",
        "TLS",
        lambda _: {"protocol": "SSL"},
        r"kafka\.security\.ca_file \(now unset: the system's authorities\)",
    ),
    Fault("other host", "ELSEWHERE", tls, "is for another host .* not valid for '127.0.0.1'"),
    Fault(
        "the broker's certificate has expired",
        "EXPIRED",
        tls,
        r"the certificate of the broker .* \(.*has expired\); renew it there, and check this machine's clock",
    ),
    Fault(
        "our certificate has expired",
        "MUTUAL",
        lambda kafka: mutual(kafka, "old", expired=True),
        r"certificate_file \(.*old\.pem\) is valid from 20.* UTC only; renew it",
    ),
    Fault(
        "our certificate is of a stranger",
        "MUTUAL",
        lambda kafka: (
            tls(kafka)
            | {
                "certificate_file": str(strangers(kafka) / "client.pem"),
                "key_file": str(strangers(kafka) / "client.key"),
            }
        ),
        r"refuses the certificate of kafka\.security\.certificate_file .* truststore",
    ),
    Fault(
        "no certificate",
        "MUTUAL",
        tls,
        r"requires a client certificate, and none is set; set kafka\.security\.certificate_file and key_file",
    ),
    Fault("plain text to TLS", "TLS", lambda _: {}, f"{CLOSES} PLAINTEXT; set protocol", lasting=False),
    Fault("a login in plain text to TLS", "SCRAM", lambda _: in_the_clear(), CLOSES, lasting=False),
    Fault("TLS to plain text", "CLIENTS", tls, f"{CLOSES} SSL; set protocol", lasting=False),
    Fault("TLS to a login in plain text", "LOGIN", scram, CLOSES, lasting=False),
    Fault("no login", "LOGIN", lambda _: {}, f"{CLOSES} PLAINTEXT", lasting=False),
    Fault("no login with TLS", "SCRAM", tls, CLOSES, lasting=False),
    Fault(
        "a login where none is asked for",
        "CLIENTS",
        lambda _: in_the_clear(),
        "asks for no login, and kafka.security.protocol is SASL_PLAINTEXT; set protocol",
    ),
)
