"""Topics and settings for a worker, and the means to feed it and to read its output."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from prometheus_client import CollectorRegistry

from judge.chat import ChatClient, ChatReply, ChatRequest
from schemas import RESULT, Alert, DeadLetter, Failed, JudgeTask, Scored, Unscored, Usage
from streams.kafka.topics.table import AGENTS, AgentName
from streams.settings.tree import Settings
from streams.worker.run import run_worker
from streams.worker.worker import Worker
from tests.integration.admin import committed_offsets
from tests.integration.deadlines import DEADLINE_SECONDS, until
from tests.integration.tuning import tuned

PACK = "## System\nScore the tone.\n\n## User\n{{ item.input }}\n{{ item.output_text }}\n"
TOPICS = {
    "events": "events", "scores": "scores", "dead_letters": "dead", "alerts": "alerts", "labels": "labels"
}  # fmt: skip
"""The endings of the topics' names, by setting."""
INTERNAL = {
    "tasks": "judge.tasks", "anchors": "qa.anchors", "evaluations": "judge.evaluations",
    "observations": "qa.observations", "monitor_state": "qa.monitor-state", "budget": "qa.budget",
    "batch_tasks": "qa.batch-tasks",
}  # fmt: skip
REPLY = '{"score": 3, "justification": "plain"}'


def event(number: int, **fields: Any) -> bytes:
    return json.dumps(
        {"event_id": f"e{number}", "question": "How?", "answer": f"So {number}.", **fields}
    ).encode()


class Chat:
    """A judge with a constant reply, given when its gate is open."""

    endpoint = "scripted"
    model = "m"

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.gate.set()
        self.error: Exception | None = None
        self.asked = 0
        self.at_once = 0
        self.most_at_once = 0

    async def complete(self, request: ChatRequest) -> ChatReply:  # noqa: ARG002 - the protocol's
        self.asked += 1
        if self.error is not None:
            raise self.error
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            await self.gate.wait()
        finally:
            self.at_once -= 1
        return ChatReply(text=REPLY, model="m", usage=Usage(input_tokens=1), seconds=0.01)

    async def close(self) -> None:
        """Nothing to close."""


def trace_ids(number: int, seed: int) -> list[str]:
    source = random.Random(seed)
    return [f"{source.getrandbits(128):032x}" for _ in range(number)]


def total(registry: CollectorRegistry, name: str) -> float:
    """The sum of an instrument's samples, with any labels."""
    return sum(one.value for family in registry.collect() for one in family.samples if one.name == name)


def decided(registry: CollectorRegistry) -> Counter[tuple[str, str]]:
    found: Counter[tuple[str, str]] = Counter()
    for family in registry.collect():
        if family.name == "judgestream_events":
            for sample in family.samples:
                found[sample.labels["outcome"], sample.labels["reason"]] += int(sample.value)
    return found


@contextlib.asynccontextmanager
async def running_worker(
    settings: Settings, chat: ChatClient | None = None, *, agents: Sequence[AgentName] = AGENTS
) -> AsyncIterator[tuple[Worker, CollectorRegistry]]:
    """Run a worker in this event loop; without a chat it uses the endpoints of its settings."""
    stop, registry = asyncio.Event(), CollectorRegistry()
    ready: asyncio.Future[Worker] = asyncio.get_running_loop().create_future()
    options: dict[str, Any] = {"agents": agents, "registry": registry, "on_ready": ready.set_result}
    task = asyncio.create_task(run_worker(settings, stop=stop, chat=chat, **options))
    try:
        await until(lambda: task.done() or ready.done(), "a worker that reads")
        if task.done():
            await task
        yield ready.result(), registry
    finally:
        stop.set()
        await asyncio.wait_for(task, DEADLINE_SECONDS)


