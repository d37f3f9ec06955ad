"""One consumer group of the classic protocol: membership, rebalances, generations.

The rules are those of Kafka's classic group coordinator (KIP-62 timeouts), without static members.
"""

from __future__ import annotations

import asyncio
import uuid
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from streams.embedded.wire import ErrorCode

_MAX_SESSION_TIMEOUT_SECONDS: Final = 1800.0


class GroupState(Enum):
    """The state of a group; the values are Kafka's names."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"


@dataclass(frozen=True, slots=True)
class JoinRequest:
    session_timeout_seconds: float
    rebalance_timeout_seconds: float
    member_id: str
    """Empty for a new member."""
    protocol_type: str
    protocols: Mapping[str, bytes]
    """Assignment strategies in order of preference, each with the member's subscription."""
    client_id: str
    client_host: str


@dataclass(frozen=True, slots=True)
class JoinReply:
    """The member's generation; the leader also receives the members, to assign partitions."""

    error: ErrorCode = ErrorCode.NONE
    generation: int = -1
    protocol: str = ""
    leader_id: str = ""
    member_id: str = ""
    members: tuple[tuple[str, bytes], ...] = ()


@dataclass(frozen=True, slots=True)
class SyncReply:
    error: ErrorCode = ErrorCode.NONE
    assignment: bytes = b""


@dataclass(frozen=True, slots=True)
class Identity:
    member_id: str
    generation: int


@dataclass(slots=True)
class GroupMember:
    """A group's record of a member. `joining` and `syncing` are the replies it waits for."""

    member_id: str
    request: JoinRequest
    last_seen: float
    assignment: bytes = b""
    joining: asyncio.Future[JoinReply] | None = field(default=None, repr=False)
    syncing: asyncio.Future[SyncReply] | None = field(default=None, repr=False)

    @property
    def is_waiting(self) -> bool:
        """Whether it sends no heartbeats."""
        return self.joining is not None or self.syncing is not None

    def answer_join(self, reply: JoinReply) -> None:
        waiting, self.joining = self.joining, None
        if waiting is not None and not waiting.done():
            waiting.set_result(reply)

    def answer_sync(self, reply: SyncReply) -> None:
        waiting, self.syncing = self.syncing, None
        if waiting is not None and not waiting.done():
            waiting.set_result(reply)

    def dismiss(self, error: ErrorCode) -> None:
        self.answer_join(JoinReply(error=error, member_id=self.member_id))
        self.answer_sync(SyncReply(error=error))


def shared_protocols(wanted: Iterable[str], others: Collection[GroupMember]) -> list[str]:
    return [name for name in wanted if all(name in other.request.protocols for other in others)]


def preferred_protocol(members: Collection[GroupMember]) -> str:
    """Return the strategy that all members support and most prefer; empty without members."""
    shared = (shared_protocols(member.request.protocols, members) for member in members)
    votes = Counter(names[0] for names in shared if names)
    return max(votes, key=lambda name: votes[name], default="")


