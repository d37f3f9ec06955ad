"""Security settings for a guarded Kafka: valid ways in and faults."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

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


def written_token(kafka: SecureKafka, stem: str, **claims: Any) -> dict[str, Any]:
    file = kafka.directory / f"{stem}.token"
    file.write_text(kafka.issuer.token(USER, **claims))
    return token(kafka, file)


_WAYS: Mapping[str, Callable[[SecureKafka], dict[str, Any]]] = {
    "clear": lambda _: {},
    "tls": tls,
    "scram": scram,
    "login": lambda _: in_the_clear(),
    "expired certificate": lambda kafka: mutual(kafka, "old", expired=True),
    "expired token": lambda kafka: written_token(kafka, "expired", life_seconds=-5.0),
    "foreign token": lambda kafka: written_token(kafka, "others", life_seconds=600.0, audience="others"),
}


WAYS = ("tls", "mutual", "scram", "token")


def way_in(way: str, kafka: SecureKafka, token_file: Path) -> tuple[dict[str, Any], str]:
    """The security settings of a way in, and the principal that the broker sees."""
    if way == "tls":
        return tls(kafka), "User:ANONYMOUS"  # no client certificate
    secured = {"mutual": mutual(kafka), "scram": scram(kafka), "token": token(kafka, token_file)}
    return secured[way], f"User:{USER}"


@dataclass(frozen=True, slots=True)
class Fault:
    what: str
    listener: str
    way: str
    expected: str
    changes: Mapping[str, str] = field(default_factory=dict)
    lasting: bool = True

    def section(self, kafka: SecureKafka) -> dict[str, Any]:
        """The section `kafka` of the settings."""
        server = kafka.bootstrap_servers if self.listener == "CLIENTS" else kafka.at(self.listener)
        changes = {key: text.format(strangers=strangers(kafka)) for key, text in self.changes.items()}
        return {"bootstrap_servers": server, "security": _WAYS[self.way](kafka) | changes}


_CASES = Path(__file__).parent / "cases" / "faults.yaml"
FAULTS = [Fault(**case) for case in yaml.load(_CASES.read_text("utf-8"), Loader=yaml.CSafeLoader)]
