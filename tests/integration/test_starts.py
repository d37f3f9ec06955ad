"""The start position of a new consumer group."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from streams.kafka.consumer import ConsumerOptions
from tests.integration.bench import Bench
from tests.integration.deadlines import until


def _plan(bench: Bench, start: object) -> ConsumerOptions:
    return ConsumerOptions(finish_seconds=0.1, starts={bench.topic: start})  # type: ignore[dict-item] # one of a Start's kinds


async def test_a_new_group_passes_over_the_backlog_alone(bench: Bench) -> None:
    """Records that arrive while the group is away are read."""
    await bench.produce(3)
    async with bench.app(_plan(bench, "latest")) as (_, hands):
        await bench.commits(3)
        await bench.produce(1)
        await until(lambda: hands.places == [(0, 3)], "the new record")
        await hands.ack(0, 3)
    await bench.produce(2)
    async with bench.app(_plan(bench, "latest")) as (_, hands):
        await until(lambda: len(hands.taken) == 2, "the records that came meanwhile")
        assert hands.places == [(0, 4), (0, 5)]


async def test_a_partition_that_is_added_is_no_backlog(bench: Bench) -> None:
    """An added partition is read from its start; the group has committed on partition 0 alone."""
    await bench.produce(2, partition=1)
    async with AIOKafkaConsumer(
        bootstrap_servers=bench.kafka.bootstrap_servers,
        group_id=bench.kafka.group_id,
        enable_auto_commit=False,
    ) as consumer:
        consumer.assign([TopicPartition(bench.topic, 0)])
        await consumer.commit({TopicPartition(bench.topic, 0): 0})
    async with bench.app(_plan(bench, "latest")) as (_, hands):
        await until(lambda: len(hands.taken) == 2, "both records of the added partition")
        assert hands.places == [(1, 0), (1, 1)]


async def test_a_new_group_starts_at_a_time(bench: Bench) -> None:
    """A start time 2.5 hours ago skips the record of 3 hours ago and reads those of 2 and 1."""
    now = datetime.now(UTC)
    async with AIOKafkaProducer(bootstrap_servers=bench.kafka.bootstrap_servers) as producer:
        for hours in (3, 2, 1):
            moment = round((now - timedelta(hours=hours)).timestamp() * 1000)
            await producer.send_and_wait(bench.topic, b"v", partition=0, timestamp_ms=moment)
    async with bench.app(_plan(bench, now - timedelta(hours=2.5))) as (_, hands):
        await until(lambda: len(hands.taken) == 2, "the records since then")
        assert hands.places == [(0, 1), (0, 2)]
