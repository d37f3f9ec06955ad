"""A group's states, members and the strategy that they share; their requests and answers."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum

from streams.embedded.wire import ErrorCode


class GroupState(Enum):
    """The state of a group; the values are Kafka's names."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"


@dataclass(frozen=True, slots=True)
class JoinRequest:
    """A member's request to join the next generation."""

    session_timeout_seconds: float
    rebalance_timeout_seconds: float
    member_id: str
    """Empty for a new member."""
    protocol_type: str
    protocols: Mapping[str, bytes]
    """Assignment strategies in order of preference, each with the member's subscription."""
    client_id: str
    client_host: str
    two_steps: bool
    """Whether a new member first receives an id and must rejoin with it (KIP-394)."""


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
    """A member's assigned partitions, in the clients' own encoding."""

    error: ErrorCode = ErrorCode.NONE
    assignment: bytes = b""


@dataclass(frozen=True, slots=True)
class Identity:
    """A member's identity, as sent with each request."""

    member_id: str
    generation: int


@dataclass(slots=True)
class GroupMember:
    """A group's record of a member. `joining` and `syncing` are the replies it waits for."""

    member_id: str
    client_id: str
    client_host: str
    session_timeout_seconds: float
    rebalance_timeout_seconds: float
    protocols: dict[str, bytes]
    last_seen: float
    assignment: bytes = b""
    joining: asyncio.Future[JoinReply] | None = field(default=None, repr=False)
    syncing: asyncio.Future[SyncReply] | None = field(default=None, repr=False)

    @property
    def is_waiting(self) -> bool:
        """Whether it waits for a reply and therefore sends no heartbeats."""
        return self.joining is not None or self.syncing is not None

    def update(self, request: JoinRequest, *, now: float) -> None:
        """Apply a repeated join, which also counts as a heartbeat."""
        self.protocols = dict(request.protocols)
        self.session_timeout_seconds = request.session_timeout_seconds
        self.rebalance_timeout_seconds = request.rebalance_timeout_seconds
        self.last_seen = now

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
    """Return the requested strategies that all other members support."""
    return [name for name in wanted if all(name in other.protocols for other in others)]


def preferred_protocol(members: Collection[GroupMember]) -> str:
    """Return the strategy that all members support and most prefer; empty without members."""
    shared = (shared_protocols(member.protocols, members) for member in members)
    votes = Counter(names[0] for names in shared if names)
    return max(votes, key=lambda name: votes[name], default="")
