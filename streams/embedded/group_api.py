"""Consumer groups with their committed offsets, and the handlers of group requests."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final

from streams.embedded.group import ConsumerGroup, GroupMember, Identity, JoinRequest
from streams.embedded.topics import Topics
from streams.embedded.wire import Api, ApiKey, ErrorCode, Reader, Request, Writer

_TICK_SECONDS: Final = 0.1


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    offset: int
    metadata: str | None


class GroupCoordinator:
    """Has the groups, and ends the sessions of members without heartbeats."""

    def __init__(self) -> None:
        self.groups: dict[str, ConsumerGroup] = {}
        self._offsets: dict[str, dict[tuple[str, int], CommittedOffset]] = {}

    def find(self, group_id: str) -> ConsumerGroup:
        """Return the group of a name; one that does not exist has no members."""
        return self.groups.get(group_id) or ConsumerGroup(group_id)

    def find_or_create(self, group_id: str) -> ConsumerGroup:
        return self.groups.setdefault(group_id, self.find(group_id))

    def delete(self, group_id: str) -> ErrorCode:
        group = self.groups.get(group_id)
        if group is None:
            return ErrorCode.GROUP_ID_NOT_FOUND
        if group.members:
            return ErrorCode.NON_EMPTY_GROUP
        del self.groups[group_id]
        self._offsets.pop(group_id, None)
        return ErrorCode.NONE

    def commit(self, group_id: str, topic: str, partition: int, committed: CommittedOffset) -> None:
        self._offsets.setdefault(group_id, {})[topic, partition] = committed

    def committed(self, group_id: str) -> dict[tuple[str, int], CommittedOffset]:
        return self._offsets.get(group_id, {})

    def forget_topic(self, topic: str) -> None:
        for offsets in self._offsets.values():
            for key in [key for key in offsets if key[0] == topic]:
                del offsets[key]

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


class GroupApis:
    def __init__(self, coordinator: GroupCoordinator, topics: Topics) -> None:
        self._coordinator = coordinator
        self._topics = topics

    def table(self) -> tuple[Api, ...]:
        return (
            Api(ApiKey.OFFSET_COMMIT, 3, 4, self.offset_commit),
            Api(ApiKey.OFFSET_FETCH, 3, 4, self.offset_fetch),
            Api(ApiKey.JOIN_GROUP, 2, 3, self.join_group),
            Api(ApiKey.HEARTBEAT, 1, 2, self.heartbeat),
            Api(ApiKey.LEAVE_GROUP, 1, 2, self.leave_group),
            Api(ApiKey.SYNC_GROUP, 1, 2, self.sync_group),
            Api(ApiKey.DESCRIBE_GROUPS, 1, 2, self.describe_groups),
            Api(ApiKey.LIST_GROUPS, 1, 2, self.list_groups),
            Api(ApiKey.DELETE_GROUPS, 0, 1, self.delete_groups),
        )

    async def join_group(self, request: Request) -> Writer:
        body = request.body
        group = self._coordinator.find_or_create(body.string())
        joined = await group.join(
            JoinRequest(
                session_timeout_seconds=body.int32() / 1000,
                rebalance_timeout_seconds=max(body.int32() / 1000, 0),
                member_id=body.string(),
                protocol_type=body.string(),
                protocols=dict(body.array(lambda: (body.string(), bytes(body.byte_string())))),
                client_id=request.client_id,
                client_host=request.client_host,
            )
        )
        reply = request.reply()

        def write_member(member: tuple[str, bytes]) -> None:
            reply.string(member[0])
            reply.byte_string(member[1])

        reply.numbers("hi", joined.error, joined.generation)
        reply.strings(joined.protocol, joined.leader_id, joined.member_id)
        reply.array(joined.members, write_member)
        return reply

    async def sync_group(self, request: Request) -> Writer:
        body = request.body
        group_id, who = body.string(), _who(body)
        assignments = dict(body.array(lambda: (body.string(), bytes(body.byte_string()))))
        reply = request.reply()
        synced = await self._coordinator.find(group_id).sync(who, assignments)
        reply.int16(synced.error)
        reply.byte_string(synced.assignment)
        return reply

    async def heartbeat(self, request: Request) -> Writer:
        group = self._coordinator.find(request.body.string())
        reply = request.reply()
        reply.int16(group.heartbeat(_who(request.body)))
        return reply

    async def leave_group(self, request: Request) -> Writer:
        group = self._coordinator.find(request.body.string())
        reply = request.reply()
        reply.int16(group.leave(request.body.string()))
        return reply

    async def offset_commit(self, request: Request) -> Writer:
        body = request.body
        group_id, who = body.string(), _who(body)
        body.int64()  # retention time: offsets are kept until the broker ends
        topics = body.by_topic(lambda: (body.int32(), CommittedOffset(body.int64(), body.nullable_string())))
        error = self._coordinator.find_or_create(group_id).check_commit(who)
        reply = request.reply()

        def write_partition(topic: str, item: tuple[int, CommittedOffset]) -> None:
            partition, committed = item
            outcome = error
            if outcome is ErrorCode.NONE and not self._topics.has(topic, partition):
                outcome = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if outcome is ErrorCode.NONE:
                self._coordinator.commit(group_id, topic, partition, committed)
            reply.numbers("ih", partition, outcome)

        reply.by_topic(topics, write_partition)
        return reply

    async def offset_fetch(self, request: Request) -> Writer:
        body = request.body
        committed = self._coordinator.committed(body.string())
        wanted = body.nullable_array(lambda: (body.string(), body.array(body.int32)))
        if wanted is None:
            by_topic: dict[str, list[int]] = {}
            for topic, partition in sorted(committed):
                by_topic.setdefault(topic, []).append(partition)
            wanted = list(by_topic.items())
        reply = request.reply()

        def write_partition(topic: str, partition: int) -> None:
            found = committed.get((topic, partition))
            reply.numbers("iq", partition, -1 if found is None else found.offset)
            reply.string("" if found is None else found.metadata)
            reply.int16(ErrorCode.NONE)

        reply.by_topic(wanted, write_partition)
        reply.int16(ErrorCode.NONE)
        return reply

    async def list_groups(self, request: Request) -> Writer:
        reply = request.reply()
        reply.int16(ErrorCode.NONE)
        reply.array(
            self._coordinator.groups.values(),
            lambda group: reply.strings(group.group_id, group.protocol_type),
        )
        return reply

    async def describe_groups(self, request: Request) -> Writer:
        reply = request.reply()

        def write_group(group_id: str) -> None:
            group = self._coordinator.find(group_id)

            def write_member(member: GroupMember) -> None:
                request = member.request
                reply.strings(member.member_id, request.client_id, request.client_host)
                reply.byte_string(request.protocols.get(group.protocol, b""))
                reply.byte_string(member.assignment)

            reply.int16(ErrorCode.NONE)
            state = group.state.value if group_id in self._coordinator.groups else "Dead"
            reply.strings(group_id, state, group.protocol_type, group.protocol)
            reply.array(group.members.values(), write_member)

        reply.array(request.body.array(request.body.string), write_group)
        return reply

    async def delete_groups(self, request: Request) -> Writer:
        reply = request.reply()

        def write_group(group_id: str) -> None:
            reply.string(group_id)
            reply.int16(self._coordinator.delete(group_id))

        reply.array(request.body.array(request.body.string), write_group)
        return reply


def _who(body: Reader) -> Identity:
    generation = body.int32()
    return Identity(body.string(), generation)
