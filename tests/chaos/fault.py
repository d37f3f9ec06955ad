"""What a fault is, and how much of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, Literal

from tests.chaos.arena import Arena
from tests.chaos.checker import Report
from tests.chaos.team import Team

Access = Literal["shared", "proxied", "cluster", "proxied cluster", "alone"]
"""How a fault uses the broker: beside others, beside others and through the proxy, three brokers of their own
instead, those through a proxy each, or with nobody else at it."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that goes wrong.

    Args:
        name: As the report names it.
        play: Makes it happen to an arena, and gives the checker's report once all is over.
        workers: How many processes it needs.
        access: How it uses the broker.
        team: A team's own metrics, in place of the two.
    """

    name: str
    play: Callable[[Arena], Awaitable[Report]]
    workers: int
    access: Access
    team: Team | None = None

    @property
    def slug(self) -> str:
        """For the test's name and for folders."""
        return self.name.lower().translate(_SLUG)


_SLUG: Final = str.maketrans(" ", "-", ",:()=.'")


def fault(
    name: str, *, workers: int = 2, access: Access = "shared", team: Team | None = None
) -> Callable[[Callable[[Arena], Awaitable[Report]]], Fault]:
    """Make a fault of a function; its docstring says what happens and what must be so nevertheless."""
    return lambda play: Fault(name, play, workers, access, team)