@dataclass
class Stage:
    bootstrap_servers: str
    directory: Path
    partitions: int = 4
    metrics: tuple[str, ...] = ("tone",)
    base_url: str = "http://127.0.0.1:9/v1"
    changes: dict[str, Any] = field(default_factory=dict)
    constants: dict[str, Any] = field(default_factory=dict)
    name: str = field(default_factory=lambda: f"t{uuid.uuid4().hex[:8]}")
    prefixed: bool = True
    """Whether its internal topics have the name as prefix."""
    access: dict[str, Any] = field(default_factory=dict)
    """Options of the stage's own clients, if the broker requires a login."""

    @property
    def _client_options(self) -> dict[str, Any]:
        return {"bootstrap_servers": self.bootstrap_servers, **self.access}

    def __post_init__(self) -> None:
        # Once: a worker that starts while `settings` is read would find a file that is being written.
        pack = self.directory / "tone.md"
        pack.write_text(PACK, encoding="utf-8")
        self._metric = {"prompt_pack": str(pack), "score_range": [1, 5]}

    def document(self) -> dict[str, Any]:
        document: dict[str, Any] = {
            "kafka": {
                "bootstrap_servers": self.bootstrap_servers,
                "group_id": f"{self.name}-group",
                "start": "earliest",
                "session_timeout_seconds": 30,
            },
            "topics": {
                **{name: self.topic(ending) for name, ending in TOPICS.items()},
                **({"prefix": f"{self.name}."} if self.prefixed else {}),
                "create": True,
                "create_partitions": self.partitions,
            },
            "metrics": {name: dict(self._metric) for name in self.metrics},
            "judge": {
                "endpoints": [{"name": "scripted", "base_url": self.base_url, "model": "m"}],
                "max_in_flight": 16,
                "timeout_seconds": 10,
            },
            "monitor": {"labels": []},
            "telemetry": {"port": 0, "labels": []},
        }
        for path, value in self.changes.items():
            place = document
            *parents, last = path.split(".")
            for parent in parents:
                place = place.setdefault(parent, {})
            place[last] = value
        return document

    def write_settings(self, stem: str = "settings", **changes: Any) -> Path:
        """Write its settings, with changes of the section `kafka`."""
        document = self.document()
        document["kafka"] |= changes
        file = self.directory / f"{stem}.yaml"
        file.write_text(yaml.safe_dump(document), encoding="utf-8")
        return file

    @property
    def settings(self) -> Settings:
        return Settings.model_validate(self.document())

    def topic(self, what: str) -> str:
        kind, dot, metric = what.partition(".")
        prefix = f"{self.name}." if self.prefixed or kind not in INTERNAL else ""
        return f"{prefix}{INTERNAL.get(kind, kind)}{dot}{metric}"

    @contextlib.asynccontextmanager
    async def worker(
        self, chat: ChatClient | None, *, agents: Sequence[AgentName] = AGENTS
    ) -> AsyncIterator[tuple[Worker, CollectorRegistry]]:
        with tuned(self.constants):
            async with running_worker(self.settings, chat, agents=agents) as running:
                yield running

    async def produce(self, values: Sequence[bytes | None], *, topic: str = "events", **record: Any) -> None:
        async with AIOKafkaProducer(**self._client_options, max_request_size=20_000_000) as producer:
            sent = []
            for number, value in enumerate(values):
                place = {"key": b"k%d" % number, "partition": number % self.partitions, **record}
                sent.append(await producer.send(self.topic(topic), value, **place))
            await asyncio.gather(*sent)

    async def produce_keyed(
        self,
        records: Sequence[tuple[bytes | None, bytes]],
        *,
        topic: str = "events",
        codec: str | None = None,
        timestamp_ms: int | None = None,
    ) -> None:
        async with AIOKafkaProducer(**self._client_options, compression_type=codec) as producer:
            for key, value in records:
                await producer.send(self.topic(topic), value, key=key, timestamp_ms=timestamp_ms)
            await producer.flush()

    async def read(self, topic: str) -> list[Any]:
        async with AIOKafkaConsumer(
            **self._client_options, enable_auto_commit=False, auto_offset_reset="earliest"
        ) as consumer:
            places = [TopicPartition(self.topic(topic), number) for number in range(self.partitions)]
            consumer.assign(places)
            ends = await consumer.end_offsets(places)
            records: list[Any] = []
            while [place for place in places if await consumer.position(place) < ends[place]]:
                for batch in (await consumer.getmany(timeout_ms=200)).values():
                    records.extend(batch)
            return records

    async def results(self) -> list[Scored | Unscored | Failed]:
        return [RESULT.validate_json(record.value) for record in await self.read("scores")]

    async def holds(self, *, at_least: bool = False, **counts: int) -> None:
        """Wait until topics hold this many records, as in `holds(tasks_tone=20, dead=1)`."""

        async def hold() -> bool:
            found = {topic: len(await self.read(topic.replace("tasks_", "tasks."))) for topic in counts}
            return all(found[one] == counts[one] or (at_least and found[one] > counts[one]) for one in counts)

        await until(hold, f"{'at least ' * at_least}{counts}")

    async def judges(self, event_ids: set[str]) -> None:
        async def judged() -> bool:
            return {result.event_id for result in await self.results()} >= event_ids

        await until(judged, f"results of {len(event_ids)} events")

    async def commits(
        self, topic: str, total: int, group: str | None = None, *, at_least: bool = False
    ) -> None:
        async def committed() -> bool:
            found = sum(offset or 0 for offset in await self.committed(topic, group))
            return found == total or (at_least and found > total)

        await until(committed, f"{total} committed on {topic}")

    async def dead_letters(self) -> list[DeadLetter]:
        return [DeadLetter.model_validate_json(record.value) for record in await self.read("dead")]

    async def alerts(self) -> list[Alert]:
        return [Alert.model_validate_json(record.value) for record in await self.read("alerts")]

    async def tasks(self, metric: str = "tone") -> list[JudgeTask]:
        return [JudgeTask.model_validate_json(record.value) for record in await self.read(f"tasks.{metric}")]

    async def committed(self, topic: str, group: str | None = None) -> list[int | None]:
        places = [TopicPartition(self.topic(topic), number) for number in range(self.partitions)]
        group = group or self.settings.kafka.group_id
        return await committed_offsets(group, places, **self._client_options)
