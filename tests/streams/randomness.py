"""Streams of test data that are the same in every run."""

from __future__ import annotations

from random import Random


def seeded(seed: int) -> Random:
    """Give a generator of its own, with a fixed seed."""
    return Random(seed)
