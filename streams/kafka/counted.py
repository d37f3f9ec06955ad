"""Which results were counted already, so that a redelivery counts nothing twice. Pure."""

from __future__ import annotations

from typing import Final

REMEMBERED: Final = 50_000
"""Ids in each of two generations: between so many and twice as many of the latest results are known, in at most 10 MB."""


class CountedResults:
    """The latest result ids, in bounded memory.

    Args:
        remembered: Ids that are known at least; at least 1.
    """

    def __init__(self, remembered: int = REMEMBERED) -> None:
        self._remembered = remembered
        self._young: set[int] = set()
        self._old: set[int] = set()

    def add(self, result_id: str) -> bool:
        """Note a result; False where it was noted before."""
        short = hash(result_id)
        if short in self._young or short in self._old:
            return False
        if len(self._young) >= self._remembered:
            self._old, self._young = self._young, set()
        self._young.add(short)
        return True
