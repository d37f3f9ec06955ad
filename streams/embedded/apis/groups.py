"""Handlers of consumer group requests: membership, offsets and administration."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streams.embedded.groups.coordinator import CommittedOffset
from streams.embedded.groups.members import Identity, JoinRequest
from streams.embedded.protocol.codes import ApiKey, ErrorCode
from streams.embedded.protocol.requests import Api
from streams.embedded.protocol.wire import Writer

if TYPE_CHECKING:
    from streams.embedded.groups.coordinator import GroupCoordinator
    from streams.embedded.groups.group import Group
    from streams.embedded.groups.members import Member
    from streams.embedded.log.topics import Topics
    from streams.embedded.protocol.requests import Request

_NO_OFFSET = -1


class GroupApis:
    """Handles the requests about consumer groups.

    Args:
        topics: The topics; offsets of other partitions are refused.
    """

    def __init__(self, coordinator: GroupCoordinator, topics: Topics) -> None:
        self._coordinator = coordinator
        self._topics = topics

    def table(self) -> tuple[Api, ...]:
        """Return the handled request types. Static members need JoinGroup 5 and SyncGroup 3."""
        return (
            Api(ApiKey.OFFSET_COMMIT, 2, 7, self.offset_commit),
            Api(ApiKey.OFFSET_FETCH, 1, 5, self.offset_fetch),
            Api(ApiKey.JOIN_GROUP, 0, 5, self.join_group),
            Api(ApiKey.HEARTBEAT, 0, 3, self.heartbeat),
            Api(ApiKey.LEAVE_GROUP, 0, 3, self.leave_group),
            Api(ApiKey.SYNC_GROUP, 0, 3, self.sync_group),
            Api(ApiKey.DESCRIBE_GROUPS, 0, 2, self.describe_groups),
            Api(ApiKey.LIST_GROUPS, 0, 2, self.list_groups),
            Api(ApiKey.DELETE_GROUPS, 0, 1, self.delete_groups),
        )

    async def join_group(self, request: Request) -> Writer:
        """Join a group, and wait for the next generation."""
        body, version = request.body, request.version
        group_id = body.string()
        session_timeout_seconds = body.int32() / 1000
        rebalance_timeout_seconds = body.int32() / 1000 if version >= 1 else session_timeout_seconds
        member_id = body.string()
        instance_id = body.nullable_string() if version >= 5 else None
        protocol_type = body.string()
        protocols = dict(body.array(lambda: (body.string(), bytes(body.byte_string()))))
        joined = await self._coordinator.find_or_create(group_id).join(
            JoinRequest(
                session_timeout_seconds=session_timeout_seconds,
                rebalance_timeout_seconds=max(rebalance_timeout_seconds, 0),
                member_id=member_id,
                instance_id=instance_id,
                protocol_type=protocol_type,
                protocols=protocols,
                client_id=request.client_id,
                client_host=request.client_host,
                two_steps=version >= 4,
            )
        )
        reply = Writer()

        def write_member(member: tuple[str, str | None, bytes]) -> None:
            reply.string(member[0])
            if version >= 5:
                reply.string(member[1])
            reply.byte_string(member[2])

        if version >= 2:
            reply.int32(0)
        reply.int16(joined.error)
        reply.int32(joined.generation)
        reply.string(joined.protocol)
        reply.string(joined.leader_id)
        reply.string(joined.member_id)
        reply.array(joined.members, write_member)
        return reply

    async def sync_group(self, request: Request) -> Writer:
        """Submit the assignment (leader) or wait for it (followers)."""
        body, version = request.body, request.version
        group_id, generation, member_id = body.string(), body.int32(), body.string()
        instance_id = body.nullable_string() if version >= 3 else None
        assignments = dict(body.array(lambda: (body.string(), bytes(body.byte_string()))))
        group = self._coordinator.find(group_id)
        reply = Writer()
        if version >= 1:
            reply.int32(0)
        if group is None:
            reply.int16(ErrorCode.UNKNOWN_MEMBER_ID)
            reply.byte_string(b"")
            return reply
        synced = await group.sync(Identity(member_id, generation, instance_id), assignments)
        reply.int16(synced.error)
        reply.byte_string(synced.assignment)
        return reply

    async def heartbeat(self, request: Request) -> Writer:
        """Register a heartbeat; return whether the member must rejoin."""
        body, version = request.body, request.version
        group_id, generation, member_id = body.string(), body.int32(), body.string()
        instance_id = body.nullable_string() if version >= 3 else None
        group = self._coordinator.find(group_id)
        who = Identity(member_id, generation, instance_id)
        reply = Writer()
        if version >= 1:
            reply.int32(0)
        reply.int16(ErrorCode.UNKNOWN_MEMBER_ID if group is None else group.heartbeat(who))
        return reply

    async def leave_group(self, request: Request) -> Writer:
        """Remove members; from version 3 several at once, static ones by instance id."""
        body, version = request.body, request.version
        group = self._coordinator.find(body.string())
        reply = Writer()
        if version >= 1:
            reply.int32(0)

        def leave(member_id: str, instance_id: str | None) -> ErrorCode:
            return ErrorCode.UNKNOWN_MEMBER_ID if group is None else group.leave(member_id, instance_id)

        def write_member(member: tuple[str, str | None]) -> None:
            reply.string(member[0])
            reply.string(member[1])
            reply.int16(leave(*member))

        if version < 3:
            reply.int16(leave(body.string(), None))
        else:
            leaving = body.array(lambda: (body.string(), body.nullable_string()))
            reply.int16(ErrorCode.NONE)
            reply.array(leaving, write_member)
        return reply

    async def offset_commit(self, request: Request) -> Writer:
        """Commit a group's offsets."""
        body, version = request.body, request.version
        group_id, generation, member_id = body.string(), body.int32(), body.string()
        instance_id = body.nullable_string() if version >= 7 else None
        if version <= 4:
            body.int64()  # retention time: offsets are kept until the broker ends

        def read_partition() -> tuple[int, CommittedOffset]:
            partition, offset = body.int32(), body.int64()
            if version >= 6:
                body.int32()  # leader epoch
            return partition, CommittedOffset(offset, body.nullable_string())

        topics = body.by_topic(read_partition)
        group = self._coordinator.find_or_create(group_id)
        error = group.check_commit(Identity(member_id, generation, instance_id))
        reply = Writer()
        if version >= 3:
            reply.int32(0)

        def write_partition(topic: str, item: tuple[int, CommittedOffset]) -> None:
            partition, committed = item
            outcome = error
            if outcome is ErrorCode.NONE and not self._topics.has(topic, partition):
                outcome = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if outcome is ErrorCode.NONE:
                self._coordinator.commit(group_id, topic, partition, committed)
            reply.int32(partition)
            reply.int16(outcome)

        reply.by_topic(topics, write_partition)
        return reply

    async def offset_fetch(self, request: Request) -> Writer:
        """Return a group's committed offsets, of some or all partitions."""
        body, version = request.body, request.version
        committed = self._coordinator.committed(body.string())
        wanted = body.nullable_array(lambda: (body.string(), body.array(body.int32)))
        if wanted is None:
            by_topic: dict[str, list[int]] = {}
            for topic, partition in sorted(committed):
                by_topic.setdefault(topic, []).append(partition)
            wanted = list(by_topic.items())
        reply = Writer()

        def write_partition(topic: str, partition: int) -> None:
            found = committed.get((topic, partition))
            reply.int32(partition)
            reply.int64(_NO_OFFSET if found is None else found.offset)
            if version >= 5:
                reply.int32(-1)  # leader epoch
            reply.string("" if found is None else found.metadata)
            reply.int16(ErrorCode.NONE)

        if version >= 3:
            reply.int32(0)
        reply.by_topic(wanted, write_partition)
        if version >= 2:
            reply.int16(ErrorCode.NONE)
        return reply

    async def list_groups(self, request: Request) -> Writer:
        """List all groups."""
        reply = Writer()

        def write_group(group: Group) -> None:
            reply.string(group.group_id)
            reply.string(group.protocol_type)

        if request.version >= 1:
            reply.int32(0)
        reply.int16(ErrorCode.NONE)
        reply.array(self._coordinator, write_group)
        return reply

    async def describe_groups(self, request: Request) -> Writer:
        """Return states and members of groups."""
        reply = Writer()

        def write_member(member: Member, protocol: str) -> None:
            reply.string(member.member_id)
            reply.string(member.client_id)
            reply.string(member.client_host)
            reply.byte_string(member.protocols.get(protocol, b""))
            reply.byte_string(member.assignment)

        def write_group(group_id: str) -> None:
            group = self._coordinator.find(group_id)
            reply.int16(ErrorCode.NONE)
            reply.string(group_id)
            reply.string("Dead" if group is None else group.state.value)
            reply.string("" if group is None else group.protocol_type)
            reply.string("" if group is None else group.protocol)
            members = [] if group is None else list(group.members.values())
            reply.array(members, lambda member: write_member(member, "" if group is None else group.protocol))

        if request.version >= 1:
            reply.int32(0)
        reply.array(request.body.array(request.body.string), write_group)
        return reply

    async def delete_groups(self, request: Request) -> Writer:
        """Delete groups without members."""
        reply = Writer()

        def write_group(group_id: str) -> None:
            reply.string(group_id)
            reply.int16(self._coordinator.delete(group_id))

        reply.int32(0)
        reply.array(request.body.array(request.body.string), write_group)
        return reply
