from __future__ import annotations

from typing import Any

import pytest
from aiokafka.protocol.commit import OffsetCommitRequest
from aiokafka.protocol.group import HeartbeatRequest

from streams.errors import FencedError
from streams.kafka.transport.membership import (
    FENCED_INSTANCE_ID,
    HeartbeatRequest_v3,
    Membership,
    OffsetCommitRequest_v7,
    OffsetCommitResponse_v7,
    PlaceTakenError,
    StaticCommit,
    StaticHeartbeat,
)


class _Answer:
    def __init__(self, error_code: int) -> None:
        self.error_code = error_code


class _Coordinator:
    """The parts of aiokafka's coordinator that are used."""

    group_id, generation, member_id = "g", 4, "m-1"

    def __init__(self, instance_id: str | None) -> None:
        self._group_instance_id = instance_id
        self.answer: Any = _Answer(0)
        self.sent: list[Any] = []
        self._send_req = self._send

    async def _send(self, request: Any) -> Any:
        self.sent.append(request)
        return self.answer


def _heartbeat() -> HeartbeatRequest:
    return HeartbeatRequest("g", 4, "m-1")


async def test_every_answer_is_noted() -> None:
    """`last_answer` is the time of the latest response, and `confirmed` that of its request.

    A heartbeat of a dynamic member is not changed.
    """
    clock = iter([10.0, 11.0, 13.0])
    coordinator = _Coordinator(None)
    membership = Membership(coordinator, list[FencedError]().append, now=lambda: next(clock))
    assert membership.last_answer == 10.0
    await coordinator._send_req(_heartbeat())
    assert (membership.last_answer, membership.confirmed) == (13.0, 11.0)
    assert type(coordinator.sent[0]) is HeartbeatRequest


async def test_a_member_whose_place_was_taken_ends_with_the_cause() -> None:
    """A fenced static member gets PlaceTakenError and sends nothing more."""
    fenced: list[FencedError] = []
    coordinator = _Coordinator("pod-0")
    Membership(coordinator, fenced.append)
    coordinator.answer = _Answer(FENCED_INSTANCE_ID)
    for _ in range(2):
        with pytest.raises(PlaceTakenError, match="pod-0"):
            await coordinator._send_req(_heartbeat())
    assert len(coordinator.sent) == 1
    assert isinstance(coordinator.sent[0], StaticHeartbeat)
    assert "give each worker its own id" in str(*fenced)


async def test_a_fenced_commit_raises() -> None:
    """A commit names the static member, and one fenced partition in the response is enough."""
    fenced: list[FencedError] = []
    coordinator = _Coordinator("pod-0")
    Membership(coordinator, fenced.append)
    coordinator.answer = OffsetCommitResponse_v7(0, [("t", [(0, 0), (1, FENCED_INSTANCE_ID)])])
    with pytest.raises(PlaceTakenError, match="pod-0"):
        await coordinator._send_req(OffsetCommitRequest("g", 4, "m-1", -1, [("t", [(0, 7, ""), (1, 8, "")])]))
    assert isinstance(coordinator.sent[0], StaticCommit)
    assert len(fenced) == 1


@pytest.mark.parametrize(("newest", "named"), [(9, True), (7, True), (6, False), (3, False)])
def test_the_newest_form_of_a_commit_that_the_broker_knows(newest: int, named: bool) -> None:
    """From version 7 a commit names the static member; older versions have the same offsets."""
    request = StaticCommit("g", 4, "m-1", "pod-0", [("t", [(1, 8, "")])]).prepare({8: (2, newest)})
    assert (type(request) is OffsetCommitRequest_v7) == named
    assert (b"pod-0" in request.encode()) == named
    partition, *places, metadata = request.topics[0][1][0]
    assert (partition, places[0], metadata) == (1, 8, "")


@pytest.mark.parametrize(("newest", "named"), [(4, True), (3, True), (1, False)])
def test_the_newest_form_that_the_broker_knows(newest: int, named: bool) -> None:
    """From version 3 a heartbeat names the static member."""
    request = StaticHeartbeat("g", 4, "m-1", "pod-0").prepare({12: (0, newest)})
    assert (type(request) is HeartbeatRequest_v3) == named
    assert (b"pod-0" in request.encode()) == named
