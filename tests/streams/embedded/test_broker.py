from __future__ import annotations

import asyncio
import socket
import subprocess
import sys

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import NewTopic

from streams.embedded.broker import EmbeddedBroker
from streams.embedded.wire import ApiKey, EmbeddedBrokerError, ErrorCode, RefusedError, Writer
from tests.integration.admin import kafka_admin
from tests.integration.wire_client import WireClient, init_producer_id, partition_leaders
from tests.threaded_broker import broker_in_thread


async def test_the_address_is_known_once_it_is_started() -> None:
    with pytest.raises(RefusedError, match="no spaces"):
        EmbeddedBroker(topics={"no spaces": 1})
    broker = EmbeddedBroker()
    with pytest.raises(EmbeddedBrokerError, match="start"):
        _ = broker.bootstrap_servers
    async with broker:
        host, port = broker.bootstrap_servers.split(":")
        assert host == "127.0.0.1"
        assert int(port) > 0
        with pytest.raises(EmbeddedBrokerError, match="is already running"):
            await broker.start()
    await broker.stop()


async def test_a_port_that_is_taken_is_an_error() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        broker = EmbeddedBroker(port=taken.getsockname()[1])
        with pytest.raises(OSError, match="in use"):
            await broker.start()
    async with broker:
        assert broker.bootstrap_servers


def test_it_needs_the_standard_library_alone() -> None:
    program = (
        "import sys, streams.embedded.broker; "
        "print(sorted(sys.modules.keys() & {'faust', 'aiokafka', 'openai', 'pydantic', 'prometheus_client'}))"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_an_unknown_topic_stays_unknown_where_none_are_created() -> None:
    with broker_in_thread(auto_create_topics=False) as servers, WireClient(servers) as client:
        for _ in range(2):
            found = partition_leaders(client, "new", may_create=True)
            assert found == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, [])


def test_transactions_are_refused() -> None:
    with broker_in_thread() as servers, WireClient(servers) as client:
        error, _ = init_producer_id(client, "my-transactions")
        assert error == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


async def test_an_outage_loses_nothing() -> None:
    broker = EmbeddedBroker(topics={"t": 1})
    await broker.start()
    servers = broker.bootstrap_servers
    options = {"bootstrap_servers": servers, "retry_backoff_ms": 20, "metadata_max_age_ms": 1000}
    async with (
        AIOKafkaProducer(enable_idempotence=True, **options) as producer,
        AIOKafkaConsumer("t", group_id="g", auto_offset_reset="earliest", **options) as consumer,
    ):
        await producer.send_and_wait("t", b"before")
        assert (await asyncio.wait_for(consumer.getone(), 10)).value == b"before"
        await consumer.commit()
        await broker.stop()
        sending = await producer.send("t", b"during")
        await broker.start()
        assert broker.bootstrap_servers == servers
        await asyncio.wait_for(sending, 20)
        assert (await asyncio.wait_for(consumer.getone(), 20)).value == b"during"
        assert await consumer.end_offsets([TopicPartition("t", 0)]) == {TopicPartition("t", 0): 2}
    await broker.stop()


async def test_a_client_that_does_not_read_does_not_delay_the_stop() -> None:
    broker = EmbeddedBroker(topics={"t": 1})
    await broker.start()
    async with AIOKafkaProducer(
        bootstrap_servers=broker.bootstrap_servers, max_request_size=10_000_000
    ) as producer:
        await producer.send_and_wait("t", b"x" * 8_000_000)
    body = Writer()
    body.numbers("iiiibii", -1, 0, 1, 2**31 - 1, 0, 0, -1)  # replica, wait, bytes, isolation, session
    partition = (0, 0, 0, 2**31 - 1)
    body.by_topic([("t", [partition])], lambda _, one: body.numbers("iqqi", *one))
    with WireClient(broker.bootstrap_servers) as client:
        client.send(ApiKey.FETCH, 7, body)
        first_byte = await asyncio.to_thread(client.socket.recv, 1)
        assert first_byte
        await asyncio.wait_for(broker.stop(), 10)


async def test_a_long_run_stays_bounded() -> None:
    partition = TopicPartition("t", 0)
    async with EmbeddedBroker() as broker:
        async with kafka_admin(broker.bootstrap_servers) as admin:
            await admin.create_topics([NewTopic("t", 1, 1, topic_configs={"retention.bytes": "20000"})])
        async with AIOKafkaProducer(
            bootstrap_servers=broker.bootstrap_servers, max_batch_size=2000
        ) as producer:
            for _ in range(100):
                await producer.send("t", b"x" * 1000)
        async with AIOKafkaConsumer(bootstrap_servers=broker.bootstrap_servers) as consumer:
            start = (await consumer.beginning_offsets([partition]))[partition]
            # 20,000 bytes hold at most 19 records of 1,000 bytes plus their framing.
            assert 81 <= start <= 99
