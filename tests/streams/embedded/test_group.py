from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from aiokafka.errors import (
    GroupIdNotFound,
    IllegalGenerationError,
    InconsistentGroupProtocolError,
    InvalidGroupIdError,
    InvalidSessionTimeoutError,
    NonEmptyGroup,
    RebalanceInProgressError,
    UnknownMemberIdError,
)

from streams.embedded.group import ConsumerGroup, GroupState, JoinReply, JoinRequest
from streams.embedded.group_api import GroupCoordinator
from streams.embedded.topics import Topics

_REQUEST = JoinRequest(
    session_timeout_seconds=10,
    rebalance_timeout_seconds=10,
    member_id="",
    protocol_type="consumer",
    protocols={"range": b"range", "sticky": b"sticky"},
    client_id="client",
    client_host="127.0.0.1",
)


@pytest.fixture
async def group() -> AsyncIterator[ConsumerGroup]:
    group = ConsumerGroup("g")
    yield group
    group.close()


def _who(reply: JoinReply) -> tuple[str, int]:
    return reply.member_id, reply.generation


async def _two_members(group: ConsumerGroup, request: JoinRequest = _REQUEST) -> tuple[JoinReply, JoinReply]:
    """Return the join replies of two members, the leader's first; both wait for the assignment."""
    alone = await group.join(request)
    second = asyncio.create_task(group.join(request))
    await asyncio.sleep(0)
    first = await group.join(replace(request, member_id=alone.member_id))
    return first, await second


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (replace(_REQUEST, member_id="nobody"), UnknownMemberIdError),
        (replace(_REQUEST, session_timeout_seconds=0), InvalidSessionTimeoutError),
        (replace(_REQUEST, session_timeout_seconds=1801), InvalidSessionTimeoutError),
        (replace(_REQUEST, protocols={}), InconsistentGroupProtocolError),
        (replace(_REQUEST, protocols={"other": b""}), InconsistentGroupProtocolError),
        (replace(_REQUEST, protocol_type="connect"), InconsistentGroupProtocolError),
    ],
)
async def test_joins_that_are_refused(
    group: ConsumerGroup, request_: JoinRequest, error: type[Exception]
) -> None:
    """A refused join leaves the group stable; a group without a name refuses each join."""
    joined = await group.join(_REQUEST)
    await group.sync(*_who(joined), {})
    with pytest.raises(error):
        await group.join(request_)
    assert group.state is GroupState.STABLE
    with pytest.raises(InvalidGroupIdError):
        await ConsumerGroup("").join(_REQUEST)


async def test_the_strategy_most_members_prefer_is_chosen(group: ConsumerGroup) -> None:
    first = await group.join(replace(_REQUEST, protocols={"mine": b"", "range": b"", "sticky": b""}))
    likes_sticky = replace(_REQUEST, protocols={"sticky": b"", "range": b""})
    others = [asyncio.create_task(group.join(likes_sticky)) for _ in range(2)]
    await asyncio.sleep(0)
    again = replace(_REQUEST, member_id=first.member_id, protocols={"range": b"", "sticky": b""})
    assert (await group.join(again)).protocol == "sticky"
    await asyncio.gather(*others)


async def test_requests_out_of_step(group: ConsumerGroup) -> None:
    joined = await group.join(_REQUEST)
    await group.sync(*_who(joined), {})
    stale = (joined.member_id, joined.generation - 1)
    stranger = ("nobody", joined.generation)
    for who, error in [(stale, IllegalGenerationError), (stranger, UnknownMemberIdError)]:
        for refused in (group.heartbeat, group.check_commit):
            with pytest.raises(error):
                refused(*who)
        with pytest.raises(error):
            await group.sync(*who, {})


async def test_commits_while_the_group_changes(group: ConsumerGroup) -> None:
    anybody = ("", -1)
    group.check_commit(*anybody)
    first, _ = await _two_members(group)
    with pytest.raises(RebalanceInProgressError):
        group.check_commit(*_who(first))
    with pytest.raises(UnknownMemberIdError):
        group.check_commit(*anybody)
    await group.sync(*_who(first), {})
    group.check_commit(*_who(first))


