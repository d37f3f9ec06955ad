"""Brokers for the integration tests: the embedded one, and Apache Kafka where the
marker `kafka` is selected.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

import pytest
from mode.threads import WorkerThread

from tests.integration.deadlines import until
from tests.integration.kafka import ApacheKafka, KafkaUnavailableError
from tests.integration.secure_kafka import SecureKafka
from tests.integration.ways_in import PARTS, USER
from tests.integration.wire_client import create_topic
from tests.threaded_broker import broker_in_thread

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

Node = TypeVar("Node", bound=ApacheKafka)
HERE: Final = Path(__file__).parent

SECONDS: Final = 400
"""For a test with real processes or brokers. Each of its waits has a deadline and says what was waited for;
this comes after several of them."""
_HEAVY: Final = ("kafka", "slow", "stock")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give tests that start processes more time than the others, where they do not say how much."""
    for item in items:
        heavy = any(item.get_closest_marker(name) for name in _HEAVY)
        if heavy and item.path.is_relative_to(HERE) and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(SECONDS))


@dataclass(frozen=True, slots=True)
class RunningBroker:
    """A broker that answers.

    Attributes:
        kind: "embedded" or "apache".
        bootstrap_servers: Host and port for clients.
    """

    kind: str
    bootstrap_servers: str

    def create_topic(self, name: str, partitions: int, **configs: str) -> None:
        """Create a topic and wait until it can be used.

        `max_message_bytes="..."` sets `max.message.bytes`.
        """
        create_topic(
            self.bootstrap_servers,
            name,
            partitions,
            configs={key.replace("_", "."): value for key, value in configs.items()},
        )


def _consumer_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if isinstance(thread, WorkerThread)]


@pytest.fixture(autouse=True)
async def ended_consumer_threads() -> AsyncIterator[None]:
    """Let the consumer threads of crashed applications end while the event loop that they report to is still
    open.

    Otherwise they complain in the middle of a later test, which has nothing to do with them.
    """
    yield
    with contextlib.suppress(AssertionError):  # what matters is that nothing was cut short
        await until(lambda: not _consumer_threads(), "consumer threads to end", deadline_seconds=30)


@pytest.fixture(scope="session", params=["embedded", pytest.param("apache", marks=pytest.mark.kafka)])
def broker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningBroker]:
    """Each of the two brokers in turn, once for the whole run."""
    if request.param == "embedded":
        with broker_in_thread() as bootstrap_servers:
            yield RunningBroker("embedded", bootstrap_servers)
        return
    with _running(ApacheKafka(tmp_path_factory.mktemp("kafka"))) as kafka:
        yield RunningBroker("apache", kafka.bootstrap_servers)


@pytest.fixture(scope="session")
def secure_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureKafka]:
    """Apache Kafka that lets in whom it knows and allows what was granted, once for the whole run."""
    with _running(SecureKafka(tmp_path_factory.mktemp("secure-kafka"), [USER, *PARTS])) as kafka:
        yield kafka


@contextlib.contextmanager
def _running(kafka: Node) -> Iterator[Node]:
    unavailable: str | None = None
    try:
        kafka.start()
    except KafkaUnavailableError as error:
        unavailable = str(error)
    if unavailable is not None:  # a failure, never a skip: who selects the marker wants these tests run
        pytest.fail(unavailable, pytrace=False)
    try:
        yield kafka
    finally:
        kafka.stop()


@pytest.fixture
def bootstrap_servers(broker: RunningBroker) -> str:
    """Host and port of the broker under test."""
    return broker.bootstrap_servers


@pytest.fixture(scope="session")
def topic_name() -> Callable[[str], str]:
    """Makes topic and group names that no other test uses."""
    run = uuid.uuid4().hex[:8]
    numbers = itertools.count(1)
    return lambda stem: f"{stem}-{run}-{next(numbers)}"
