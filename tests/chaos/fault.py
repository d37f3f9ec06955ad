from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, Literal

from tests.chaos.arena import Arena
from tests.chaos.checker import Report
from tests.chaos.team import Team

Access = Literal["shared", "proxied", "cluster", "proxied cluster", "alone"]
"""The broker: shared, or through a proxy, or three of them, or through a proxy each, or alone."""


@dataclass(frozen=True, slots=True)
class Fault:
    name: str
    play: Callable[[Arena], Awaitable[Report]]
    workers: int
    access: Access
    team: Team | None = None

    @property
    def slug(self) -> str:
        return self.name.lower().translate(_SLUG)


_SLUG: Final = str.maketrans(" ", "-", ",:()=.'")


def fault(
    name: str, *, workers: int = 2, access: Access = "shared", team: Team | None = None
) -> Callable[[Callable[[Arena], Awaitable[Report]]], Fault]:
    """Make a fault of a function; its docstring states the fault and the expected behaviour."""
    return lambda play: Fault(name, play, workers, access, team)
