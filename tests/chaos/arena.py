"""Worker processes, a scripted judge and topics for one fault, and the checker's report at its end."""

from __future__ import annotations

import asyncio
import math
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import NewPartitions
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import KafkaError

from streams.kafka.topics.table import AGENTS, AgentName, group_of, topic_uses
from tests.chaos.checker import Policy, Report, Written, check
from tests.chaos.feed import POISON_EVERY, POLICY, Feed, settings_changes
from tests.chaos.processes import Judge, Worker
from tests.chaos.proxy import Proxy
from tests.chaos.team import Team
from tests.chaos.topic_reader import TopicReader, reading
from tests.integration.admin import kafka_admin
from tests.integration.cluster import COPIES, KafkaCluster
from tests.integration.deadlines import until
from tests.integration.kafka import ApacheKafka
from tests.integration.stage import Stage
from tests.integration.tuning import PATIENCE, environment
from tests.integration.wire_client import create_topic

PROGRAM: Final = (sys.executable, "-m", "tests.chaos.program")
PARTITIONS: Final = 6
LOG_LINES: Final = 100
SESSION_SECONDS: Final = 10
"""Longer than a busy machine delays a heartbeat."""
JUDGE_TIMEOUT_SECONDS: Final = 2
_SETTINGS: Final = {
    **settings_changes(),
    "kafka.session_timeout_seconds": SESSION_SECONDS,
    "judge.timeout_seconds": JUDGE_TIMEOUT_SECONDS,
}
_CONSTANTS: Final = {
    "streams.kafka.app.PRODUCER_TIMEOUT_SECONDS": 10,
    "streams.kafka.app.METADATA_AGE_SECONDS": 2,
    PATIENCE: {"longest_wait_seconds": 1, "longest_breaker_seconds": 1},
}
"""Not for the worker of an earlier version, which waits longer."""
_WITHOUT_GROUP: Final = {"tasks": {"monitor"}}
"""Agents that read a kind of topic by offset and commit nothing on it."""


@dataclass(frozen=True, slots=True)
class Size:
    """The load of one fault; `blows` are the repetitions of a repeated one."""

    events: int
    seconds: float
    blows: int
    settle_seconds: float


SHORT: Final = Size(events=2_000, seconds=4, blows=4, settle_seconds=300)
LONG: Final = Size(events=20_000, seconds=30, blows=15, settle_seconds=1800)


