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
    """A member's request to join the next generation.

    Attributes:
        member_id: Empty for a new member.
        instance_id: The name of a static member (KIP-345), which survives its restarts.
        protocols: Assignment strategies in order of preference, each with the member's subscription.
        two_steps: Whether a new dynamic member first receives an id and must rejoin with it (KIP-394), so
            that a client's retries leave no members behind.
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
    """The member's generation; the leader also receives the members, to assign partitions."""

    error: ErrorCode = ErrorCode.NONE
    generation: int = -1
    protocol: str = ""
    leader_id: str = ""
    member_id: str = ""
    members: tuple[tuple[str, str | None, bytes], ...] = ()


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
    instance_id: str | None = None


@dataclass(slots=True)
class Member:
    """A group's record of a member. `joining` and `syncing` are the replies it waits for."""

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
        """Whether it waits for a reply and therefore sends no heartbeats."""
        return self.joining is not None or self.syncing is not None

    def update(self, request: JoinRequest, *, now: float) -> None:
        """Apply a repeated join, which also counts as a heartbeat."""
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
        """Answer its waiting requests with an error."""
        self.answer_join(JoinReply(error=error, member_id=self.member_id))
        self.answer_sync(SyncReply(error=error))
