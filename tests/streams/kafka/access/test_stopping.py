from __future__ import annotations

import asyncio

from aiokafka import AIOKafkaConsumer

from streams.kafka.access.stopping import stop_consumer
from tests.threaded_broker import broker_in_thread


async def test_a_fetch_that_waits_after_an_error_leaves_no_connection_open() -> None:
    """A stop cancels a waiting fetch and closes all connections."""
    with broker_in_thread() as servers:
        consumer = AIOKafkaConsumer("events", bootstrap_servers=servers, group_id=None)
        await consumer.start()
        connections = list(consumer._client._conns.values())
        consumer._fetcher._pending_tasks.add(asyncio.create_task(asyncio.sleep(600)))
        await stop_consumer(consumer)
    assert connections
    assert not any(one.connected() for one in connections)


async def test_a_consumer_that_did_not_start_is_stopped() -> None:
    """A consumer that was not started can be stopped."""
    with broker_in_thread() as servers:
        await stop_consumer(AIOKafkaConsumer("events", bootstrap_servers=servers, group_id=None))
