from __future__ import annotations

from random import Random


def seeded(seed: int) -> Random:
    """Return a generator of its own with a fixed seed."""
    return Random(seed)
