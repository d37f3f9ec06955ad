"""The contract of a broker for records and topics, run on the embedded broker and on Apache Kafka."""

from __future__ import annotations

import asyncio

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import NewPartitions, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.admin.records_to_delete import RecordsToDelete
from aiokafka.errors import (
    InvalidTopicError,
    MessageSizeTooLargeError,
    OffsetOutOfRangeError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
)

from tests.integration.admin import kafka_admin
from tests.integration.conftest import RunningBroker, new_name
from tests.integration.deadlines import take, until
from tests.integration.wire_client import WireClient, partition_leaders


async def _send(broker: RunningBroker, topic: str, values: list[bytes], **options: object) -> None:
    async with broker.producer(**options) as producer:
        sent = [await producer.send(topic, value, partition=0) for value in values]
        await asyncio.gather(*sent)


@pytest.mark.parametrize("count", [3, 60])
async def test_each_partition_keeps_its_order(broker: RunningBroker, count: int) -> None:
    topic = broker.new_topic("order", count)
    async with broker.producer(max_batch_size=2000) as producer:
        sent = [await producer.send(topic, b"%d" % number, partition=number % count) for number in range(600)]
        await asyncio.gather(*sent)
    async with broker.consumer(topic) as consumer:
        records = await take(consumer, 600)
    for partition in range(count):
        found = [(record.offset, int(record.value)) for record in records if record.partition == partition]
        # Record n of a partition is number count * n + partition.
        assert found == [(offset, count * offset + partition) for offset in range(600 // count)]


@pytest.mark.parametrize(
    ("key", "value", "headers"),
    [
        (b"key", b"value", [("trace", b"\x00\xff"), ("trace", b"again")]),
        (None, b"no key", []),
        (b"", b"", [("empty", b"")]),
        (b"tombstone", None, []),
    ],
)
async def test_a_record_comes_back_whole(
    broker: RunningBroker, key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes]]
) -> None:
    topic = broker.new_topic("whole")
    async with broker.producer() as producer:
        sent = await producer.send_and_wait(
            topic, value, key=key, headers=headers, timestamp_ms=1_700_000_000_123
        )
    async with broker.consumer(topic) as consumer:
        (record,) = await take(consumer, 1)
    assert (sent.offset, sent.partition) == (0, 0)
    assert (record.key, record.value, list(record.headers)) == (key, value, headers)
    assert (record.timestamp, record.timestamp_type) == (1_700_000_000_123, 0)


@pytest.mark.parametrize("compression", ["gzip", "snappy", "lz4", "zstd"])
async def test_compressed_batches_pass_through(broker: RunningBroker, compression: str) -> None:
    """Compressed batches are delivered; a reader may start inside one."""
    topic = broker.new_topic(compression)
    values = [b"%04d " % number * 20 for number in range(100)]
    await _send(broker, topic, values, compression_type=compression, linger_ms=50)
    async with broker.consumer() as consumer:
        partition = TopicPartition(topic, 0)
        consumer.assign([partition])
        consumer.seek(partition, 37)
        records = await take(consumer, 63)
    assert [record.value for record in records] == values[37:]


@pytest.mark.parametrize("acks", [0, 1, "all"])
async def test_acknowledgement_modes(broker: RunningBroker, acks: int | str) -> None:
    topic = broker.new_topic("acks")
    await _send(broker, topic, [b"one", b"two"], acks=acks)
    async with broker.consumer(topic) as consumer:
        assert [record.value for record in await take(consumer, 2)] == [b"one", b"two"]


@pytest.mark.parametrize("compression", [None, "gzip"])
async def test_offsets_by_time(broker: RunningBroker, compression: str | None) -> None:
    """The first record at or after a time is found, also inside a batch; after the last there is none."""
    topic = broker.new_topic("time")
    partition = TopicPartition(topic, 0)
    async with broker.producer(compression_type=compression, linger_ms=50) as producer:
        # One batch with offsets 0..4 at 1000, 2000 ... 5000 ms.
        sent = [
            await producer.send(topic, b"x" * 50, partition=0, timestamp_ms=1000 * number)
            for number in range(1, 6)
        ]
        await asyncio.gather(*sent)
    async with broker.consumer() as consumer:
        for asked, expected in [(0, (0, 1000)), (2000, (1, 2000)), (2001, (2, 3000)), (5000, (4, 5000))]:
            found = (await consumer.offsets_for_times({partition: asked}))[partition]
            assert (found.offset, found.timestamp) == expected
        assert (await consumer.offsets_for_times({partition: 5001}))[partition] is None
        assert await consumer.beginning_offsets([partition]) == {partition: 0}
        assert await consumer.end_offsets([partition]) == {partition: 5}


async def test_a_waiting_reader_is_woken_by_a_record(broker: RunningBroker) -> None:
    topic = broker.new_topic("poll", 2)
    async with (
        broker.consumer(topic, fetch_max_wait_ms=60_000, request_timeout_ms=90_000) as consumer,
        broker.producer() as producer,
    ):
        for number in range(6):  # from the second record on the reader waits
            waiting = asyncio.create_task(consumer.getone())
            await producer.send_and_wait(topic, b"%d" % number, partition=0)
            record = await asyncio.wait_for(waiting, 45)
            assert record.value == b"%d" % number


