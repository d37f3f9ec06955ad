"""Weighted sums over a sliding window of time, in bounded memory. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from streams.monitoring.statistics.estimators import WeightedSums

SLICES = 60
"""Number of slices of the window, which slides by whole slices."""


class SlidingSums:
    """Sums over the scores of answers within a sliding window.

    Scores are added in any order to one of 60 slices, by the time of their answers. The window ends with the
    current slice, so it covers between 59/60 and all of its length. Older scores are ignored, and times in
    the future count as now.

    Args:
        length_seconds: Length of the window; positive.
    """

    __slots__ = ("_slice_seconds", "_slices")

    def __init__(self, length_seconds: float) -> None:
        self._slice_seconds = length_seconds / SLICES
        self._slices: dict[int, WeightedSums] = {}

    def add(self, sums: WeightedSums, *, occurred_at: datetime, now: datetime) -> None:
        """Add what a score adds to the sums."""
        latest = self._number(now)
        number = min(self._number(occurred_at), latest)
        if number <= latest - SLICES:
            return
        if len(self._slices) > SLICES:
            self._forget(latest)
        self._slices[number] = self._slices.get(number, WeightedSums()).merge(sums)

    def total(self, now: datetime) -> WeightedSums:
        """Return the sums over the window that ends now."""
        self._forget(self._number(now))
        return WeightedSums.merged(self._slices.values())

    def dump(self) -> dict[str, list[float]]:
        """Return the sums of each slice, by its number."""
        return {str(number): sums.numbers for number, sums in self._slices.items()}

    def load(self, slices: Mapping[str, Sequence[float]]) -> None:
        """Restore the state that `dump` returned."""
        self._slices = {int(number): WeightedSums.from_numbers(sums) for number, sums in slices.items()}

    def _number(self, moment: datetime) -> int:
        return int(moment.timestamp() // self._slice_seconds)

    def _forget(self, latest: int) -> None:
        for number in [number for number in self._slices if number <= latest - SLICES]:
            del self._slices[number]
