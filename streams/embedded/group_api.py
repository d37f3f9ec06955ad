"""All consumer groups, and the handlers of their requests."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from aiokafka.errors import BrokerResponseError, GroupIdNotFound, NonEmptyGroup
from aiokafka.protocol.admin import DeleteGroupsRequest_v0, DescribeGroupsRequest_v1, ListGroupsRequest_v1
from aiokafka.protocol.commit import OffsetCommitRequest_v3, OffsetFetchRequest_v3
from aiokafka.protocol.group import (
    HeartbeatRequest_v1,
    JoinGroupRequest_v2,
    LeaveGroupRequest_v1,
    SyncGroupRequest_v1,
)

from streams.embedded.group import ConsumerGroup, JoinRequest
from streams.embedded.topics import Topics
from streams.embedded.wire import Api, Request, attempt, by_topic

_TICK_SECONDS: Final = 0.1


class GroupCoordinator:
    """Has the groups, and ends the sessions of members without heartbeats."""

    def __init__(self, topics: Topics) -> None:
        self._topics = topics
        self.groups: dict[str, ConsumerGroup] = {}

    def table(self) -> tuple[Api, ...]:
        return (
            Api(OffsetCommitRequest_v3, 4, self.offset_commit),
            Api(OffsetFetchRequest_v3, 4, self.offset_fetch),
            Api(JoinGroupRequest_v2, 3, self.join_group),
            Api(HeartbeatRequest_v1, 2, self.heartbeat),
            Api(LeaveGroupRequest_v1, 2, self.leave_group),
            Api(SyncGroupRequest_v1, 2, self.sync_group),
            Api(DescribeGroupsRequest_v1, 2, self.describe_groups),
            Api(ListGroupsRequest_v1, 2, self.list_groups),
            Api(DeleteGroupsRequest_v0, 1, self.delete_groups),
        )

    def find(self, group_id: str) -> ConsumerGroup:
        """Return the group of a name; one that does not exist has no members."""
        return self.groups.get(group_id) or ConsumerGroup(group_id)

    def find_or_create(self, group_id: str) -> ConsumerGroup:
        return self.groups.setdefault(group_id, self.find(group_id))

    def delete(self, group_id: str) -> None:
        if group_id not in self.groups:
            raise GroupIdNotFound
        if self.groups[group_id].members:
            raise NonEmptyGroup
        del self.groups[group_id]

    def forget_topic(self, topic: str) -> None:
        for group in self.groups.values():
            group.offsets = {place: kept for place, kept in group.offsets.items() if place[0] != topic}

    async def watch_sessions(self) -> None:
        clock = asyncio.get_running_loop().time
        for group in self.groups.values():
            group.renew_sessions()
        while True:
            expected = clock() + _TICK_SECONDS
            await asyncio.sleep(_TICK_SECONDS)
            late_seconds = clock() - expected
            if late_seconds > _TICK_SECONDS:
                # The event loop was blocked, so heartbeats may wait in the sockets: read them first.
                continue
            for group in list(self.groups.values()):
                group.expire(clock())

    def close(self) -> None:
        for group in self.groups.values():
            group.close()

    async def join_group(self, request: Request) -> tuple[Any, ...]:
        body = request.body
        joining = JoinRequest(
            session_timeout_seconds=body.session_timeout / 1000,
            rebalance_timeout_seconds=max(body.rebalance_timeout / 1000, 0),
            member_id=body.member_id or "",
            protocol_type=body.protocol_type,
            protocols={name: metadata or b"" for name, metadata in body.group_protocols or ()},
            client_id=request.client_id,
            client_host=request.client_host,
        )
        try:
            return 0, 0, *await self.find_or_create(body.group).join(joining)
        except BrokerResponseError as error:
            return 0, error.errno, -1, "", "", joining.member_id, ()

    async def sync_group(self, request: Request) -> tuple[Any, ...]:
        body = request.body
        assignments = {member_id: one or b"" for member_id, one in body.group_assignment or ()}
        try:
            group = self.find(body.group)
            return 0, 0, await group.sync(body.member_id, body.generation_id, assignments)
        except BrokerResponseError as error:
            return 0, error.errno, b""

    async def heartbeat(self, request: Request) -> tuple[Any, ...]:
        body = request.body
        beat = self.find(body.group).heartbeat
        return 0, attempt(lambda: beat(body.member_id, body.generation_id), None)[0]

    async def leave_group(self, request: Request) -> tuple[Any, ...]:
        body = request.body
        return 0, attempt(lambda: self.find(body.group).leave(body.member_id), None)[0]

    async def offset_commit(self, request: Request) -> tuple[Any, ...]:
        body = request.body  # its retention time is ignored: offsets are kept until the broker ends
        group = self.find_or_create(body.consumer_group)
        member_id, generation = body.consumer_id, body.consumer_group_generation_id
        refused, *_ = attempt(lambda: group.check_commit(member_id, generation), None)

        def commit(topic: str, number: int, offset: int, metadata: str | None) -> tuple[int, int]:
            code = refused or attempt(lambda: self._topics.partition(topic, number), None)[0]
            if not code:
                group.offsets[topic, number] = offset, metadata
            return number, code

        return 0, by_topic(body.topics, commit)

    async def offset_fetch(self, request: Request) -> tuple[Any, ...]:
        committed, wanted = self.find(request.body.consumer_group).offsets, request.body.topics
        if wanted is None:
            by_name: dict[str, list[int]] = {}
            for topic, number in sorted(committed):
                by_name.setdefault(topic, []).append(number)
            wanted = by_name.items()
        found = [
            (topic, [(number, *committed.get((topic, number), (-1, "")), 0) for number in numbers or ()])
            for topic, numbers in wanted
        ]
        return 0, found, 0

    async def list_groups(self, _: Request) -> tuple[Any, ...]:
        return 0, 0, [(group.group_id, group.protocol_type) for group in self.groups.values()]

    async def describe_groups(self, request: Request) -> tuple[Any, ...]:
        def describe(group_id: str) -> tuple[Any, ...]:
            group = self.find(group_id)
            members = [
                (member.member_id, joined.client_id, joined.client_host,
                 joined.protocols.get(group.protocol, b""), member.assignment)
                for member in group.members.values()
                for joined in (member.request,)
            ]  # fmt: skip
            state = group.state.value if group_id in self.groups else "Dead"
            return 0, group_id, state, group.protocol_type, group.protocol, members

        return 0, list(map(describe, request.body.groups or ()))

    async def delete_groups(self, request: Request) -> tuple[Any, ...]:
        def delete(group_id: str) -> tuple[str, int]:
            return group_id, attempt(lambda: self.delete(group_id), None)[0]

        return 0, list(map(delete, request.body.groups_names or ()))
