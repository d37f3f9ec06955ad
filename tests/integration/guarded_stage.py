"""A stage at a Kafka with an authoriser, and worker processes that connect to it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
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
from tests.integration.secure_kafka import SecureKafka
from tests.integration.stage import Stage
from tests.integration.ways_in import ENVIRONMENT, USER


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

    def write_settings(self, stem: str = "settings", **changes: Any) -> Path:
        document = self.document()
        document["kafka"] |= changes
        file = self.directory / f"{stem}.yaml"
        file.write_text(yaml.safe_dump(document), encoding="utf-8")
        return file

    def process(self, file: Path, *, agents: Sequence[str] = AGENTS) -> AbstractAsyncContextManager[Worker]:
        """A worker with these settings."""
        arguments = ("worker", "--config", str(file), "--agents", ",".join(agents))
        return worker(*arguments, log=file.with_suffix(".log"), env=ENVIRONMENT)

    async def judged(self, count: int) -> None:
        await self.judges({f"e{number}" for number in range(count)})


def guarded(kafka: SecureKafka, folder: Path, servers: str, security: Mapping[str, Any]) -> GuardedStage:
    """A stage with two partitions a topic, of which none exists."""
    changes = {"kafka.security": security, "topics.create": False, "telemetry.log_format": "json"}
    access = kafka.client_options()
    return GuardedStage(servers, folder, partitions=2, changes=changes, access=access, kafka=kafka)
