"""Observe the group coordinator's responses: the time of the last one, and whether the member is fenced."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from aiokafka.errors import KafkaError
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.commit import OffsetCommitRequest, OffsetCommitRequest_v3, OffsetCommitResponse_v3
from aiokafka.protocol.group import HeartbeatRequest, HeartbeatRequest_v1, SyncGroupRequest
from aiokafka.protocol.types import Array, Int16, Int32, Int64, Schema, String

from streams.errors import FencedError

FENCED_INSTANCE_ID: Final = 82
UNKNOWN_EPOCH: Final = -1


class PlaceTakenError(KafkaError):
    """Another member has taken this static member's place; nothing more is sent to the coordinator."""


class Membership:
    """Observes the requests from one consumer to its coordinator. Used only in the consumer's thread.

    aiokafka's heartbeats and commits omit the static member's id, so a broker cannot report that another
    member has replaced it: it reports the member as unknown. aiokafka then rejoins and replaces the other
    member, which does the same, and both read every record.

    Args:
        on_fenced: Called once, when another member has replaced this one. Nothing more is sent from then on.
        now: The monotonic clock, in seconds.
    """

    def __init__(
        self,
        coordinator: Any,
        on_fenced: Callable[[FencedError], None],
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._coordinator = coordinator
        self._on_fenced = on_fenced
        self._now = now
        self._send = coordinator._send_req  # noqa: SLF001 - aiokafka does not expose the responses
        self._instance_id: str | None = coordinator._group_instance_id  # noqa: SLF001 - as above
        self._fenced: FencedError | None = None
        self.last_answer = now()
        """Time of the coordinator's last response, on the monotonic clock."""
        self.confirmed = -math.inf
        """Time of the last request by which it confirmed the membership, on the monotonic clock."""
        coordinator._send_req = self._send_noting  # noqa: SLF001 - as above

    async def _send_noting(self, request: Any) -> Any:
        if self._fenced is not None:
            raise PlaceTakenError(str(self._fenced))
        if self._instance_id is not None:
            request = self._named(request, self._instance_id)
        asked = self._now()
        response = await self._send(request)
        self.last_answer = self._now()
        confirms = isinstance(request, HeartbeatRequest | StaticHeartbeat | SyncGroupRequest)
        if confirms and response.error_code == 0:
            self.confirmed = asked  # a stopped process may have read the response much later
        if self._fenced is None and FENCED_INSTANCE_ID in _error_codes(response):
            self._fenced = FencedError(
                f"another worker has joined group {self._coordinator.group_id} with the same "
                f"kafka.group_instance_id ({self._instance_id}) and replaced this worker; give each worker "
                "its own id (in Kubernetes its pod name)"
            )
            self._on_fenced(self._fenced)
        if self._fenced is not None:
            raise PlaceTakenError(str(self._fenced))
        return response

    def _named(self, request: Any, instance_id: str) -> Any:
        known = self._coordinator
        who = known.group_id, known.generation, known.member_id, instance_id
        if type(request) is HeartbeatRequest:
            return StaticHeartbeat(*who)
        if type(request) is OffsetCommitRequest:
            return StaticCommit(*who, request._topics)  # noqa: SLF001 - aiokafka does not expose its requests
        return request


def _error_codes(response: Any) -> set[int]:
    """Return the error codes of a response; a commit has one per partition."""
    if isinstance(response, OffsetCommitResponse_v3):
        return {code for _, partitions in response.topics for _, code in partitions}
    return {getattr(response, "error_code", 0)}


class HeartbeatResponse_v3(Response):  # noqa: N801 - as aiokafka names them
    """The response to `HeartbeatRequest_v3`."""

    API_KEY = 12
    API_VERSION = 3
    SCHEMA = Schema(("throttle_time_ms", Int32), ("error_code", Int16))


class HeartbeatRequest_v3(RequestStruct):  # noqa: N801 - as aiokafka names them
    """A heartbeat with the static member's id (KIP-345)."""

    API_KEY = 12
    API_VERSION = 3
    RESPONSE_TYPE = HeartbeatResponse_v3
    SCHEMA = Schema(
        ("group", String("utf-8")),
        ("generation_id", Int32),
        ("member_id", String("utf-8")),
        ("group_instance_id", String("utf-8")),
    )


class StaticHeartbeat(Request[HeartbeatRequest_v1 | HeartbeatRequest_v3]):
    """A heartbeat of a static member, in the newest version that the broker supports."""

    API_KEY = 12

    def __init__(self, group: str, generation: int, member_id: str, instance_id: str) -> None:
        self._fields = (group, generation, member_id)
        self._instance_id = instance_id

    def build(self, request_struct_class: Any) -> Any:
        """Build the request of one version."""
        if request_struct_class is HeartbeatRequest_v3:
            return request_struct_class(*self._fields, self._instance_id)
        return request_struct_class(*self._fields)


class OffsetCommitResponse_v7(OffsetCommitResponse_v3):  # noqa: N801 - as aiokafka names them
    """The response to `OffsetCommitRequest_v7`."""

    API_VERSION = 7


class OffsetCommitRequest_v7(RequestStruct):  # noqa: N801 - as aiokafka names them
    """A commit with the static member's id (KIP-345)."""

    API_KEY = 8
    API_VERSION = 7
    RESPONSE_TYPE = OffsetCommitResponse_v7
    SCHEMA = Schema(
        ("group", String("utf-8")),
        ("generation_id", Int32),
        ("member_id", String("utf-8")),
        ("group_instance_id", String("utf-8")),
        (
            "topics",
            Array(
                ("topic", String("utf-8")),
                (
                    "partitions",
                    Array(
                        ("partition", Int32),
                        ("offset", Int64),
                        ("leader_epoch", Int32),
                        ("metadata", String("utf-8")),
                    ),
                ),
            ),
        ),
    )


class StaticCommit(Request[OffsetCommitRequest_v3 | OffsetCommitRequest_v7]):
    """A commit of a static member, in the newest version that the broker supports."""

    API_KEY = 8

    def __init__(
        self,
        group: str,
        generation: int,
        member_id: str,
        instance_id: str,
        topics: Sequence[tuple[str, Sequence[tuple[int, int, str]]]],
    ) -> None:
        self._fields = (group, generation, member_id)
        self._instance_id = instance_id
        self._topics = topics

    def build(self, request_struct_class: Any) -> Any:
        """Build the request of one version."""
        if request_struct_class is not OffsetCommitRequest_v7:
            kept = OffsetCommitRequest.DEFAULT_RETENTION_TIME
            return request_struct_class(*self._fields, kept, self._topics)
        topics = [
            (topic, [(number, offset, UNKNOWN_EPOCH, metadata) for number, offset, metadata in partitions])
            for topic, partitions in self._topics
        ]
        return request_struct_class(*self._fields, self._instance_id, topics)
