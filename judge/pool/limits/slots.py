"""Calls at the same time, over all endpoints of a pool."""

from __future__ import annotations

from dataclasses import dataclass, field

from judge.pool.limits.turns import Turns


@dataclass(slots=True)
class Slots:
    """Calls at the same time, over all endpoints of a pool."""

    most: int
    taken: int = 0
    turns: Turns = field(default_factory=Turns)
    """In which replies are handed on."""
