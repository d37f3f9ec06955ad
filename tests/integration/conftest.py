"""Fixtures of the integration tests: the embedded broker, and Apache Kafka with the marker `kafka`."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from mode.threads import WorkerThread

from tests.integration.bench import Bench
from tests.integration.deadlines import until
from tests.integration.kafka import ApacheKafka
from tests.integration.processes import Endpoint, running_endpoint
from tests.integration.secure_kafka import SecureKafka
from tests.integration.stage import Stage
from tests.integration.ways_in import PARTS, USER
from tests.integration.wire_client import create_topic
from tests.threaded_broker import broker_in_thread

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

HERE: Final = Path(__file__).parent

SECONDS: Final = 400
"""The limit of a test with processes or brokers. Each wait in it has a shorter deadline and names its
condition."""
_HEAVY: Final = ("kafka", "slow", "stock")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        heavy = any(item.get_closest_marker(name) for name in _HEAVY)
        if heavy and item.path.is_relative_to(HERE) and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(SECONDS))


def new_name(stem: str) -> str:
    return f"{stem}-{uuid.uuid4().hex[:8]}"


@dataclass(frozen=True, slots=True)
class RunningBroker:
    kind: str
    bootstrap_servers: str

    def create_topic(self, name: str, partitions: int, **configs: str) -> None:
        create_topic(self.bootstrap_servers, name, partitions, configs=configs)

    def new_topic(self, stem: str, partitions: int = 1, **configs: str) -> str:
        name = new_name(stem)
        self.create_topic(name, partitions, **configs)
        return name

    def producer(self, **options: Any) -> AIOKafkaProducer:
        return AIOKafkaProducer(bootstrap_servers=self.bootstrap_servers, **options)

    def consumer(self, *topics: str, **options: Any) -> AIOKafkaConsumer:
        values = {"bootstrap_servers": self.bootstrap_servers, "auto_offset_reset": "earliest", **options}
        return AIOKafkaConsumer(*topics, **values)


def _consumer_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if isinstance(thread, WorkerThread)]


@pytest.fixture(autouse=True)
async def ended_consumer_threads() -> AsyncIterator[None]:
    """Wait for the consumer threads of crashed applications; their errors would appear in a later test."""
    yield
    with contextlib.suppress(AssertionError):  # threads that remain are not this test's failure
        await until(lambda: not _consumer_threads(), "consumer threads to end", deadline_seconds=30)


@pytest.fixture(scope="session", params=["embedded", pytest.param("apache", marks=pytest.mark.kafka)])
def broker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningBroker]:
    if request.param == "embedded":
        with broker_in_thread() as bootstrap_servers:
            yield RunningBroker("embedded", bootstrap_servers)
        return
    with ApacheKafka(tmp_path_factory.mktemp("kafka")) as kafka:
        yield RunningBroker("apache", kafka.bootstrap_servers)


@pytest.fixture
async def bench(broker: RunningBroker) -> Bench:
    topic = await asyncio.to_thread(broker.new_topic, "bench", 2)
    return Bench(broker.bootstrap_servers, topic)


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureKafka]:
    with SecureKafka(tmp_path_factory.mktemp("secure-kafka"), [USER, *PARTS]) as kafka:
        yield kafka


@pytest.fixture
def bootstrap_servers(broker: RunningBroker) -> str:
    return broker.bootstrap_servers


@pytest.fixture
def stage(bootstrap_servers: str, tmp_path: Path) -> Stage:
    return Stage(bootstrap_servers, tmp_path)


@pytest.fixture
async def endpoint() -> AsyncIterator[Endpoint]:
    async with running_endpoint() as judge:
        yield judge
