"""What the coordinator says to a member."""

from __future__ import annotations

from typing import Any

import pytest
from aiokafka.errors import KafkaError
from aiokafka.protocol.group import HeartbeatRequest

from streams.errors import FencedError
from streams.kafka.transport.membership import (
    FENCED_INSTANCE_ID,
    HeartbeatRequest_v3,
    Membership,
    StaticHeartbeat,
)


class _Answer:
    def __init__(self, error_code: int) -> None:
        self.error_code = error_code


class _Coordinator:
    """aiokafka's, as far as it is used."""

    group_id, generation, member_id = "g", 4, "m-1"

    def __init__(self, instance_id: str | None) -> None:
        self._group_instance_id = instance_id
        self.answer = _Answer(0)
        self.sent: list[Any] = []
        self._send_req = self._send

    async def _send(self, request: Any) -> _Answer:
        self.sent.append(request)
        return self.answer


def _heartbeat() -> HeartbeatRequest:
    return HeartbeatRequest("g", 4, "m-1")


async def test_every_answer_is_noted() -> None:
    """At 10 s built, at 13 s answered; a heartbeat of a member without a fixed place goes as it is."""
    clock = iter([10.0, 13.0])
    coordinator = _Coordinator(None)
    membership = Membership(coordinator, list[FencedError]().append, now=lambda: next(clock))
    assert membership.last_answer == 10.0
    await coordinator._send_req(_heartbeat())
    assert membership.last_answer == 13.0
    assert type(coordinator.sent[0]) is HeartbeatRequest


async def test_a_member_whose_place_was_taken_ends_with_the_cause() -> None:
    """The heartbeat names the static member, the broker says that another has its place, and nothing more is sent."""
    fenced: list[FencedError] = []
    coordinator = _Coordinator("pod-0")
    Membership(coordinator, fenced.append)
    coordinator.answer = _Answer(FENCED_INSTANCE_ID)
    for _ in range(2):
        with pytest.raises(KafkaError, match="pod-0"):
            await coordinator._send_req(_heartbeat())
    assert len(coordinator.sent) == 1
    assert isinstance(coordinator.sent[0], StaticHeartbeat)
    assert "give each worker an id of its own" in str(*fenced)


@pytest.mark.parametrize(("newest", "named"), [(4, True), (3, True), (1, False)])
def test_the_newest_form_that_the_broker_knows(newest: int, named: bool) -> None:
    """From version 3 on a heartbeat says which static member it comes from."""
    request = StaticHeartbeat("g", 4, "m-1", "pod-0").prepare({12: (0, newest)})
    assert (type(request) is HeartbeatRequest_v3) == named
    assert (b"pod-0" in request.encode()) == named
