"""A client that speaks the Kafka protocol request by request, for what a client library hides."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Mapping
from io import BytesIO
from typing import Any, Self

from aiokafka.protocol.admin import CreateTopicsRequest_v2
from aiokafka.protocol.api import RequestHeader_v1, RequestStruct, Response
from aiokafka.protocol.metadata import MetadataRequest_v5
from aiokafka.protocol.produce import ProduceRequest_v7
from aiokafka.protocol.transaction import InitProducerIdRequest_v0
from aiokafka.protocol.types import Array, Boolean, Float64, Int16, Int32, Schema, String

_CLIENT_ID = "wire-client"
_CREATION_SECONDS = 60
_TEXT = String()
_ENTITY = Array(("entity_type", _TEXT), ("entity_name", _TEXT))


class _AlterQuotasResponse(Response):  # type: ignore[misc]  # aiokafka is not annotated
    API_KEY = 49
    API_VERSION = 0
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        ("entries", Array(("error_code", Int16), ("error_message", _TEXT), ("entity", _ENTITY))),
    )


class _AlterQuotasRequest(RequestStruct):  # type: ignore[misc]  # as above
    API_KEY = 49
    API_VERSION = 0
    RESPONSE_TYPE = _AlterQuotasResponse
    SCHEMA = Schema(
        (
            "entries",
            Array(
                ("entity", _ENTITY), ("ops", Array(("key", _TEXT), ("value", Float64), ("remove", Boolean)))
            ),
        ),
        ("validate_only", Boolean),
    )


class WireClient:
    def __init__(self, bootstrap_servers: str, *, timeout_seconds: float = 15.0) -> None:
        host, port = bootstrap_servers.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), timeout=timeout_seconds)
        self._received = self.socket.makefile("rb")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._received.close()
        self.socket.close()

    def ask(self, request: Any) -> Any:
        self.post(request)
        return request.RESPONSE_TYPE.decode(BytesIO(self._receive()))

    def post(self, request: Any) -> None:
        self._send(RequestHeader_v1(request, client_id=_CLIENT_ID).encode() + request.encode())

    def call(self, api: int, version: int) -> bytes:
        """Send a request without a body."""
        self._send(struct.pack(">hhih", api, version, 0, len(_CLIENT_ID)) + _CLIENT_ID.encode())
        return self._receive()

    def _send(self, message: bytes) -> None:
        self.socket.sendall(struct.pack(">i", len(message)) + message)

    def _receive(self) -> bytes:
        (size,) = struct.unpack(">i", self._exactly(4))
        return self._exactly(size)[4:]  # without the correlation id: one request at a time

    def _exactly(self, size: int) -> bytes:
        received = self._received.read(size)
        if len(received) < size:
            raise ConnectionError(f"the broker closed the connection after {len(received)} of {size} bytes")
        return received


def init_producer_id(client: WireClient, transactional_id: str | None = None) -> tuple[int, int]:
    answer = client.ask(InitProducerIdRequest_v0(transactional_id, 60_000))
    return answer.error_code, answer.producer_id


def partition_leaders(client: WireClient, topic: str, *, may_create: bool = False) -> tuple[int, list[int]]:
    """The topic's error code and the leader of each of its partitions (-1: none yet)."""
    ((error, _, _, partitions),) = client.ask(MetadataRequest_v5([topic], may_create)).topics
    return error, [leader for _, _, leader, *_ in partitions]


def create_topic(
    bootstrap_servers: str,
    topic: str,
    partitions: int,
    *,
    configs: Mapping[str, str] | None = None,
    copies: int = 1,
) -> None:
    """Create a topic and wait for its leaders; a config `max_message_bytes` sets `max.message.bytes`."""
    named = [(key.replace("_", "."), value) for key, value in (configs or {}).items()]
    wanted: tuple[Any, ...] = (topic, partitions, copies, [], named)
    with WireClient(bootstrap_servers) as client:
        request = CreateTopicsRequest_v2([wanted], _CREATION_SECONDS * 1000, False)  # noqa: FBT003 - aiokafka's
        ((_, error, message),) = client.ask(request).topic_errors
        assert error == 0, f"creating {topic!r}: error {error}, {message}"
        deadline = time.monotonic() + _CREATION_SECONDS
        while True:
            error, leaders = partition_leaders(client, topic)
            if error == 0 and len(leaders) == partitions and min(leaders) >= 0:
                return
            assert time.monotonic() < deadline, f"{topic!r} has no leaders in time: {leaders}"
            time.sleep(0.02)  # between two looks


def set_quotas(bootstrap_servers: str, client_id: str, quotas: Mapping[str, float | None]) -> None:
    ops = [(name, value or 0.0, value is None) for name, value in quotas.items()]
    with WireClient(bootstrap_servers) as client:
        request = _AlterQuotasRequest([([("client-id", client_id)], ops)], False)  # noqa: FBT003 - aiokafka's
        ((error, message, _),) = client.ask(request).entries
        assert error == 0, f"quotas of {client_id!r}: error {error}, {message}"


def produce_request(topic: str, data: bytes, partition: int = 0) -> ProduceRequest_v7:
    return ProduceRequest_v7(None, -1, 15_000, [(topic, [(partition, data)])])


def produce_batch(client: WireClient, topic: str, data: bytes, partition: int = 0) -> tuple[int, int]:
    """Write one batch; the error code (0 if it is accepted) and its first offset."""
    ((_, ((_, error, offset, *_),)),) = client.ask(produce_request(topic, data, partition)).topics
    return error, offset
