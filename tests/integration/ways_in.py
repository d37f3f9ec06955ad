"""A stage at a Kafka with an authoriser: valid ways in, faults, and worker processes that connect to it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from aiokafka.admin import NewTopic

from streams.kafka.topics.grants import Grant, worker_grants
from streams.kafka.topics.table import AGENTS, AgentName, group_of, topic_uses
from tests.integration.admin import kafka_admin
from tests.integration.processes import Worker, worker
from tests.integration.secure_kafka import PASSWORD, RsaAuthority, SecureKafka
from tests.integration.stage import Stage

USER = "judgestream"
PARTS = ("part-intake", "part-judge", "part-monitor")
ENVIRONMENT = {
    "KAFKA_PASSWORD": PASSWORD,
    "WRONG_PASSWORD": "wrong-password",
    "CLIENT_SECRET": "client-secret",
}


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
        RsaAuthority(directory).issue("client", "client.test", common_name=USER)
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
        server = kafka.bootstrap_servers if self.listener == "CLIENTS" else kafka.at(self.listener)
        changes = {key: text.format(strangers=strangers(kafka)) for key, text in self.changes.items()}
        return {"bootstrap_servers": server, "security": _WAYS[self.way](kafka) | changes}


_CASES = Path(__file__).parent / "cases" / "faults.yaml"
FAULTS = [Fault(**case) for case in yaml.load(_CASES.read_text("utf-8"), Loader=yaml.CSafeLoader)]


@dataclass
class GuardedStage(Stage):
    """A stage whose topics the administrator creates; the worker connects with `security`."""

    kafka: SecureKafka = field(kw_only=True)
    principal: str = f"User:{USER}"

    def grants(self, agents: Sequence[AgentName] = AGENTS) -> list[Grant]:
        settings = self.settings
        group = group_of(settings.kafka.group_id, agents)
        return worker_grants(settings, group, agents)

    async def create_topics(self) -> None:
        async with kafka_admin(**self.access) as admin:
            names = [use.name for use in topic_uses(self.settings)]
            await admin.create_topics([NewTopic(name, self.partitions, 1) for name in names])

    @contextlib.contextmanager
    def allowed(self, grants: Sequence[Grant], principal: str | None = None) -> Iterator[None]:
        self.kafka.allow(principal or self.principal, grants)
        try:
            yield
        finally:
            self.kafka.forbid(principal or self.principal, grants)

    def process(self, file: Path, *, agents: Sequence[str] = AGENTS) -> AbstractAsyncContextManager[Worker]:
        arguments = ("worker", "--config", str(file), "--agents", ",".join(agents))
        return worker(*arguments, log=file.with_suffix(".log"), env=ENVIRONMENT)

    async def judged(self, count: int) -> None:
        await self.judges({f"e{number}" for number in range(count)})


def guarded(kafka: SecureKafka, folder: Path, servers: str, security: Mapping[str, Any]) -> GuardedStage:
    """None of its topics exists."""
    changes = {"kafka.security": security, "topics.create": False, "telemetry.log_format": "json"}
    access = kafka.client_options()
    return GuardedStage(servers, folder, partitions=2, changes=changes, access=access, kafka=kafka)
