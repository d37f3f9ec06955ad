"""Real workers as processes, a scripted judge, topics of their own, and the end of it all: the checker's report."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Final

import aiohttp
import yaml
from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import KafkaError

from tests.chaos.checker import Policy, Report, Written, check
from tests.chaos.feed import POLICY, feed, settings_changes
from tests.chaos.topic_reader import TopicReader
from tests.integration.deadlines import until
from tests.integration.kafka import ApacheKafka
from tests.integration.stage import Stage
from tests.integration.wire_client import create_topic

ROOT: Final = Path(__file__).parents[2]
PARTITIONS: Final = 6
SESSION_SECONDS: Final = 6
END_SECONDS: Final = 60.0
READS: Final = '"event": "reading"'
"""In the log once a worker has its partitions."""
_LOOK_AGAIN_SECONDS = 0.5
_LOG_TAIL_CHARS = 3_000


@dataclass(frozen=True, slots=True)
class Size:
    """How much one fault is given to disturb.

    Args:
        events: Events produced.
        seconds: Over how long; the faults fall into this time.
        settle_seconds: How long everything may take to be done after that.
    """

    events: int
    seconds: float
    settle_seconds: float


SHORT: Final = Size(events=2_000, seconds=6, settle_seconds=120)
LONG: Final = Size(events=20_000, seconds=60, settle_seconds=300)


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the suite's report."""

    fault: str
    report: Report
    seconds: float


@dataclass(eq=False)
class Worker:
    """One worker's process; started anew under the same name as often as needed."""

    name: str
    command: Sequence[str]
    environment: dict[str, str]
    log: Path
    process: asyncio.subprocess.Process | None = None
    _starts: int = 0

    @property
    def pid(self) -> int:
        """The process now running."""
        assert self.process is not None, f"{self.name} was never started"
        return self.process.pid

    async def start(self) -> None:
        """Start it."""
        self._starts = self.lines(READS)
        log: IO[bytes]
        with self.log.open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                *self.command, cwd=ROOT, env=self.environment, stdout=log, stderr=log
            )

    async def end(self, how: signal.Signals) -> int:
        """End it and wait for that; a worker that was asked and does not end in time is a failure."""
        process = self.process
        assert process is not None, f"{self.name} was never started"
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(how)
        try:
            return await asyncio.wait_for(process.wait(), END_SECONDS)
        except TimeoutError:
            process.kill()
            await process.wait()
            raise AssertionError(f"{self.name} did not end on {how.name}:\n{self.tail()}") from None

    async def reads(self) -> None:
        """Wait until what was started last reads."""

        def reads() -> bool:
            assert self.process is not None, f"{self.name} was never started"
            assert self.process.returncode is None, f"{self.name} did not start:\n{self.tail()}"
            return self.lines(READS) > self._starts

        await until(reads, f"{self.name} reads", deadline_seconds=END_SECONDS)

    def lines(self, text: str) -> int:
        """How many lines of its log hold a text."""
        if not self.log.exists():
            return 0
        return sum(text in line for line in self.log.read_text(errors="replace").splitlines())

    def tail(self) -> str:
        """The end of its log."""
        return self.log.read_text(errors="replace")[-_LOG_TAIL_CHARS:]