async def test_a_group_continues_at_its_committed_offset(broker: RunningBroker) -> None:
    topic = broker.new_topic("commit")
    group = f"{topic}-group"
    partition = TopicPartition(topic, 0)
    await _send(broker, topic, [b"%d" % number for number in range(10)])

    def member() -> AIOKafkaConsumer:
        return broker.consumer(topic, group_id=group, enable_auto_commit=False)

    async with member() as first:
        await take(first, 10)
        assert await first.committed(partition) is None
        await first.commit({partition: (4, "a note")})
    async with member() as second:
        records = await take(second, 6)
        assert await second.committed(partition) == 4
    assert [record.offset for record in records] == [4, 5, 6, 7, 8, 9]


async def test_an_offset_out_of_range(broker: RunningBroker) -> None:
    topic = broker.new_topic("range")
    partition = TopicPartition(topic, 0)
    await _send(broker, topic, [b"first", b"second"])
    async with broker.consumer() as consumer:
        consumer.assign([partition])
        consumer.seek(partition, 1000)
        assert [record.value for record in await take(consumer, 2)] == [b"first", b"second"]
    async with broker.consumer(auto_offset_reset="none") as consumer:
        consumer.assign([partition])
        consumer.seek(partition, 1000)
        with pytest.raises(OffsetOutOfRangeError):
            await asyncio.wait_for(consumer.getone(), 60)


async def test_topics_are_created_extended_configured_and_deleted(broker: RunningBroker) -> None:
    topic = new_name("life")
    async with kafka_admin(broker.bootstrap_servers) as admin:
        created = await admin.create_topics([NewTopic(topic, 2, 1, topic_configs={"retention.ms": "5000"})])
        assert [error for _, error, _ in created.topic_errors] == [0]
        again = await admin.create_topics([NewTopic(topic, 2, 1)])
        assert [error for _, error, _ in again.topic_errors] == [TopicAlreadyExistsError.errno]
        refused = await admin.create_topics([NewTopic("no spaces please", 1, 1)])
        assert [error for _, error, _ in refused.topic_errors] == [InvalidTopicError.errno]

        async def has(partitions: int) -> bool:
            with WireClient(broker.bootstrap_servers) as client:
                error, leaders = partition_leaders(client, topic)
            return error == 0 and len(leaders) == partitions and min(leaders) >= 0

        await until(lambda: has(2), "two partitions")
        await admin.create_partitions({topic: NewPartitions(5)})
        await until(lambda: has(5), "five partitions")

        resource = ConfigResource(ConfigResourceType.TOPIC, topic)
        (described,) = await admin.describe_configs([resource])
        values = {config[0]: config[1] for config in described.resources[0][4]}
        assert values["retention.ms"] == "5000"
        await admin.alter_configs(
            [ConfigResource(ConfigResourceType.TOPIC, topic, configs={"max.message.bytes": "2000"})]
        )
        (described,) = await admin.describe_configs([resource])
        values = {config[0]: config[1] for config in described.resources[0][4]}
        assert values["max.message.bytes"] == "2000"

        assert topic in await admin.list_topics()
        await admin.delete_topics([topic])

        def is_gone() -> bool:
            with WireClient(broker.bootstrap_servers) as client:
                return partition_leaders(client, topic) == (UnknownTopicOrPartitionError.errno, [])

        await until(is_gone, "the topic is gone")


def test_asking_for_an_unknown_topic(broker: RunningBroker) -> None:
    unknown = new_name("unknown")
    with WireClient(broker.bootstrap_servers) as client:
        for _ in range(2):
            assert partition_leaders(client, unknown) == (UnknownTopicOrPartitionError.errno, [])


async def test_a_topic_is_created_by_the_first_record(broker: RunningBroker) -> None:
    topic = new_name("auto")
    async with broker.producer() as producer:
        await producer.send_and_wait(topic, b"first")
        assert await producer.partitions_for(topic) == {0, 1, 2, 3}


async def test_a_large_message(broker: RunningBroker) -> None:
    """5 MB pass if the topic allows them, also with a fetch size of 1 MB; larger messages are refused."""
    large = broker.new_topic("large", max_message_bytes="6000000")
    small = broker.new_topic("small", max_message_bytes="100000")
    message = b"m" * 5_000_000
    async with broker.producer(max_request_size=10_000_000) as producer:
        await producer.send_and_wait(large, b"before")
        await producer.send_and_wait(large, message)
        await producer.send_and_wait(large, b"after")
        with pytest.raises(MessageSizeTooLargeError):
            await producer.send_and_wait(small, b"m" * 100_000)
        await producer.send_and_wait(small, b"m" * 90_000)
    async with broker.consumer(large, max_partition_fetch_bytes=1_000_000) as consumer:
        records = await take(consumer, 3)
    assert [record.value for record in records] == [b"before", message, b"after"]


async def test_lag_can_be_computed(broker: RunningBroker) -> None:
    topic = broker.new_topic("lag")
    partition = TopicPartition(topic, 0)
    await _send(broker, topic, [b"%d" % number for number in range(10)])
    async with broker.consumer() as consumer:
        consumer.assign([partition])
        for _ in range(3):
            await asyncio.wait_for(consumer.getone(), 60)
        # 10 written, 3 read.
        assert consumer.highwater(partition) - await consumer.position(partition) == 7


async def test_deleting_records_moves_the_start(broker: RunningBroker) -> None:
    topic = broker.new_topic("purge")
    partition = TopicPartition(topic, 0)
    await _send(broker, topic, [b"%d" % number for number in range(10)])
    async with kafka_admin(broker.bootstrap_servers) as admin:
        await admin.delete_records({partition: RecordsToDelete(before_offset=6)})
    async with broker.consumer(topic) as consumer:
        records = await take(consumer, 4)
        assert await consumer.beginning_offsets([partition]) == {partition: 6}
    assert [record.offset for record in records] == [6, 7, 8, 9]
