"""All consumer groups of the broker, with their committed offsets."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from streams.embedded.groups.group import Group
from streams.embedded.protocol.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterator

_TICK_SECONDS: Final = 0.1


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    """A group's committed offset of a partition, with the client's metadata."""

    offset: int
    metadata: str | None


class GroupCoordinator:
    """Manages the groups and ends the sessions of members without heartbeats."""

    def __init__(self) -> None:
        self._groups: dict[str, Group] = {}
        self._offsets: dict[str, dict[tuple[str, int], CommittedOffset]] = {}

    def __iter__(self) -> Iterator[Group]:
        return iter(self._groups.values())

    def find(self, group_id: str) -> Group | None:
        """Return the group of a name, if it exists."""
        return self._groups.get(group_id)

    def find_or_create(self, group_id: str) -> Group:
        """Return the group of a name; create it if it is missing."""
        group = self._groups.get(group_id)
        if group is None:
            group = self._groups[group_id] = Group(group_id)
        return group

    def delete(self, group_id: str) -> ErrorCode:
        """Delete a group without members, and its offsets."""
        group = self._groups.get(group_id)
        if group is None:
            return ErrorCode.GROUP_ID_NOT_FOUND
        if group.members:
            return ErrorCode.NON_EMPTY_GROUP
        del self._groups[group_id]
        self._offsets.pop(group_id, None)
        return ErrorCode.NONE

    def commit(self, group_id: str, topic: str, partition: int, committed: CommittedOffset) -> None:
        """Commit a group's offset of a partition."""
        self._offsets.setdefault(group_id, {})[topic, partition] = committed

    def committed(self, group_id: str) -> dict[tuple[str, int], CommittedOffset]:
        """Return a group's committed offsets by topic and partition."""
        return self._offsets.get(group_id, {})

    def forget_topic(self, topic: str) -> None:
        """Delete the committed offsets of a deleted topic."""
        for offsets in self._offsets.values():
            for key in [key for key in offsets if key[0] == topic]:
                del offsets[key]

    async def watch_sessions(self) -> None:
        """End the sessions of members without heartbeats, until cancelled."""
        clock = asyncio.get_running_loop().time
        for group in self:
            group.renew_sessions()
        while True:
            expected = clock() + _TICK_SECONDS
            await asyncio.sleep(_TICK_SECONDS)
            late_seconds = clock() - expected
            if late_seconds > _TICK_SECONDS:
                # The event loop was blocked, so heartbeats may wait in the sockets: read them first.
                continue
            for group in list(self):
                group.expire(clock())

    def close(self) -> None:
        """Answer all waiting requests."""
        for group in self:
            group.close()
