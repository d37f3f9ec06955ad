"""The contract of a broker for groups and idempotent producers, run on both brokers."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import InvalidProducerEpoch, KafkaConnectionError, KafkaError, OutOfOrderSequenceNumber
from aiokafka.protocol.offset import OffsetRequest_v2
from aiokafka.protocol.produce import ProduceRequest

from tests.integration.admin import kafka_admin
from tests.integration.conftest import RunningBroker
from tests.integration.deadlines import take, until
from tests.integration.wire_client import WireClient, init_producer_id, produce_batch, produce_request
from tests.streams.kafka.logs import batch


def _group(topic: str) -> str:
    return f"{topic}-group"


def _member(broker: RunningBroker, topic: str, **options: Any) -> AIOKafkaConsumer:
    settings: dict[str, Any] = {
        "group_id": _group(topic),
        "enable_auto_commit": False,
        "session_timeout_ms": 6000,
        "heartbeat_interval_ms": 100,
        "retry_backoff_ms": 50,
    }
    return broker.consumer(topic, **{**settings, **options})


async def _vanish(consumer: AIOKafkaConsumer) -> None:
    """End a consumer as a crash would: connections close without LeaveGroup."""

    async def stay_silent() -> None:
        """Send no LeaveGroup."""

    consumer._coordinator._maybe_leave_group = stay_silent
    await consumer.stop()


def _partitions(*consumers: AIOKafkaConsumer) -> list[list[int]]:
    return [sorted(partition.partition for partition in consumer.assignment()) for consumer in consumers]


def _shared_out(consumers: Iterable[AIOKafkaConsumer], count: int) -> Callable[[], bool]:
    """Whether every partition is assigned exactly once and every member has one."""

    def holds() -> bool:
        shares = _partitions(*consumers)
        return all(shares) and sorted(itertools.chain(*shares)) == list(range(count))

    return holds


async def test_partitions_are_shared_among_the_members(broker: RunningBroker) -> None:
    topic = broker.new_topic("share", 6)
    async with _member(broker, topic) as first:
        await until(_shared_out([first], 6), "one member owns all")
        async with _member(broker, topic) as second:
            await until(_shared_out([first, second], 6), "two members share")
            async with _member(broker, topic) as third:
                await until(_shared_out([first, second, third], 6), "three members share")
            await until(_shared_out([first, second], 6), "two members share again")
        await until(_shared_out([first], 6), "one member owns all again")


async def test_members_that_start_together(broker: RunningBroker) -> None:
    topic = broker.new_topic("together", 7)
    consumers = [_member(broker, topic) for _ in range(3)]
    try:
        await asyncio.gather(*(consumer.start() for consumer in consumers))
        await until(_shared_out(consumers, 7), "three members share")
    finally:
        await asyncio.gather(*(consumer.stop() for consumer in consumers))


async def test_a_dead_member_is_replaced(broker: RunningBroker) -> None:
    topic = broker.new_topic("death", 2)
    async with broker.producer() as producer:
        for number in range(20):
            await producer.send(topic, b"%d" % number, partition=number % 2)
    dead = _member(broker, topic, session_timeout_ms=1000)
    await dead.start()
    await take(dead, 20)
    await dead.commit({TopicPartition(topic, 0): 7, TopicPartition(topic, 1): 10})
    await _vanish(dead)
    async with _member(broker, topic) as heir:
        records = await take(heir, 3)
    # Ten records a partition: 3 were not committed on partition 0, none on partition 1.
    assert [(record.partition, record.offset) for record in records] == [(0, 7), (0, 8), (0, 9)]


async def test_many_members_come_and_go_and_nothing_is_lost(broker: RunningBroker) -> None:
    topic = broker.new_topic("churn", 4)
    total = 3000
    seen: set[int] = set()

    async def read(consumer: AIOKafkaConsumer) -> None:
        while True:
            batches = await consumer.getmany(timeout_ms=100, max_records=50)
            for records in batches.values():
                seen.update(int(record.value) for record in records)
            if batches:
                with contextlib.suppress(
                    KafkaError
                ):  # a rebalance came first: the next owner reads them again
                    await consumer.commit()

    async def live(life_seconds: float, end: Callable[[AIOKafkaConsumer], Any]) -> None:
        consumer = _member(broker, topic, session_timeout_ms=1000)
        await consumer.start()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(read(consumer), life_seconds)
        await end(consumer)

    async def write() -> None:
        async with broker.producer(enable_idempotence=True) as producer:
            for number in range(total):
                await producer.send(topic, b"%d" % number, partition=number % 4)
                if number % 20 == 0:
                    await asyncio.sleep(0.015)  # the flow outlasts the members

    await asyncio.gather(
        write(), live(1.0, _vanish), live(1.5, AIOKafkaConsumer.stop), live(0.6, AIOKafkaConsumer.stop)
    )
    async with _member(broker, topic) as last:
        reading = asyncio.create_task(read(last))
        await until(lambda: len(seen) == total, f"all {total} records")
        reading.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await reading
    assert seen == set(range(total))


async def test_groups_can_be_looked_at(broker: RunningBroker) -> None:
    topic = broker.new_topic("look")
    group, partition = _group(topic), TopicPartition(topic, 0)
    async with (
        kafka_admin(broker.bootstrap_servers) as admin,
        _member(broker, topic, client_id="seen") as member,
    ):
        await until(_shared_out([member], 1), "it joined")
        await member.commit({partition: 0})
        (described,) = await admin.describe_consumer_groups([group])
        ((error, name, state, kind, _, members, *_),) = described.groups
        assert (error, name, state, kind) == (0, group, "Stable", "consumer")
        assert [client_id for _, client_id, *_ in members] == ["seen"]
        assert (group, "consumer") in [tuple(one[:2]) for one in await admin.list_consumer_groups()]
        offsets = await admin.list_consumer_group_offsets(group)
        assert offsets[partition].offset == 0


def end_offset(client: WireClient, topic: str) -> int:
    ((_, ((_, _, _, offset),)),) = client.ask(OffsetRequest_v2(-1, 0, [(topic, [(0, -1)])])).topics
    found: int = offset
    return found


def test_a_batch_sent_twice_is_stored_once(broker: RunningBroker) -> None:
    topic = broker.new_topic("retry")
    with WireClient(broker.bootstrap_servers) as client:
        _, producer = init_producer_id(client)
        # Two records a batch: batch n has sequences and offsets 2n and 2n + 1.
        batches = [batch([b"a", b"b"], producer=producer, sequence=2 * number) for number in range(6)]
        for number, data in enumerate(batches):
            assert produce_batch(client, topic, data) == (0, 2 * number)
        for number in range(1, 6):
            assert produce_batch(client, topic, batches[number]) == (0, 2 * number)
        # The first is no longer among the last five: it is refused.
        error, _ = produce_batch(client, topic, batches[0])
        assert error == OutOfOrderSequenceNumber.errno
        assert end_offset(client, topic) == 12


@pytest.mark.parametrize(
    "batches",
    [
        # A batch after a missing one is refused; the missing one is accepted later.
        [(0, 0, None), (0, 2, OutOfOrderSequenceNumber.errno), (0, 1, None), (0, 2, None)],
        # A newer epoch starts at sequence 0; then the older one is refused.
        [
            (0, 0, None),
            (1, 7, OutOfOrderSequenceNumber.errno),
            (1, 0, None),
            (0, 1, InvalidProducerEpoch.errno),
        ],
    ],
    ids=["gap", "epoch"],
)
def test_sequences_have_no_gap_and_epochs_grow(
    broker: RunningBroker, batches: list[tuple[int, int, int | None]]
) -> None:
    topic, stored = broker.new_topic("sequence"), 0
    with WireClient(broker.bootstrap_servers) as client:
        _, producer = init_producer_id(client)
        for epoch, sequence, refusal in batches:
            outcome = produce_batch(
                client, topic, batch([b"x"], producer=producer, epoch=epoch, sequence=sequence)
            )
            if refusal is None:
                assert outcome == (0, stored)
                stored += 1
            else:
                assert outcome[0] == refusal
        assert end_offset(client, topic) == stored


def test_a_connection_lost_before_the_answer(broker: RunningBroker) -> None:
    topic = broker.new_topic("lost")
    with WireClient(broker.bootstrap_servers) as second:
        _, producer = init_producer_id(second)
        data = batch([b"once"], producer=producer, sequence=0)
        with WireClient(broker.bootstrap_servers) as first:
            first.post(produce_request(topic, data))
            first.socket.recv(1)  # it was answered, so it was stored
        assert produce_batch(second, topic, data) == (0, 0)
        assert end_offset(second, topic) == 1


async def test_a_client_library_that_loses_answers_makes_no_duplicates(broker: RunningBroker) -> None:
    topic = broker.new_topic("lossy")
    async with broker.producer(enable_idempotence=True, retry_backoff_ms=10) as producer:
        deliver = producer.client.send
        requests = lost = 0

        async def send(node_id: int, request: Any, **options: Any) -> Any:
            nonlocal requests, lost
            answer = await deliver(node_id, request, **options)
            if isinstance(request, ProduceRequest):
                requests += 1
                if requests % 3 == 0:
                    lost += 1
                    raise KafkaConnectionError("the answer was lost")
            return answer

        producer.client.send = send
        for number in range(30):
            await producer.send_and_wait(topic, b"%d" % number, partition=0)
    assert lost >= 10
    async with broker.consumer(topic) as consumer:
        records = await take(consumer, 30)
    assert [int(record.value) for record in records] == list(range(30))