@dataclass(eq=False)
class Arena:
    """The processes, topics and settings of one fault; a cluster stands for the one broker."""

    kafka: ApacheKafka
    directory: Path
    judge: Judge
    size: Size
    crew: int
    proxies: Sequence[Proxy] = ()
    cluster: KafkaCluster | None = None
    team: Team | None = None
    workers: list[Worker] = field(default_factory=list)
    report: Report | None = None
    log_lines: int = 0
    constants: Mapping[str, Any] = field(default_factory=lambda: _CONSTANTS)
    watches_observations: bool = False

    def __post_init__(self) -> None:
        self.policy: Policy = POLICY if self.team is None else self.team.policy
        self.stage = Stage(
            self.servers,
            self.directory,
            partitions=PARTITIONS,
            metrics=tuple(self.policy.metrics),
            base_url=f"http://127.0.0.1:{self.judge.port}/v1",
            changes=dict(_SETTINGS),
        )
        if self.team is not None:
            own = self.team.settings(self.directory, self.stage.base_url)
            kept = {name: value for name, value in _SETTINGS.items() if not name.startswith("metrics.")}
            self.stage.changes = {**kept, **own}
        self._feed: Feed | None = None
        self._groups: set[tuple[AgentName, ...]] = set()

    @property
    def servers(self) -> str:
        return self.kafka.bootstrap_servers if self.cluster is None else self.cluster.bootstrap_servers

    @property
    def topics(self) -> dict[str, str]:
        """Topic names by content."""
        tasks = {f"tasks.{metric}": self.stage.topic(f"tasks.{metric}") for metric in self.policy.metrics}
        return {name: self.stage.topic(name) for name in ("events", "scores", "dead", "alerts")} | tasks

    async def create_topics(self) -> None:
        at = self.kafka if self.cluster is None else self.cluster.nodes[0]
        copies = 1 if self.cluster is None else COPIES
        await asyncio.gather(
            *(
                asyncio.to_thread(create_topic, at.bootstrap_servers, name, PARTITIONS, copies=copies)
                for name in self.topics.values()
            )
        )

    async def begin(
        self, *, workers: int | None = None, session_seconds: int = SESSION_SECONDS, stretch: float = 1.0
    ) -> None:
        """Start workers (the whole crew by default), let each read, produce, and wait for first verdicts."""
        self.stage.changes["kafka.session_timeout_seconds"] = session_seconds
        await self.start_workers(self.crew if workers is None else workers)
        self.start_feed(stretch=stretch)
        await self.judged(20)

    async def start_workers(
        self,
        count: int,
        *,
        agents: Sequence[AgentName] = AGENTS,
        program: Sequence[str] = PROGRAM,
        own: Mapping[str, str] | None = None,
    ) -> None:
        """Start more workers and wait until each reads; `own` are settings as variables without prefix."""
        config = str(self.stage.write_settings())
        command = [*program, "worker", "--config", config, "--agents", ",".join(agents)]
        if set(agents) <= set(AGENTS):  # the others commit nothing in this group
            self._groups.add(tuple(agents))
        started = []
        for number in range(len(self.workers), len(self.workers) + count):
            name = f"worker-{number}"
            variables = {
                **os.environ,
                **environment(self.constants),
                **{f"JUDGESTREAM_{key}": value for key, value in (own or {}).items()},
            }
            if self.proxies:
                servers = ",".join(f"127.0.0.1:{proxy.port}" for proxy in self.proxies)
                variables["JUDGESTREAM_KAFKA__BOOTSTRAP_SERVERS"] = servers
            started.append(Worker(name, command, variables, self.directory / f"{name}.log"))
        for worker in started:
            await worker.start()
            self.workers.append(worker)
        for worker in started:
            await worker.reads()

    async def roll(self, worker: Worker, program: Sequence[str] | None = None) -> None:
        """Restart a worker, with another program if given, and wait for verdicts."""
        await worker.restart(program=program)
        await worker.reads()
        await self.judged(20)

    def start_feed(self, *, stretch: float = 1.0, poison_every: int = POISON_EVERY, **more: Any) -> None:
        """Produce the events in the background; the last ones when the fault is over."""
        self._feed = Feed(
            bootstrap_servers=self.servers,
            topic=self.topics["events"],
            count=self.size.events,
            seconds=self.size.seconds * stretch,
            poison_every=poison_every,
            **more,
        )

    @property
    def feed(self) -> Feed:
        assert self._feed is not None, "start_feed comes first"
        return self._feed

    async def judged(self, least: int) -> None:
        """Wait until the judge has answered this many more calls, or only the last events are missing."""
        before = await self.judge.change()

        async def enough() -> bool:
            await asyncio.sleep(0.1)  # each poll is a request to the judge
            return self.feed.holds_back or await self.judge.change() >= before + least

        await until(enough, f"{least} more verdicts", deadline_seconds=self.size.settle_seconds)

    async def verdict(self, *, dead_letters: int | None = None, duplicates: int | None = None) -> Report:
        """Produce the last events, wait for every outcome and commit, end the workers, and check."""
        await self.feed.finish()
        read = [*self.topics.values(), *([self.stage.topic("observations")] * self.watches_observations)]
        async with reading(self.servers, read) as reader:
            deadline = time.monotonic() + self.size.settle_seconds
            while time.monotonic() < deadline:
                ends = await reader.catch_up()
                # The checker reads every record at each run, so it runs when nothing is in flight.
                if await self._committed(ends) and check(self._written(reader), self.policy).lost == 0:
                    break
                await asyncio.sleep(0.5)  # poll
            open_at_end = not await self._committed(await reader.catch_up())
            codes = await asyncio.gather(*(worker.end(signal.SIGTERM) for worker in self.workers))
            await reader.catch_up()
            report = self.report = check(self._written(reader), self.policy)
        if open_at_end:
            report.note("offsets not committed up to the end", [self.stage.settings.kafka.group_id])
        ended = zip(self.workers, codes, strict=True)
        bad = [f"{one.name}: {code}" for one, code in ended if code]
        report.note("worker with an exit code other than 0", bad)
        lines = {one.name: math.ceil(len(one.lines("")) / (1 + one.restarts)) for one in self.workers}
        self.log_lines = max(lines.values())
        talkative = [f"{name}: {count}" for name, count in lines.items() if count > LOG_LINES]
        report.note(f"worker with more than {LOG_LINES} log lines a start", talkative)
        logs = "\n".join(f"{worker.name}:\n{worker.tail()}" for worker in self.workers)
        assert not report.problems, f"{report}\n{logs}"
        assert report.read == self.size.events
        assert dead_letters in {None, report.dead_letters}, report
        assert duplicates in {None, report.duplicates}, report
        return report

    def _written(self, reader: TopicReader) -> Written:
        topics = self.topics
        return Written(
            events=reader.records(topics["events"]),
            tasks={metric: reader.records(topics[f"tasks.{metric}"]) for metric in self.policy.metrics},
            scores=reader.records(topics["scores"]),
            dead_letters=reader.records(topics["dead"]),
        )

    async def _committed(self, ends: dict[TopicPartition, int]) -> bool:
        settings = self.stage.settings
        try:
            async with kafka_admin(self.servers) as admin:
                for agents in self._groups:
                    group = group_of(settings.kafka.group_id, agents)
                    offsets = await admin.list_consumer_group_offsets(group)
                    uses = topic_uses(settings, agents)
                    read = {
                        use.name
                        for use in uses
                        if set(use.kind.readers) & set(agents) - _WITHOUT_GROUP.get(use.kind.field, set())
                    }
                    if not all(
                        end == 0 or (place in offsets and offsets[place].offset == end)
                        for place, end in ends.items()
                        if place.topic in read
                    ):
                        return False
        except KafkaError:
            return False
        return True

    async def set_topic(self, topic: str, **configs: str) -> None:
        """Replace a topic's configuration; `max_message_bytes="..."` sets `max.message.bytes`."""
        named = {name.replace("_", "."): value for name, value in configs.items()}
        async with kafka_admin(self.servers) as admin:
            for answer in await admin.alter_configs(
                [ConfigResource(ConfigResourceType.TOPIC, topic, configs=named)]
            ):
                for code, message, *_ in answer.resources:
                    assert code == 0, f"changing {topic}: {message}"

    async def reset_offsets(self) -> None:
        """Set the workers' group, which must be empty, to the first event."""
        events = self.topics["events"]
        async with AIOKafkaConsumer(
            bootstrap_servers=self.servers,
            group_id=self.stage.settings.kafka.group_id,
            enable_auto_commit=False,
        ) as consumer:
            places = [TopicPartition(events, number) for number in range(PARTITIONS)]
            consumer.assign(places)
            await consumer.commit(dict.fromkeys(places, 0))

    async def add_partitions(self, total: int) -> None:
        async with kafka_admin(self.servers) as admin:
            await admin.create_partitions({topic: NewPartitions(total) for topic in self.topics.values()})

    async def close(self) -> None:
        if self._feed is not None:
            await self._feed.cancel()
        for worker in self.workers:
            if worker.process.returncode is None:
                worker.process.kill()
                await worker.process.wait()


Access = Literal["shared", "proxied", "cluster", "proxied cluster", "alone"]
"""The broker: shared, or through a proxy, or three of them, or through a proxy each, or alone."""


@dataclass(frozen=True, slots=True)
class Fault:
    name: str
    play: Callable[[Arena], Awaitable[Report]]
    workers: int
    access: Access
    team: Team | None = None

    @property
    def slug(self) -> str:
        return self.name.lower().translate(_SLUG)


_SLUG: Final = str.maketrans(" ", "-", ",:()=.'")


def fault(
    name: str, *, workers: int = 2, access: Access = "shared", team: Team | None = None
) -> Callable[[Callable[[Arena], Awaitable[Report]]], Fault]:
    """Make a fault of a function; its docstring states the fault and the expected behaviour."""
    return lambda play: Fault(name, play, workers, access, team)
