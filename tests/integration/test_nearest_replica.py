"""Reading from the nearest replica: fetches name the worker's rack."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from aiokafka.consumer import fetcher

from streams.kafka.transport import Plan
from tests.integration.conftest import RunningBroker
from tests.integration.deadlines import until
from tests.integration.test_transport import Bench


@pytest.mark.parametrize(("rack", "told"), [("eu-west-1a", "eu-west-1a"), (None, "")])
async def test_every_fetch_tells_the_rack(
    broker: RunningBroker,
    topic_name: Callable[[str], str],
    monkeypatch: pytest.MonkeyPatch,
    rack: str | None,
    told: str,
) -> None:
    """Every fetch names `kafka.client_rack`, or no rack if it is unset."""
    racks: set[str] = set()
    request = fetcher.FetchRequest

    def noted(*arguments: Any, **named: Any) -> Any:
        racks.add(named["rack_id"])
        return request(*arguments, **named)

    monkeypatch.setattr(fetcher, "FetchRequest", noted)
    topic = topic_name("near")
    broker.create_topic(topic, 1)
    bench = Bench(broker.bootstrap_servers, topic)
    async with bench.app(Plan(finish_seconds=0.1, client_rack=rack)) as (_, hands):
        await bench.produce(2)
        await until(lambda: len(hands.taken) == 2, "two records")
    assert racks == {told}
