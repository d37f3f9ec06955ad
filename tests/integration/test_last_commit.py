"""The last commit includes every finished record."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from streams.kafka import consumer_thread
from tests.integration.conftest import RunningBroker
from tests.integration.deadlines import until
from tests.integration.test_transport import Bench


async def test_a_record_that_finishes_during_a_commit_is_committed(
    broker: RunningBroker, topic_name: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A record that finishes during a commit is committed at the stop."""
    topic = topic_name("last")
    broker.create_topic(topic, 1)
    bench = Bench(broker.bootstrap_servers, topic)
    under_way, go_on = asyncio.Event(), asyncio.Event()
    commit = consumer_thread.ConsumerThread.commit

    async def slow(self: consumer_thread.ConsumerThread, offsets: Any) -> bool:
        under_way.set()
        await go_on.wait()
        return await commit(self, offsets)

    monkeypatch.setattr(consumer_thread.ConsumerThread, "commit", slow)
    async with bench.app() as (app, hands):
        await bench.produce(2)
        await until(lambda: len(hands.taken) == 2, "two records")
        await hands.ack(0, 0)
        await asyncio.wait_for(under_way.wait(), 60)
        await hands.ack(0, 1)
        stopping = asyncio.create_task(app.stop())
        await until(lambda: app.consumer.should_stop, "the stop")
        go_on.set()
        await asyncio.wait_for(stopping, 60)
    assert await bench.committed() == 2
