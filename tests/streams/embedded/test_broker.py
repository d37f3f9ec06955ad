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
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from hypothesis import given, settings
from hypothesis import strategies as st

from streams.embedded.broker import ApiTable, EmbeddedBroker
from streams.embedded.data_api import DataApis
from streams.embedded.group_api import GroupApis, GroupCoordinator
from streams.embedded.topic_api import TopicApis
from streams.embedded.topics import Topics
from streams.embedded.wire import (
    ApiKey,
    EmbeddedBrokerError,
    ErrorCode,
    MalformedRequestError,
    Reader,
    RefusedError,
    Writer,
)
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


@pytest.fixture(scope="module")
def bootstrap_servers() -> Iterator[str]:
    with broker_in_thread(topics={"t": 1}) as servers:
        yield servers


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
        (_framed(_request(ApiKey.FETCH, 99)), "FETCH version 99"),
        (_framed(_request(ApiKey.FETCH, 7, b"\x00")), "bytes wanted"),
        (_framed(_request(ApiKey.METADATA, 5, b"\x00\x00\x00\x01\x00\x02\xff\xff\x00")), "UTF-8"),
    ],
)
def test_a_bad_client_is_disconnected_and_the_others_go_on(
    bootstrap_servers: str, caplog: pytest.LogCaptureFixture, sent: bytes, reason: str
) -> None:
    host, port = bootstrap_servers.split(":")
    with (
        caplog.at_level(logging.WARNING, logger="streams.embedded"),
        WireClient(bootstrap_servers) as good,
        socket.create_connection((host, int(port)), timeout=10) as bad,
    ):
        bad.sendall(sent)
        with contextlib.suppress(ConnectionResetError):
            assert bad.recv(100) == b""
        assert partition_leaders(good, "t") == (ErrorCode.NONE, [0])
    (record,) = caplog.records
    assert reason in record.getMessage()
    assert record.levelno == logging.WARNING


def test_a_closed_connection_is_not_logged(bootstrap_servers: str, caplog: pytest.LogCaptureFixture) -> None:
    host, port = bootstrap_servers.split(":")
    with caplog.at_level(logging.DEBUG, logger="streams.embedded"):
        with socket.create_connection((host, int(port)), timeout=10) as client:
            client.sendall(struct.pack(">i", 100) + b"half")
        with WireClient(bootstrap_servers) as good:
            assert partition_leaders(good, "t") == (ErrorCode.NONE, [0])
    assert not caplog.records


def test_unknown_versions_of_the_version_request(bootstrap_servers: str) -> None:
    with WireClient(bootstrap_servers) as client:
        answer = client.call(ApiKey.API_VERSIONS, 4, Writer())
        assert answer.int16() == ErrorCode.UNSUPPORTED_VERSION
        versions = {
            key: (low, high)
            for key, low, high in answer.array(lambda: (answer.int16(), answer.int16(), answer.int16()))
        }
        assert answer.remaining == 0
    assert set(versions) == set(ApiKey)
    # librdkafka 2.5 looks for Produce 3 and Fetch 4, and for version 0 of the group's requests; without them
    # it writes records in an old format.
    assert {low for low, _ in versions.values()} == {0}
    assert versions[ApiKey.PRODUCE] == (0, 7)


def _table() -> ApiTable:
    topics = Topics()
    topics.create("t", 1)
    coordinator = GroupCoordinator()
    return ApiTable(
        (
            *DataApis(topics).table(),
            *TopicApis(topics, coordinator, lambda: ("127.0.0.1", 1), auto_create_topics=True).table(),
            *GroupApis(coordinator, topics).table(),
        )
    )


_BODIES = st.binary(max_size=60) | st.lists(
    st.sampled_from(
        [b"\x00\x01t", b"\x00\x00\x00\x01", b"\x00\x00\x00\x00", b"\xff\xff", b"\x00", b"\x7f\xff\xff\xff"]
    ),
    max_size=16,
).map(b"".join)


async def _answer_or_refuse(request: bytes) -> None:
    with contextlib.suppress(MalformedRequestError, TimeoutError):  # a fetch or a join may wait
        await asyncio.wait_for(_table().answer(request, "127.0.0.1"), 0.005)


@settings(max_examples=400)
@given(key=st.sampled_from(sorted(ApiKey)), version=st.integers(0, 11), body=_BODIES)
def test_any_body_is_answered_or_refused(key: int, version: int, body: bytes) -> None:
    asyncio.run(_answer_or_refuse(_request(key, version, body)))


