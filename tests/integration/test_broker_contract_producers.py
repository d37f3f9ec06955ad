"""The contract of a broker for idempotent producers, run on the embedded broker and on Apache Kafka."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from aiokafka.errors import KafkaConnectionError
from aiokafka.protocol.offset import OffsetRequest_v2
from aiokafka.protocol.produce import ProduceRequest

from streams.embedded.wire import ErrorCode
from tests.integration.deadlines import take
from tests.integration.wire_client import WireClient, init_producer_id, produce_batch, produce_request
from tests.streams.kafka.logs import record_batch

if TYPE_CHECKING:
    from tests.integration.conftest import RunningBroker


def batch(producer_id: int, epoch: int, sequence: int, *values: bytes) -> bytes:
    return record_batch(*values, producer_id=producer_id, epoch=epoch, sequence=sequence)


def end_offset(client: WireClient, topic: str) -> int:
    ((_, ((_, _, _, offset),)),) = client.ask(OffsetRequest_v2(-1, 0, [(topic, [(0, -1)])])).topics
    found: int = offset
    return found


def test_a_batch_sent_twice_is_stored_once(broker: RunningBroker) -> None:
    topic = broker.new_topic("retry")
    with WireClient(broker.bootstrap_servers) as client:
        _, producer = init_producer_id(client)
        # Two records a batch: batch n has sequences and offsets 2n and 2n + 1.
        batches = [batch(producer, 0, 2 * number, b"a", b"b") for number in range(6)]
        for number, data in enumerate(batches):
            assert produce_batch(client, topic, data) == (ErrorCode.NONE, 2 * number)
        for number in range(1, 6):
            assert produce_batch(client, topic, batches[number]) == (ErrorCode.NONE, 2 * number)
        # The first is no longer among the last five: it is refused.
        error, _ = produce_batch(client, topic, batches[0])
        assert error == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert end_offset(client, topic) == 12


@pytest.mark.parametrize(
    "batches",
    [
        # A batch after a missing one is refused; the missing one is accepted later.
        [(0, 0, None), (0, 2, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER), (0, 1, None), (0, 2, None)],
        # A newer epoch starts at sequence 0; then the older one is refused.
        [
            (0, 0, None),
            (1, 7, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
            (1, 0, None),
            (0, 1, ErrorCode.INVALID_PRODUCER_EPOCH),
        ],
    ],
    ids=["gap", "epoch"],
)
def test_sequences_have_no_gap_and_epochs_grow(
    broker: RunningBroker, batches: list[tuple[int, int, ErrorCode | None]]
) -> None:
    topic, stored = broker.new_topic("sequence"), 0
    with WireClient(broker.bootstrap_servers) as client:
        _, producer = init_producer_id(client)
        for epoch, sequence, refusal in batches:
            outcome = produce_batch(client, topic, batch(producer, epoch, sequence, b"x"))
            if refusal is None:
                assert outcome == (ErrorCode.NONE, stored)
                stored += 1
            else:
                assert outcome[0] == refusal
        assert end_offset(client, topic) == stored


def test_a_connection_lost_before_the_answer(broker: RunningBroker) -> None:
    topic = broker.new_topic("lost")
    with WireClient(broker.bootstrap_servers) as second:
        _, producer = init_producer_id(second)
        data = batch(producer, 0, 0, b"once")
        with WireClient(broker.bootstrap_servers) as first:
            first.post(produce_request(topic, data))
            first.socket.recv(1)  # it was answered, so it was stored
        assert produce_batch(second, topic, data) == (ErrorCode.NONE, 0)
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
