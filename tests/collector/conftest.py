from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.integration.kafka import ApacheKafka


@pytest.fixture(scope="session")
def bootstrap_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    kafka = ApacheKafka(tmp_path_factory.mktemp("kafka"))
    kafka.start()
    yield kafka.bootstrap_servers
    kafka.stop()