@dataclass(eq=False)
class Judge:
    """The scripted judge's process."""

    log: Path
    port: int = 0
    process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Start it, at the port it had before."""
        with self.log.open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "tests.chaos.endpoint",
                str(self.port),
                cwd=ROOT,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
            )
        assert self.process.stdout is not None
        line = await asyncio.wait_for(self.process.stdout.readline(), 30)
        assert line, f"the scripted judge did not start:\n{self.log.read_text()[-_LOG_TAIL_CHARS:]}"
        self.port = int(line)

    async def kill(self) -> None:
        """End it at once: connections are refused from now on."""
        if self.process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        await self.process.wait()
        # The pipe's transport would otherwise be closed by the collector, which warns.
        self.process._transport.close()  # type: ignore[attr-defined] # there is no public way
        self.process = None

    async def change(self, **how: Any) -> int:
        """Change how it answers; gives how often it has."""
        async with (
            aiohttp.ClientSession() as session,
            session.post(f"http://127.0.0.1:{self.port}/mode", json=how) as response,
        ):
            return int((await response.json())["answered"])


@dataclass(eq=False)
class Arena:
    """Everything of one fault."""

    kafka: ApacheKafka
    directory: Path
    judge: Judge
    size: Size
    policy: Policy = POLICY
    workers: list[Worker] = field(default_factory=list)
    poison_every: int = 1000

    def __post_init__(self) -> None:
        self.stage = Stage(
            self.kafka.bootstrap_servers,
            self.directory,
            partitions=PARTITIONS,
            metrics=tuple(self.policy.metrics),
            base_url=f"http://127.0.0.1:{self.judge.port}/v1",
            changes={
                **settings_changes(),
                "kafka.session_timeout_seconds": SESSION_SECONDS,
                "kafka.rebalance_timeout_seconds": 8,
                "kafka.producer_timeout_seconds": 10,
                "judge.timeout_seconds": 3,
            },
        )
        self._feeding: asyncio.Task[None] | None = None

    @property
    def topics(self) -> dict[str, str]:
        """Names by what they hold."""
        tasks = {f"tasks.{metric}": self.stage.topic(f"tasks.{metric}") for metric in self.policy.metrics}
        return {name: self.stage.topic(name) for name in ("events", "scores", "dead", "alerts")} | tasks

    async def create_topics(self) -> None:
        """Create all topics."""
        for topic in self.topics.values():
            await asyncio.to_thread(create_topic, self.kafka.bootstrap_servers, topic, PARTITIONS)

    async def start_workers(
        self, count: int, *, static: bool = False, through_port: int | None = None
    ) -> None:
        """Start workers, and wait until each of them reads.

        Args:
            count: How many.
            static: Whether each keeps its place in the group over a restart.
            through_port: Where they find the broker, if not directly.
        """
        settings = self.directory / "settings.yaml"
        settings.write_text(yaml.safe_dump(self.stage.document()), encoding="utf-8")
        command = [str(Path(sys.executable).with_name("judgestream")), "worker", "--config", str(settings)]
        for number in range(count):
            name = f"worker-{number}"
            environment = dict(os.environ)
            if static:
                environment["JUDGESTREAM_KAFKA__GROUP_INSTANCE_ID"] = name
            if through_port is not None:
                environment["JUDGESTREAM_KAFKA__BOOTSTRAP_SERVERS"] = f"127.0.0.1:{through_port}"
            worker = Worker(name, command, environment, self.directory / f"{name}.log")
            self.workers.append(worker)
            await worker.start()
        for worker in self.workers:
            await worker.reads()

    def start_feed(self, *, stretch: float = 1.0) -> None:
        """Produce the events, in the background; over so many times as long, where a fault takes long."""
        self._feeding = asyncio.create_task(
            feed(
                self.kafka.bootstrap_servers,
                self.topics["events"],
                count=self.size.events,
                seconds=self.size.seconds * stretch,
                poison_every=self.poison_every,
            )
        )

    @property
    def feeding(self) -> bool:
        """Whether events are still being produced."""
        return self._feeding is not None and not self._feeding.done()

    async def judged(self, least: int) -> None:
        """Wait until the judge has answered so many calls more than now, or all events were produced."""
        before = await self.judge.change()

        async def enough() -> bool:
            return not self.feeding or await self.judge.change() >= before + least

        await until(enough, f"{least} more verdicts", deadline_seconds=self.size.settle_seconds)

    async def settle(self) -> Report:
        """Wait until every event has its outcome and everything is committed; end the workers; take the last look.

        Raises:
            AssertionError: A worker does not end in order. What is lost or invented is in the report.
        """
        assert self._feeding is not None, "start_feed comes first"
        await self._feeding
        async with TopicReader(self.kafka.bootstrap_servers, self.topics.values()) as reader:
            deadline = time.monotonic() + self.size.settle_seconds
            while time.monotonic() < deadline:
                ends = await reader.catch_up()
                if check(self._written(reader), self.policy).lost == 0 and await self._committed(ends):
                    break
                await asyncio.sleep(_LOOK_AGAIN_SECONDS)
            open_at_end = not await self._committed(await reader.catch_up())
            codes = await asyncio.gather(*(worker.end(signal.SIGTERM) for worker in self.workers))
            await reader.catch_up()
            report = check(self._written(reader), self.policy)
        if open_at_end:
            report.note("offsets not committed up to the end", [self.stage.settings.kafka.group_id])
        report.note(
            "worker with an exit code other than 0",
            [f"{one.name}: {code}" for one, code in zip(self.workers, codes, strict=True) if code],
        )
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
        """Whether the group has committed the end of everything it reads."""
        read = {self.topics["events"], self.topics["scores"]}
        read |= {self.topics[f"tasks.{metric}"] for metric in self.policy.metrics}
        try:
            async with self.admin() as admin:
                offsets = await admin.list_consumer_group_offsets(self.stage.settings.kafka.group_id)
        except KafkaError:
            return False
        return all(
            end == 0 or (place in offsets and offsets[place].offset == end)
            for place, end in ends.items()
            if place.topic in read
        )

    @contextlib.asynccontextmanager
    async def admin(self) -> Any:
        """A client for changes to the broker."""
        admin = AIOKafkaAdminClient(bootstrap_servers=self.kafka.bootstrap_servers)
        await admin.start()
        try:
            yield admin
        finally:
            await admin.close()

    async def set_topic(self, topic: str, **configs: str) -> None:
        """Replace a topic's own configuration; `max_message_bytes="..."` sets `max.message.bytes`."""
        named = {name.replace("_", "."): value for name, value in configs.items()}
        async with self.admin() as admin:
            for answer in await admin.alter_configs(
                [ConfigResource(ConfigResourceType.TOPIC, topic, configs=named)]
            ):
                for code, message, *_ in answer.resources:
                    assert code == 0, f"changing {topic}: {message}"

    async def add_partitions(self, total: int) -> None:
        """Give every topic more partitions."""
        async with self.admin() as admin:
            await admin.create_partitions({topic: NewPartitions(total) for topic in self.topics.values()})

    async def close(self) -> None:
        """End whatever still runs."""
        if self._feeding is not None and not self._feeding.done():
            self._feeding.cancel()
            await asyncio.gather(self._feeding, return_exceptions=True)
        for worker in self.workers:
            if worker.process is not None and worker.process.returncode is None:
                worker.process.kill()
                await worker.process.wait()