class ConsumerGroup:
    """A consumer group. Its methods are called from one event loop only."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.state = GroupState.EMPTY
        self.generation = 0
        self.protocol_type = ""
        self.protocol = ""
        self.members: dict[str, GroupMember] = {}
        self._leader_id = ""
        self._timer: asyncio.TimerHandle | None = None

    async def join(self, request: JoinRequest) -> JoinReply:
        error = self._reason_to_refuse(request)
        if error is not ErrorCode.NONE:
            return JoinReply(error=error, member_id=request.member_id)
        member = self._known(request) if request.member_id else self._add(request)
        if isinstance(member, JoinReply):
            return member
        member.answer_join(JoinReply(error=ErrorCode.REBALANCE_IN_PROGRESS, member_id=member.member_id))
        waiting: asyncio.Future[JoinReply] = asyncio.get_running_loop().create_future()
        member.joining = waiting
        self._rebalance()
        return await waiting

    async def sync(self, who: Identity, assignments: Mapping[str, bytes]) -> SyncReply:
        """Return a member's assignment from the leader; followers wait for it."""
        error = self.check(who)
        if error is not ErrorCode.NONE:
            return SyncReply(error=error)
        member = self.members[who.member_id]
        if self.state is GroupState.STABLE:
            return SyncReply(assignment=member.assignment)
        if self.state is not GroupState.COMPLETING:
            return SyncReply(error=ErrorCode.REBALANCE_IN_PROGRESS)
        if who.member_id == self._leader_id:
            self._become_stable(assignments)
            return SyncReply(assignment=member.assignment)
        member.answer_sync(SyncReply(error=ErrorCode.REBALANCE_IN_PROGRESS))
        waiting: asyncio.Future[SyncReply] = asyncio.get_running_loop().create_future()
        member.syncing = waiting
        return await waiting

    def heartbeat(self, who: Identity) -> ErrorCode:
        error = self.check(who)
        if error is ErrorCode.NONE and self.state is GroupState.PREPARING:
            return ErrorCode.REBALANCE_IN_PROGRESS
        return error

    def leave(self, member_id: str) -> ErrorCode:
        if member_id not in self.members:
            return ErrorCode.UNKNOWN_MEMBER_ID
        self._remove(member_id)
        return ErrorCode.NONE

    def check(self, who: Identity) -> ErrorCode:
        """Return whether a request is from a member of this generation; if so, it counts as a heartbeat."""
        if who.member_id not in self.members:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if who.generation != self.generation:
            return ErrorCode.ILLEGAL_GENERATION
        self.members[who.member_id].last_seen = _now()
        return ErrorCode.NONE

    def check_commit(self, who: Identity) -> ErrorCode:
        """Return whether a commit is allowed: by a member of this generation, or by any client if empty."""
        if who.generation < 0 and not self.members:
            return ErrorCode.NONE
        error = self.check(who)
        if error is ErrorCode.NONE and self.state is GroupState.COMPLETING:
            return ErrorCode.REBALANCE_IN_PROGRESS
        return error

    def expire(self, now: float) -> None:
        # List them first: removing one answers the others, which then no longer wait.
        silent = [
            member.member_id
            for member in self.members.values()
            if not member.is_waiting and now - member.last_seen > member.request.session_timeout_seconds
        ]
        for member_id in silent:
            self._remove(member_id)

    def renew_sessions(self) -> None:
        for member in self.members.values():
            member.last_seen = _now()

    def close(self) -> None:
        self._set_timer(None)
        for member in self.members.values():
            member.dismiss(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    def _reason_to_refuse(self, request: JoinRequest) -> ErrorCode:
        if not self.group_id:
            return ErrorCode.INVALID_GROUP_ID
        if not 0 < request.session_timeout_seconds <= _MAX_SESSION_TIMEOUT_SECONDS:
            return ErrorCode.INVALID_SESSION_TIMEOUT
        others = [one for one in self.members.values() if one.member_id != request.member_id]
        shared = shared_protocols(request.protocols, others)
        if not shared or (others and request.protocol_type != self.protocol_type):
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        return ErrorCode.NONE

    def _known(self, request: JoinRequest) -> GroupMember | JoinReply:
        """Handle a join with an id: return the member that must wait, or its immediate reply."""
        if request.member_id not in self.members:
            return JoinReply(error=ErrorCode.UNKNOWN_MEMBER_ID, member_id=request.member_id)
        member = self.members[request.member_id]
        unchanged = member.request.protocols == request.protocols
        is_leader = request.member_id == self._leader_id
        member.request, member.last_seen = request, _now()
        # The reply to its last join was lost: the generation is unchanged. A leader rejoins a stable group
        # because its assignment has changed.
        if unchanged and (
            self.state is GroupState.COMPLETING or (self.state is GroupState.STABLE and not is_leader)
        ):
            return self._reply_for(member)
        return member

    def _add(self, request: JoinRequest) -> GroupMember:
        member = GroupMember(f"{request.client_id}-{uuid.uuid4()}", request, last_seen=_now())
        if not self.members:
            self.protocol_type = request.protocol_type
        self.members[member.member_id] = member
        return member

    def _remove(self, member_id: str) -> None:
        member = self.members.pop(member_id)
        member.dismiss(ErrorCode.UNKNOWN_MEMBER_ID)
        self._rebalance()

    def _rebalance(self) -> None:
        """Start a rebalance unless one is running; continue at once if all members have joined."""
        if self.state is not GroupState.PREPARING:
            for member in self.members.values():
                if member.syncing is not None:
                    member.last_seen = _now()
                member.answer_sync(SyncReply(error=ErrorCode.REBALANCE_IN_PROGRESS))
            self.state = GroupState.PREPARING
            self._set_timer(self._longest_rebalance_timeout_seconds())
        self._complete_if_all_are_here()

    def _complete_if_all_are_here(self) -> None:
        if self.state is not GroupState.PREPARING:
            return
        if all(member.joining is not None for member in self.members.values()):
            self._begin_generation()

    def _begin_generation(self) -> None:
        self._set_timer(None)
        here = [member for member in self.members.values() if member.joining is not None]
        self.members = {member.member_id: member for member in here}
        self.generation += 1
        if not here:
            self.state, self.protocol, self._leader_id = GroupState.EMPTY, "", ""
            return
        self.protocol = preferred_protocol(self.members.values())
        if self._leader_id not in {member.member_id for member in here}:
            self._leader_id = here[0].member_id
        self.state = GroupState.COMPLETING
        self._set_timer(self._longest_rebalance_timeout_seconds())
        for member in here:
            member.last_seen = _now()
            member.answer_join(self._reply_for(member))

    def _become_stable(self, assignments: Mapping[str, bytes]) -> None:
        self._set_timer(None)
        self.state = GroupState.STABLE
        for member in self.members.values():
            member.assignment = assignments.get(member.member_id, b"")
            if member.syncing is not None:
                member.last_seen = _now()
            member.answer_sync(SyncReply(assignment=member.assignment))

    def _reply_for(self, member: GroupMember) -> JoinReply:
        listed: tuple[tuple[str, bytes], ...] = ()
        if member.member_id == self._leader_id:
            listed = tuple(
                (other.member_id, other.request.protocols.get(self.protocol, b""))
                for other in self.members.values()
            )
        return JoinReply(
            generation=self.generation,
            protocol=self.protocol,
            leader_id=self._leader_id,
            member_id=member.member_id,
            members=listed,
        )

    def _longest_rebalance_timeout_seconds(self) -> float:
        return max((one.request.rebalance_timeout_seconds for one in self.members.values()), default=0.0)

    def _set_timer(self, seconds: float | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = (
            None if seconds is None else asyncio.get_running_loop().call_later(seconds, self._time_is_up)
        )

    def _time_is_up(self) -> None:
        """Handle the rebalance timeout: remove members that did not join or sync."""
        self._timer = None
        if self.state is GroupState.PREPARING:
            self._begin_generation()
        elif self.state is GroupState.COMPLETING:
            for member in [member for member in self.members.values() if member.syncing is None]:
                self._remove(member.member_id)


def _now() -> float:
    return asyncio.get_running_loop().time()
