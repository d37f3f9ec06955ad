from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.integration.kafka import ApacheKafka


@pytest.fixture(scope="session")
def bootstrap_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with ApacheKafka(tmp_path_factory.mktemp("kafka")) as kafka:
        yield kafka.bootstrap_servers
