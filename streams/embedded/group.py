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
from typing import Any, Final, NamedTuple

from aiokafka.errors import (
    BrokerResponseError,
    GroupCoordinatorNotAvailableError,
    IllegalGenerationError,
    InconsistentGroupProtocolError,
    InvalidGroupIdError,
    InvalidSessionTimeoutError,
    RebalanceInProgressError,
    UnknownMemberIdError,
)

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


class JoinReply(NamedTuple):
    """The member's generation; the leader also receives the members, to assign partitions."""

    generation: int
    protocol: str
    leader_id: str
    member_id: str
    members: tuple[tuple[str, bytes], ...]


@dataclass(slots=True)
class GroupMember:
    """A group's record of a member.

    `waiting` is the reply it waits for, and then it sends no heartbeats: of its join while the group prepares
    a generation, of its sync while it completes one.
    """

    member_id: str
    request: JoinRequest
    last_seen: float
    assignment: bytes = b""
    waiting: asyncio.Future[Any] | None = field(default=None, repr=False)

    def answer(self, reply: JoinReply | bytes | BrokerResponseError) -> None:
        waiting, self.waiting = self.waiting, None
        if waiting is None:
            return
        self.last_seen = _now()
        if waiting.done():
            return
        if isinstance(reply, BrokerResponseError):
            waiting.set_exception(reply)
        else:
            waiting.set_result(reply)

    def wait(self) -> asyncio.Future[Any]:
        self.answer(RebalanceInProgressError())  # an earlier request, which the member has given up
        self.waiting = asyncio.get_running_loop().create_future()
        return self.waiting


def shared_protocols(wanted: Iterable[str], others: Collection[GroupMember]) -> list[str]:
    return [name for name in wanted if all(name in other.request.protocols for other in others)]


def preferred_protocol(members: Collection[GroupMember]) -> str:
    """Return the strategy that all members support and most prefer; empty without members."""
    shared = (shared_protocols(member.request.protocols, members) for member in members)
    votes = Counter(names[0] for names in shared if names)
    return max(votes, key=lambda name: votes[name], default="")


