"""A client that speaks the Kafka protocol request by request, for what a client library hides."""

from __future__ import annotations

import socket
import struct
import time
from typing import TYPE_CHECKING, Self

from streams.embedded.wire import ApiKey, ErrorCode, Reader, Writer

if TYPE_CHECKING:
    from collections.abc import Mapping

_CLIENT_ID = "wire-client"
_ALTER_CLIENT_QUOTAS = 49


class WireClient:
    """One connection to a broker, without retries.

    Args:
        bootstrap_servers: Host and port.
        timeout_seconds: The limit of connecting and of each answer.
    """

    def __init__(self, bootstrap_servers: str, *, timeout_seconds: float = 15.0) -> None:
        host, port = bootstrap_servers.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), timeout=timeout_seconds)
        self._correlation_id = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, api: int, version: int, body: Writer) -> None:
        """Send a request without waiting for its answer."""
        self._correlation_id += 1
        header = Writer()
        header.int16(api)
        header.int16(version)
        header.int32(self._correlation_id)
        header.string(_CLIENT_ID)
        message = b"".join((*header.chunks(), *body.chunks()))
        self.socket.sendall(struct.pack(">i", len(message)) + message)

    def receive(self) -> Reader:
        """Wait for the next answer."""
        (size,) = struct.unpack(">i", self._exactly(4))
        answer = Reader(self._exactly(size))
        answer.int32()  # the correlation id: one request at a time
        return answer

    def call(self, api: int, version: int, body: Writer) -> Reader:
        """Send a request and wait for its answer."""
        self.send(api, version, body)
        return self.receive()

    def _exactly(self, size: int) -> bytes:
        received = bytearray()
        while len(received) < size:
            part = self.socket.recv(size - len(received))
            if not part:
                raise ConnectionError(
                    f"the broker closed the connection after {len(received)} of {size} bytes"
                )
            received += part
        return bytes(received)


def init_producer_id(client: WireClient, transactional_id: str | None = None) -> tuple[int, int]:
    """The error code, and an id for an idempotent producer."""
    body = Writer()
    body.string(transactional_id)
    body.int32(60_000)
    answer = client.call(ApiKey.INIT_PRODUCER_ID, 0, body)
    answer.int32()
    return answer.int16(), answer.int64()


def partition_leaders(client: WireClient, topic: str, *, may_create: bool = False) -> tuple[int, list[int]]:
    """The topic's error code and the leader of each of its partitions (-1: none yet)."""
    body = Writer()
    body.array((topic,), body.string)
    body.boolean(may_create)
    answer = client.call(ApiKey.METADATA, 4, body)
    answer.int32()
    answer.array(lambda: (answer.int32(), answer.string(), answer.int32(), answer.nullable_string()))
    answer.nullable_string()
    answer.int32()

    def read_partition() -> int:
        answer.int16()
        answer.int32()
        leader = answer.int32()
        answer.array(answer.int32)
        answer.array(answer.int32)
        return leader

    ((error, leaders),) = answer.array(
        lambda: (answer.int16(), (answer.string(), answer.boolean(), answer.array(read_partition))[2])
    )
    return error, leaders


def create_topic(
    bootstrap_servers: str,
    topic: str,
    partitions: int,
    *,
    configs: Mapping[str, str] | None = None,
    copies: int = 1,
    deadline_seconds: float = 60.0,
) -> None:
    """Create a topic and wait until each partition has a leader.

    Raises:
        AssertionError: It is refused, or has no leaders by the deadline.
    """
    body = Writer()

    def write_config(item: tuple[str, str]) -> None:
        body.string(item[0])
        body.string(item[1])

    def write_topic(name: str) -> None:
        body.string(name)
        body.int32(partitions)
        body.int16(copies)
        body.array((), body.int32)
        body.array((configs or {}).items(), write_config)

    body.array((topic,), write_topic)
    body.int32(int(deadline_seconds * 1000))
    body.boolean(value=False)
    with WireClient(bootstrap_servers) as client:
        answer = client.call(ApiKey.CREATE_TOPICS, 2, body)
        answer.int32()
        ((_, error, message),) = answer.array(
            lambda: (answer.string(), answer.int16(), answer.nullable_string())
        )
        assert error == ErrorCode.NONE, f"creating {topic!r}: error {error}, {message}"
        deadline = time.monotonic() + deadline_seconds
        while True:
            error, leaders = partition_leaders(client, topic)
            if error == ErrorCode.NONE and len(leaders) == partitions and min(leaders) >= 0:
                return
            assert time.monotonic() < deadline, (
                f"{topic!r} has no leaders after {deadline_seconds} s: {leaders}"
            )
            time.sleep(0.02)  # between two looks


def set_quotas(bootstrap_servers: str, client_id: str, quotas: Mapping[str, float | None]) -> None:
    """Set the quotas of a client by name; None removes a quota.

    Raises:
        AssertionError: It is refused.
    """
    body = Writer()

    def write_entity(kind: str) -> None:
        body.string(kind)
        body.string(client_id)

    def write_quota(item: tuple[str, float | None]) -> None:
        name, value = item
        body.string(name)
        (bits,) = struct.unpack(">q", struct.pack(">d", 0.0 if value is None else value))
        body.int64(bits)
        body.boolean(value=value is None)

    def write_entry(kind: str) -> None:
        body.array((kind,), write_entity)
        body.array(quotas.items(), write_quota)

    body.array(("client-id",), write_entry)
    body.boolean(value=False)
    with WireClient(bootstrap_servers) as client:
        answer = client.call(_ALTER_CLIENT_QUOTAS, 0, body)
        answer.int32()
        answer.int32()  # one entry
        error, message = answer.int16(), answer.nullable_string()
        assert error == ErrorCode.NONE, f"quotas of {client_id!r}: error {error}, {message}"


def await_coordinator(client: WireClient, group: str, *, deadline_seconds: float = 60.0) -> None:
    """Wait until the broker serves a group: after a start it first creates the offsets topic.

    Raises:
        AssertionError: It does not by the deadline.
    """
    deadline = time.monotonic() + deadline_seconds
    find, look = Writer(), Writer()
    find.string(group)
    look.array((group,), look.string)
    while True:
        found = client.call(ApiKey.FIND_COORDINATOR, 0, find).int16()
        described = client.call(ApiKey.DESCRIBE_GROUPS, 0, look)
        described.int32()  # one group
        error = described.int16()
        if found == error == ErrorCode.NONE:
            return
        assert time.monotonic() < deadline, f"no coordinator for {group!r}: errors {found}, {error}"
        time.sleep(0.02)  # between two looks


def produce_batch(bootstrap_servers: str, topic: str, raw: bytes, *, partition: int = 0) -> ErrorCode | int:
    """Write raw batch bytes to a topic.

    Returns:
        The broker's error code; 0 if it accepted the batch.
    """
    body = Writer()

    def write_partition(data: bytes) -> None:
        body.int32(partition)
        body.byte_string(data)

    def write_topic(name: str) -> None:
        body.string(name)
        body.array((raw,), write_partition)

    body.string(None)  # no transactional id
    body.int16(-1)
    body.int32(15_000)
    body.array((topic,), write_topic)
    with WireClient(bootstrap_servers) as client:
        answer = client.call(ApiKey.PRODUCE, 3, body)
        ((_, ((_, error, *_rest),)),) = answer.array(
            lambda: (
                answer.string(),
                answer.array(lambda: (answer.int32(), answer.int16(), answer.int64(), answer.int64())),
            )
        )
    return error
