"""Apache Kafka, once per run, and a judge's endpoint for each test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from tests.integration.kafka import ApacheKafka
from tests.integration.processes import Endpoint


@pytest.fixture(scope="session")
def bootstrap_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Host and port of the broker."""
    kafka = ApacheKafka(tmp_path_factory.mktemp("kafka"))
    kafka.start()
    yield kafka.bootstrap_servers
    kafka.stop()


@pytest.fixture
async def judge() -> AsyncIterator[Endpoint]:
    """An endpoint for workers in their own processes."""
    async with Endpoint() as endpoint:
        yield endpoint
