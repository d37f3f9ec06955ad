"""A stage at a Kafka with an authoriser, and worker processes that connect to it."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import yaml
from aiokafka.admin import NewTopic

from streams.kafka.topics.grants import Grant, worker_grants
from streams.kafka.topics.table import AGENTS, AgentName, group_of, topic_uses
from tests.integration.admin import kafka_admin
from tests.integration.secure_kafka import SecureKafka
from tests.integration.stage import Stage
from tests.integration.ways_in import (
    ENVIRONMENT,
    USER,
)
from tests.streams.cli.processes import COMMAND, clean_environment


class Log:
    def __init__(self, file: Path) -> None:
        self._file = file

    @property
    def text(self) -> str:
        return self._file.read_text(encoding="utf-8")

    def ready(self) -> tuple[bool, str]:
        """Whether `/readyz` says ready, and its reasons."""
        (line,) = (line for line in self.text.splitlines() if '"event": "reading"' in line)
        with contextlib.closing(HTTPConnection(json.loads(line)["url"].removeprefix("http://"))) as port:
            port.request("GET", "/readyz")
            answer = json.load(port.getresponse())
        return answer["ok"], "; ".join(answer["reasons"])

    def whole(self) -> str:
        """The final log, which must have no stack trace."""
        assert "Traceback" not in self.text, self.text[-6000:]
        return self.text


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

    @contextlib.asynccontextmanager
    async def process(
        self, file: Path, *, agents: Sequence[str] = AGENTS
    ) -> AsyncIterator[tuple[asyncio.subprocess.Process, Log]]:
        """The command `worker` as a process, with its log; killed at the end if it still runs."""
        log = file.with_suffix(".log")
        with log.open("wb") as sink:
            started = await asyncio.create_subprocess_exec(
                *COMMAND,
                "worker",
                "--config",
                str(file),
                "--agents",
                ",".join(agents),
                env=clean_environment(ENVIRONMENT),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=sink,
                stderr=sink,
            )
        try:
            yield started, Log(log)
        finally:
            if started.returncode is None:
                started.kill()
            await started.wait()

    async def judged(self, count: int) -> None:
        """Wait until the first events, this many, have a result."""
        await self.judges({f"e{number}" for number in range(count)})
