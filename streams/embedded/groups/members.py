"""A group member's requests and answers, and the group's record of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from streams.embedded.protocol.codes import ErrorCode

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class JoinRequest:
    """A member wants to be part of the next generation.

    Attributes:
        member_id: Empty for a new member.
        instance_id: The name of a static member (KIP-345), which survives its restarts.
        protocols: Assignment strategies in order of preference, each with the member's subscription.
        two_steps: A new dynamic member is first given an id and must come again with it (KIP-394), so that
            repeated tries of one client do not leave members behind.
    """

    session_timeout_seconds: float
    rebalance_timeout_seconds: float
    member_id: str
    instance_id: str | None
    protocol_type: str
    protocols: Mapping[str, bytes]
    client_id: str
    client_host: str
    two_steps: bool


@dataclass(frozen=True, slots=True)
class JoinReply:
    """The generation a member is part of; the leader also gets the members, to assign partitions."""

    error: ErrorCode = ErrorCode.NONE
    generation: int = -1
    protocol: str = ""
    leader_id: str = ""
    member_id: str = ""
    members: tuple[tuple[str, str | None, bytes], ...] = ()


@dataclass(frozen=True, slots=True)
class SyncReply:
    """The partitions a member was assigned, in the clients' own encoding."""

    error: ErrorCode = ErrorCode.NONE
    assignment: bytes = b""


@dataclass(frozen=True, slots=True)
class Identity:
    """A member's identity, as sent with each request."""

    member_id: str
    generation: int
    instance_id: str | None = None


@dataclass(slots=True)
class Member:
    """A member as the group knows it. `joining` and `syncing` are the replies it waits for."""

    member_id: str
    instance_id: str | None
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
        """It waits for a reply, and so cannot be expected to send heartbeats."""
        return self.joining is not None or self.syncing is not None

    def update(self, request: JoinRequest, *, now: float) -> None:
        """Take over what a repeated join asks for; the member counts as alive."""
        self.protocols = dict(request.protocols)
        self.session_timeout_seconds = request.session_timeout_seconds
        self.rebalance_timeout_seconds = request.rebalance_timeout_seconds
        self.last_seen = now

    def answer_join(self, reply: JoinReply) -> None:
        """Answer a waiting join, if there is one."""
        waiting, self.joining = self.joining, None
        if waiting is not None and not waiting.done():
            waiting.set_result(reply)

    def answer_sync(self, reply: SyncReply) -> None:
        """Answer a waiting sync, if there is one."""
        waiting, self.syncing = self.syncing, None
        if waiting is not None and not waiting.done():
            waiting.set_result(reply)

    def dismiss(self, error: ErrorCode) -> None:
        """Answer whatever it waits for with an error."""
        self.answer_join(JoinReply(error=error, member_id=self.member_id))
        self.answer_sync(SyncReply(error=error))
