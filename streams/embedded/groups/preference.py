"""Chooses the assignment strategy of a group."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from streams.embedded.groups.members import Member


def shared_protocols(wanted: Iterable[str], others: Collection[Member]) -> list[str]:
    """Return the requested strategies that all other members support."""
    return [name for name in wanted if all(name in other.protocols for other in others)]


def preferred_protocol(members: Collection[Member]) -> str:
    """Return the strategy that all members support and most prefer; empty without members."""
    votes: dict[str, int] = {}
    for member in members:
        for name in shared_protocols(member.protocols, members):
            votes[name] = votes.get(name, 0) + 1
            break
    return max(votes, key=lambda name: votes[name], default="")