@settings(max_examples=100)
@given(data=st.binary(max_size=30))
def test_any_header_is_answered_or_refused(data: bytes) -> None:
    asyncio.run(_answer_or_refuse(data))


def test_an_unexpected_error_closes_one_connection(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(self: Reader) -> int:
        del self
        raise ZeroDivisionError

    caplog.set_level(logging.WARNING, logger="streams.embedded")  # an earlier test may have left INFO
    with broker_in_thread(topics={"t": 1}) as servers, WireClient(servers) as good:
        with WireClient(servers) as unlucky:
            monkeypatch.setattr(Reader, "int64", broken)
            body = Writer()
            body.numbers("ib", -1, 0)
            body.by_topic([("t", [0])], lambda _, number: body.numbers("iq", number, 0))
            with pytest.raises(ConnectionError):
                unlucky.call(ApiKey.LIST_OFFSETS, 2, body)
            monkeypatch.undo()
        assert partition_leaders(good, "t") == (ErrorCode.NONE, [0])
    deadline = time.monotonic() + 5
    while not caplog.records and time.monotonic() < deadline:
        time.sleep(0.01)
    assert [record.exc_info is not None for record in caplog.records] == [True]


_TEXT = st.text(max_size=50)
_VALUES = st.one_of(
    st.tuples(st.just("int8"), st.integers(-(2**7), 2**7 - 1)),
    st.tuples(st.just("int16"), st.integers(-(2**15), 2**15 - 1)),
    st.tuples(st.just("int32"), st.integers(-(2**31), 2**31 - 1)),
    st.tuples(st.just("int64"), st.integers(-(2**63), 2**63 - 1)),
    st.tuples(st.just("boolean"), st.booleans()),
    st.tuples(st.just("string"), _TEXT),
    st.tuples(st.just("nullable_string"), st.none() | _TEXT),
    st.tuples(st.just("byte_string"), st.binary(max_size=50)),
    st.tuples(st.just("array"), st.lists(_TEXT, max_size=5)),
    st.tuples(st.just("buffers"), st.lists(st.binary(max_size=20), max_size=4)),
)
_READS = ["int8", "int16", "int32", "int64", "boolean", "string", "nullable_string", "byte_string"]


def _write(writer: Writer, kind: str, value: Any) -> None:
    match kind:
        case "nullable_string":
            writer.string(value)
        case "array":
            writer.array(value, writer.string)
        case _:
            getattr(writer, kind)(value)


def _read(reader: Reader, kind: str) -> Any:
    match kind:
        case "array":
            return reader.array(reader.string)
        case "buffers" | "byte_string":
            return bytes(reader.byte_string())
        case _:
            return getattr(reader, kind)()


@given(st.lists(_VALUES))
def test_what_is_written_is_read(values: list[tuple[str, Any]]) -> None:
    writer = Writer()
    for kind, value in values:
        _write(writer, kind, value)
    data = b"".join(writer.chunks())
    assert writer.size == len(data)
    reader = Reader(data)
    for kind, value in values:
        assert _read(reader, kind) == (b"".join(value) if kind == "buffers" else value)
    assert reader.remaining == 0


@given(st.binary(max_size=40), st.lists(st.sampled_from([*_READS, "array", "buffers"]), max_size=8))
def test_garbage_is_refused_and_nothing_else(data: bytes, kinds: list[str]) -> None:
    reader = Reader(data)
    try:
        for kind in kinds:
            _read(reader, kind)
    except MalformedRequestError:
        pass


def test_null_reads_as_nothing() -> None:
    """Only the nullable readers tell null from empty; a null string is refused elsewhere."""
    assert Reader(b"\xff\xff").nullable_string() is None
    assert Reader(b"\xff\xff\xff\xff").nullable_array(Reader(b"").int8) is None
    assert Reader(b"\xff\xff\xff\xff").array(Reader(b"").int8) == []
    assert bytes(Reader(b"\xff\xff\xff\xff").byte_string()) == b""
    with pytest.raises(MalformedRequestError, match="null"):
        Reader(b"\xff\xff").string()


def test_a_count_beyond_the_request_is_refused_before_memory_is_taken() -> None:
    reader = Reader(b"\x7f\xff\xff\xff\x00")
    with pytest.raises(MalformedRequestError, match="2147483647 items"):
        reader.array(reader.int8)


def test_a_string_longer_than_its_length_field_can_say() -> None:
    with pytest.raises(ValueError, match="32768"):
        Writer().string("x" * 32768)
