"""The contract of a broker for consumer groups, run on the embedded broker and on Apache Kafka."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from typing import TYPE_CHECKING, Any

import pytest
from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.errors import KafkaError

from streams.embedded.wire import ApiKey, ErrorCode, Writer
from tests.integration.admin import kafka_admin
from tests.integration.deadlines import take, until
from tests.integration.wire_client import WireClient, await_coordinator

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from streams.embedded.wire import Reader
    from tests.integration.conftest import RunningBroker


def _member(
    broker: RunningBroker, topic: str, group: str, *, instance_id: str | None = None, **options: Any
) -> AIOKafkaConsumer:
    settings: dict[str, Any] = {
        "bootstrap_servers": broker.bootstrap_servers,
        "group_id": group,
        "group_instance_id": instance_id,
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
        "session_timeout_ms": 6000,
        "heartbeat_interval_ms": 100,
        "retry_backoff_ms": 50,
    }
    return AIOKafkaConsumer(topic, **{**settings, **options})


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
    group = f"{topic}-group"
    async with _member(broker, topic, group) as first:
        await until(_shared_out([first], 6), "one member owns all")
        async with _member(broker, topic, group) as second:
            await until(_shared_out([first, second], 6), "two members share")
            async with _member(broker, topic, group) as third:
                await until(_shared_out([first, second, third], 6), "three members share")
            await until(_shared_out([first, second], 6), "two members share again")
        await until(_shared_out([first], 6), "one member owns all again")


async def test_members_that_start_together(broker: RunningBroker) -> None:
    topic = broker.new_topic("together", 7)
    group = f"{topic}-group"
    consumers = [_member(broker, topic, group) for _ in range(3)]
    try:
        await asyncio.gather(*(consumer.start() for consumer in consumers))
        await until(_shared_out(consumers, 7), "three members share")
    finally:
        await asyncio.gather(*(consumer.stop() for consumer in consumers))


async def test_a_dead_member_is_replaced(broker: RunningBroker) -> None:
    topic = broker.new_topic("death", 2)
    group = f"{topic}-group"
    async with broker.producer() as producer:
        for number in range(20):
            await producer.send(topic, b"%d" % number, partition=number % 2)
    dead = _member(broker, topic, group, session_timeout_ms=1000)
    await dead.start()
    await take(dead, 20)
    await dead.commit({TopicPartition(topic, 0): 7, TopicPartition(topic, 1): 10})
    await _vanish(dead)
    async with _member(broker, topic, group) as heir:
        records = await take(heir, 3)
    # Ten records a partition: 3 were not committed on partition 0, none on partition 1.
    assert [(record.partition, record.offset) for record in records] == [(0, 7), (0, 8), (0, 9)]


class _Revocations(ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka has no annotations
    """Counts revocations."""

    def __init__(self) -> None:
        self.count = 0

    async def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        del revoked
        self.count += 1

    async def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        """Nothing to do."""


@pytest.mark.parametrize("restarted", ["leader", "follower"])
async def test_a_static_member_restarts_without_a_rebalance(broker: RunningBroker, restarted: str) -> None:
    topic = broker.new_topic("static", 4)
    group = f"{topic}-group"
    revocations = _Revocations()
    leader = _member(broker, topic, group, instance_id="leader")
    follower = _member(broker, topic, group, instance_id="follower")
    leaves, stays = (leader, follower) if restarted == "leader" else (follower, leader)
    stays.subscribe([topic], listener=revocations)
    async with leader, follower:
        await until(_shared_out([leader, follower], 4), "two members share")
        (share,) = _partitions(leaves)
        generation, revoked_before = stays._coordinator.generation, revocations.count
        await leaves.stop()
        async with _member(broker, topic, group, instance_id=restarted) as back:
            await until(lambda: _partitions(back) == [share], "it owns what it owned")
            assert back._coordinator.generation == stays._coordinator.generation == generation
            assert revocations.count == revoked_before
            assert _shared_out([back, stays], 4)()


async def test_a_static_member_that_stays_away(broker: RunningBroker) -> None:
    topic = broker.new_topic("away", 4)
    group = f"{topic}-group"
    async with _member(broker, topic, group, instance_id="stays") as stays:
        away = _member(broker, topic, group, instance_id="away", session_timeout_ms=1000)
        async with away:
            await until(_shared_out([stays, away], 4), "two members share")
        await until(_shared_out([stays], 4), "the one that stayed owns all")


async def test_many_members_come_and_go_and_nothing_is_lost(broker: RunningBroker) -> None:
    """Members join, leave and crash while records flow; the group reads every record."""
    topic = broker.new_topic("churn", 4)
    group = f"{topic}-group"
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
        consumer = _member(broker, topic, group, session_timeout_ms=1000)
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
    async with _member(broker, topic, group) as last:
        reading = asyncio.create_task(read(last))
        await until(lambda: len(seen) == total, f"all {total} records")
        reading.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await reading
    assert seen == set(range(total))


async def test_groups_can_be_looked_at(broker: RunningBroker) -> None:
    topic = broker.new_topic("look")
    group = f"{topic}-group"
    partition = TopicPartition(topic, 0)
    async with (
        kafka_admin(broker.bootstrap_servers) as admin,
        _member(broker, topic, group, client_id="seen") as member,
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


class _StaticMember:
    """A static member of a group, request by request."""

    def __init__(self, client: WireClient, group: str, instance_id: str) -> None:
        self.client = client
        self.group = group
        self.instance_id = instance_id

    def join(self, member_id: str = "") -> tuple[int, int, str]:
        """Error, generation and member id."""
        body = Writer()

        def write_protocol(name: str) -> None:
            body.string(name)
            body.byte_string(b"")

        body.string(self.group)
        body.int32(6000)
        body.int32(6000)
        body.string(member_id)
        body.string(self.instance_id)
        body.string("consumer")
        body.array(("range",), write_protocol)
        answer = self.client.call(ApiKey.JOIN_GROUP, 5, body)
        answer.int32()
        error, generation = answer.int16(), answer.int32()
        answer.string()
        answer.string()
        return error, generation, answer.string()

    def sync(self, generation: int, member_id: str, assignment: bytes | None = None) -> tuple[int, bytes]:
        """Error and assignment; a leader assigns to itself."""
        body = self._identity(generation, member_id)

        def write_assignment(given: bytes) -> None:
            body.string(member_id)
            body.byte_string(given)

        body.array(() if assignment is None else (assignment,), write_assignment)
        answer = self.client.call(ApiKey.SYNC_GROUP, 3, body)
        answer.int32()
        return answer.int16(), bytes(answer.byte_string())

    def heartbeat(self, generation: int, member_id: str) -> int:
        """The error."""
        answer = self.client.call(ApiKey.HEARTBEAT, 3, self._identity(generation, member_id))
        answer.int32()
        return answer.int16()

    def commit(self, generation: int, member_id: str, topic: str) -> int:
        """Commit offset 0 of partition 0; the error."""
        body = self._identity(generation, member_id)

        def write_partition(partition: int) -> None:
            body.int32(partition)
            body.int64(0)
            body.int32(-1)
            body.string("")

        def write_topic(name: str) -> None:
            body.string(name)
            body.array((0,), write_partition)

        body.array((topic,), write_topic)
        answer = self.client.call(ApiKey.OFFSET_COMMIT, 7, body)
        answer.int32()

        def read_topic() -> list[int]:
            answer.string()
            return answer.array(lambda: _second(answer))

        ((error,),) = answer.array(read_topic)
        return error

    def _identity(self, generation: int, member_id: str) -> Writer:
        body = Writer()
        body.string(self.group)
        body.int32(generation)
        body.string(member_id)
        body.string(self.instance_id)
        return body


def _second(answer: Reader) -> int:
    answer.int32()
    return answer.int16()


def test_a_static_member_is_fenced_by_its_successor(broker: RunningBroker) -> None:
    """Of two processes with one instance id the newer takes over; the older is fenced and commits nothing."""
    topic = broker.new_topic("fenced")
    group = f"{topic}-group"
    with WireClient(broker.bootstrap_servers) as one, WireClient(broker.bootstrap_servers) as two:
        older, newer = _StaticMember(one, group, "worker-1"), _StaticMember(two, group, "worker-1")

        await_coordinator(one, group)
        error, generation, old_id = older.join()
        assert error == ErrorCode.NONE
        assert older.sync(generation, old_id, b"the share") == (ErrorCode.NONE, b"the share")
        assert older.heartbeat(generation, old_id) == ErrorCode.NONE

        error, generation_after, new_id = newer.join()
        assert (error, generation_after) == (ErrorCode.NONE, generation)
        assert new_id != old_id
        assert newer.sync(generation, new_id) == (ErrorCode.NONE, b"the share")

        assert older.heartbeat(generation, old_id) == ErrorCode.FENCED_INSTANCE_ID
        assert older.commit(generation, old_id, topic) == ErrorCode.FENCED_INSTANCE_ID
        assert older.sync(generation, old_id)[0] == ErrorCode.FENCED_INSTANCE_ID
        assert older.join(old_id)[0] == ErrorCode.FENCED_INSTANCE_ID
        assert newer.heartbeat(generation, new_id) == ErrorCode.NONE
        assert newer.commit(generation, new_id, topic) == ErrorCode.NONE
        # An old generation and an unknown member id are refused.
        assert newer.commit(generation - 1, new_id, topic) == ErrorCode.ILLEGAL_GENERATION
        newer.instance_id = "worker-2"
        assert newer.heartbeat(generation, "nobody") == ErrorCode.UNKNOWN_MEMBER_ID
