from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from io import BytesIO
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import (
    TransactionalIdAuthorizationFailed,
    UnknownTopicOrPartitionError,
    UnsupportedVersionError,
)
from aiokafka.protocol.admin import ApiVersionRequest_v0
from aiokafka.protocol.fetch import FetchRequest_v7
from aiokafka.protocol.metadata import MetadataRequest_v5
from aiokafka.protocol.offset import OffsetRequest_v2
from hypothesis import given, settings
from hypothesis import strategies as st

from streams.embedded.broker import EmbeddedBroker
from streams.embedded.topics import Topics
from streams.embedded.wire import EmbeddedBrokerError, MalformedRequestError
from tests.integration.wire_client import WireClient, init_producer_id, partition_leaders
from tests.threaded_broker import broker_in_thread


async def test_the_address_is_known_once_it_is_started() -> None:
    with pytest.raises(EmbeddedBrokerError, match="no spaces"):
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


def test_it_needs_no_other_part_of_judgestream() -> None:
    program = (
        "import sys, streams.embedded.broker; "
        "print(sorted(sys.modules.keys() & {'faust', 'openai', 'pydantic', 'prometheus_client', 'judge'}))"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_topics_that_are_not_created_and_transactions_are_refused() -> None:
    with broker_in_thread(auto_create_topics=False) as servers, WireClient(servers) as client:
        for _ in range(2):
            found = partition_leaders(client, "new", may_create=True)
            assert found == (UnknownTopicOrPartitionError.errno, [])
        error, _ = init_producer_id(client, "my-transactions")
        assert error == TransactionalIdAuthorizationFailed.errno


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
    with WireClient(broker.bootstrap_servers) as client:
        client.post(FetchRequest_v7(-1, 0, 1, 2**31 - 1, 0, 0, -1, [("t", [(0, 0, 0, 2**31 - 1)])], []))
        first_byte = await asyncio.to_thread(client.socket.recv, 1)
        assert first_byte
        await asyncio.wait_for(broker.stop(), 10)


@pytest.fixture(scope="module")
def bootstrap_servers() -> Iterator[str]:
    with broker_in_thread(topics={"t": 1}) as servers:
        yield servers


_KEYS = {0, 1, 2, 3, *range(8, 17), *range(18, 23), 32, 33, 37, 42}
"""What clients may ask, by Kafka's numbers."""


def _request(key: int, version: int, body: bytes = b"") -> bytes:
    return struct.pack(">hhih", key, version, 7, -1) + body


def _framed(request: bytes) -> bytes:
    return struct.pack(">i", len(request)) + request


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", "a request must have"),
        (struct.pack(">i", -1), "a request must have"),
        (struct.pack(">i", 7) + b"1234567", "a request must have"),
        (struct.pack(">i", 2**31 - 1), "its length is 2147483647"),
        (_framed(_request(9999, 0)), "request type 9999"),
        (struct.pack(">i", 100) + b"half", None),  # a closed connection is not logged
        (_framed(_request(FetchRequest_v7.API_KEY, 99)), "Fetch version 99"),
        (_framed(_request(FetchRequest_v7.API_KEY, 7, b"\x00")), "a request Fetch cannot be read"),
        (_framed(_request(MetadataRequest_v5.API_KEY, 5, b"\0\0\0\1\0\2\xff\xff\0")), "utf-8"),
    ],
)
def test_a_bad_client_is_disconnected_and_the_others_go_on(
    bootstrap_servers: str, caplog: pytest.LogCaptureFixture, sent: bytes, reason: str | None
) -> None:
    host, port = bootstrap_servers.split(":")
    with (
        caplog.at_level(logging.DEBUG, logger="streams.embedded"),
        WireClient(bootstrap_servers) as good,
        socket.create_connection((host, int(port)), timeout=10) as bad,
    ):
        bad.sendall(sent)
        if reason is None:
            bad.close()
        else:
            with contextlib.suppress(ConnectionResetError):
                assert bad.recv(100) == b""
        assert partition_leaders(good, "t") == (0, [0])
    told = [
        (record.levelno, reason is not None and reason in record.getMessage()) for record in caplog.records
    ]
    assert told == ([] if reason is None else [(logging.WARNING, True)])


def test_unknown_versions_of_the_version_request(bootstrap_servers: str) -> None:
    with WireClient(bootstrap_servers) as client:
        answer = BytesIO(client.call(ApiVersionRequest_v0.API_KEY, 4))
    response = ApiVersionRequest_v0.RESPONSE_TYPE.decode(answer)
    assert (response.error_code, answer.read()) == (UnsupportedVersionError.errno, b"")
    versions = {key: (low, high) for key, low, high in response.api_versions}
    assert set(versions) == _KEYS
    # librdkafka 2.5 looks for Produce 3 and Fetch 4, and for version 0 of the group's requests; without them
    # it writes records in an old format.
    assert {low for low, _ in versions.values()} == {0}
    assert versions[0] == (0, 7)


_BODIES = st.binary(max_size=60) | st.lists(
    st.sampled_from(
        [b"\x00\x01t", b"\x00\x00\x00\x01", b"\x00\x00\x00\x00", b"\xff\xff", b"\x00", b"\x7f\xff\xff\xff"]
    ),
    max_size=16,
).map(b"".join)


async def _answer_or_refuse(request: bytes) -> None:
    with contextlib.suppress(MalformedRequestError, TimeoutError):  # a fetch or a join may wait
        await asyncio.wait_for(EmbeddedBroker(topics={"t": 1})._apis.answer(request, "127.0.0.1"), 0.005)


@settings(max_examples=400)
@given(key=st.sampled_from(sorted(_KEYS)), version=st.integers(0, 11), body=_BODIES)
def test_any_body_is_answered_or_refused(key: int, version: int, body: bytes) -> None:
    asyncio.run(_answer_or_refuse(_request(key, version, body)))


@settings(max_examples=100)
@given(data=st.binary(max_size=30))
def test_any_header_is_answered_or_refused(data: bytes) -> None:
    asyncio.run(_answer_or_refuse(data))


def test_an_unexpected_error_closes_one_connection(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: Any) -> None:
        raise ZeroDivisionError

    caplog.set_level(logging.WARNING, logger="streams.embedded")  # an earlier test may have left INFO
    with broker_in_thread(topics={"t": 1}) as servers, WireClient(servers) as good:
        with WireClient(servers) as unlucky:
            monkeypatch.setattr(Topics, "partition", broken)
            with pytest.raises(ConnectionError):
                unlucky.ask(OffsetRequest_v2(-1, 0, [("t", [(0, 0)])]))
            monkeypatch.undo()
        assert partition_leaders(good, "t") == (0, [0])
    deadline = time.monotonic() + 5
    while not caplog.records and time.monotonic() < deadline:
        time.sleep(0.01)
    assert [record.exc_info is not None for record in caplog.records] == [True]