class ConsumerGroup:
    """A consumer group; a refused request raises an error. Its methods are called from one event loop."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.state = GroupState.EMPTY
        self.generation = 0
        self.protocol_type = ""
        self.protocol = ""
        self.members: dict[str, GroupMember] = {}
        self.offsets: dict[tuple[str, int], tuple[int, str | None]] = {}
        """By topic and partition, the committed offset and its metadata."""
        self._leader_id = ""
        self._timer: asyncio.TimerHandle | None = None

    async def join(self, request: JoinRequest) -> JoinReply:
        self._refuse_unfit(request)
        if not request.member_id:
            member = self._add(request)
        elif request.member_id not in self.members:
            raise UnknownMemberIdError
        else:
            member = self.members[request.member_id]
            if self._is_repeated(member, request):
                return self._reply_for(member)
        self._prepare()
        waiting = member.wait()
        self._complete_if_all_are_here()
        reply: JoinReply = await waiting
        return reply

    async def sync(self, member_id: str, generation: int, assignments: Mapping[str, bytes]) -> bytes:
        """Return a member's assignment from the leader; followers wait for it."""
        self.check(member_id, generation)
        member = self.members[member_id]
        if self.state is GroupState.PREPARING:
            raise RebalanceInProgressError
        if self.state is GroupState.COMPLETING:
            if member_id != self._leader_id:
                assignment: bytes = await member.wait()
                return assignment
            self._become_stable(assignments)
        return member.assignment

    def heartbeat(self, member_id: str, generation: int) -> None:
        self.check(member_id, generation)
        if self.state is GroupState.PREPARING:
            raise RebalanceInProgressError

    def leave(self, member_id: str) -> None:
        if member_id not in self.members:
            raise UnknownMemberIdError
        self._remove(member_id)

    def check(self, member_id: str, generation: int) -> None:
        """Check that a request is from a member of this generation; then it counts as a heartbeat."""
        if member_id not in self.members:
            raise UnknownMemberIdError
        if generation != self.generation:
            raise IllegalGenerationError
        self.members[member_id].last_seen = _now()

    def check_commit(self, member_id: str, generation: int) -> None:
        """Check that a commit is allowed: by a member of this generation, or by any client if empty."""
        if generation < 0 and not self.members:
            return
        self.check(member_id, generation)
        if self.state is GroupState.COMPLETING:
            raise RebalanceInProgressError

    def expire(self, now: float) -> None:
        # List them first: removing one answers the others, which then no longer wait.
        silent = [
            member.member_id
            for member in self.members.values()
            if member.waiting is None and now - member.last_seen > member.request.session_timeout_seconds
        ]
        for member_id in silent:
            self._remove(member_id)

    def renew_sessions(self) -> None:
        for member in self.members.values():
            member.last_seen = _now()

    def close(self) -> None:
        self._set_timer(None)
        for member in self.members.values():
            member.answer(GroupCoordinatorNotAvailableError())

    def _refuse_unfit(self, request: JoinRequest) -> None:
        if not self.group_id:
            raise InvalidGroupIdError
        if not 0 < request.session_timeout_seconds <= _MAX_SESSION_TIMEOUT_SECONDS:
            raise InvalidSessionTimeoutError
        others = [one for one in self.members.values() if one.member_id != request.member_id]
        shared = shared_protocols(request.protocols, others)
        if not shared or (others and request.protocol_type != self.protocol_type):
            raise InconsistentGroupProtocolError

    def _is_repeated(self, member: GroupMember, request: JoinRequest) -> bool:
        """Note a known member's join; return whether its last reply was lost and is given again."""
        unchanged = member.request.protocols == request.protocols
        member.request, member.last_seen = request, _now()
        if self.state is GroupState.STABLE:  # a leader rejoins because its assignment has changed
            return unchanged and request.member_id != self._leader_id
        return unchanged and self.state is GroupState.COMPLETING

    def _add(self, request: JoinRequest) -> GroupMember:
        member = GroupMember(f"{request.client_id}-{uuid.uuid4()}", request, last_seen=_now())
        if not self.members:
            self.protocol_type = request.protocol_type
        self.members[member.member_id] = member
        return member

    def _remove(self, member_id: str) -> None:
        self.members.pop(member_id).answer(UnknownMemberIdError())
        self._prepare()
        self._complete_if_all_are_here()

    def _prepare(self) -> None:
        """Start a rebalance unless one is running."""
        if self.state is not GroupState.PREPARING:
            for member in self.members.values():
                member.answer(RebalanceInProgressError())
            self.state = GroupState.PREPARING
            self._set_timer(self._longest_rebalance_timeout_seconds())

    def _complete_if_all_are_here(self) -> None:
        if all(member.waiting is not None for member in self.members.values()):
            self._begin_generation()

    def _begin_generation(self) -> None:
        self._set_timer(None)
        here = [member for member in self.members.values() if member.waiting is not None]
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
            member.answer(self._reply_for(member))

    def _become_stable(self, assignments: Mapping[str, bytes]) -> None:
        self._set_timer(None)
        self.state = GroupState.STABLE
        for member in self.members.values():
            member.assignment = assignments.get(member.member_id, b"")
            member.answer(member.assignment)

    def _reply_for(self, member: GroupMember) -> JoinReply:
        listed: tuple[tuple[str, bytes], ...] = ()
        if member.member_id == self._leader_id:
            listed = tuple(
                (other.member_id, other.request.protocols.get(self.protocol, b""))
                for other in self.members.values()
            )
        return JoinReply(self.generation, self.protocol, self._leader_id, member.member_id, listed)

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
            for member in [member for member in self.members.values() if member.waiting is None]:
                self._remove(member.member_id)


def _now() -> float:
    return asyncio.get_running_loop().time()