async def test_a_lost_reply_is_given_again(group: ConsumerGroup) -> None:
    first, second = await _two_members(group)
    assert await group.join(replace(_REQUEST, member_id=first.member_id)) == first
    await group.sync(*_who(first), {})
    assert await group.join(replace(_REQUEST, member_id=second.member_id)) == second
    assert group.state is GroupState.STABLE


async def test_silent_members_expire_and_waiting_ones_do_not(group: ConsumerGroup) -> None:
    first, second = await _two_members(group)
    waiting = asyncio.create_task(group.sync(*_who(second), {}))
    await asyncio.sleep(0)
    group.expire(asyncio.get_running_loop().time() + 11)
    assert list(group.members) == [second.member_id]
    with pytest.raises(RebalanceInProgressError):
        await waiting
    with pytest.raises(UnknownMemberIdError):
        group.heartbeat(*_who(first))


async def test_a_member_that_does_not_rejoin_is_removed(group: ConsumerGroup) -> None:
    slow = await group.join(replace(_REQUEST, rebalance_timeout_seconds=0.05))
    await group.sync(*_who(slow), {})
    quick = await group.join(replace(_REQUEST, rebalance_timeout_seconds=0.05))
    assert list(group.members) == [quick.member_id]
    assert quick.leader_id == quick.member_id


async def test_a_leader_that_assigns_nothing_is_left_out(group: ConsumerGroup) -> None:
    _, follower = await _two_members(group, replace(_REQUEST, rebalance_timeout_seconds=0.05))
    with pytest.raises(RebalanceInProgressError):
        await group.sync(*_who(follower), {})
    assert list(group.members) == [follower.member_id]


async def test_leaving(group: ConsumerGroup) -> None:
    first, second = await _two_members(group)
    await group.sync(*_who(first), {})
    group.leave(second.member_id)
    with pytest.raises(RebalanceInProgressError):
        group.heartbeat(*_who(first))
    with pytest.raises(UnknownMemberIdError):
        group.leave(second.member_id)
    group.leave(first.member_id)
    assert group.state is GroupState.EMPTY


async def test_a_member_that_joins_otherwise_while_it_waits(group: ConsumerGroup) -> None:
    """It waits for its assignment, then joins with another subscription: the old request ends."""
    first, second = await _two_members(group)
    waiting = asyncio.create_task(group.sync(*_who(second), {}))
    await asyncio.sleep(0)
    changed = replace(_REQUEST, member_id=second.member_id, protocols={"range": b"other"})
    again = asyncio.create_task(group.join(changed))
    with pytest.raises(RebalanceInProgressError):
        await waiting
    joined = await group.join(replace(_REQUEST, member_id=first.member_id))
    assert (await again).generation == joined.generation == first.generation + 1
    assert dict(joined.members)[second.member_id] == b"other"


async def test_a_blocked_loop_expires_no_members() -> None:
    coordinator = GroupCoordinator(Topics())
    group = coordinator.find_or_create("g")
    joined = await group.join(replace(_REQUEST, session_timeout_seconds=0.3))
    await group.sync(*_who(joined), {})
    watching = asyncio.create_task(coordinator.watch_sessions())
    await asyncio.sleep(0)
    time.sleep(0.5)  # noqa: ASYNC251 - blocking the loop is the point
    for _ in range(10):  # the watcher runs before a heartbeat that waits in a socket
        await asyncio.sleep(0)
    group.heartbeat(*_who(joined))
    watching.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await watching
    coordinator.close()


async def test_offsets_are_kept_until_their_topic_or_group_is_deleted() -> None:
    coordinator = GroupCoordinator(Topics())
    group = coordinator.find_or_create("g")
    joined = await group.join(_REQUEST)
    group.offsets = {("kept", 0): (5, "note"), ("gone", 1): (6, None)}
    coordinator.forget_topic("gone")
    assert coordinator.find("g").offsets == {("kept", 0): (5, "note")}
    with pytest.raises(NonEmptyGroup):
        coordinator.delete("g")
    group.leave(joined.member_id)
    coordinator.delete("g")
    assert coordinator.find("g").offsets == {}
    with pytest.raises(GroupIdNotFound):
        coordinator.delete("g")
    coordinator.close()
