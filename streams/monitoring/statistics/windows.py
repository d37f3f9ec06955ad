"""Weighted sums over the latest stretch of time, in bounded memory. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from streams.monitoring.statistics.estimators import WeightedSums

SLICES = 60
"""Parts of the window: it slides by whole parts."""


class SlidingSums:
    """Sums over the scores of answers given in the latest stretch of time.

    Scores are put where their answers were given, in any order of arrival, into one of 60 slices. The window
    ends with the slice that is continuing, so it covers between 59/60 and all of its length. What is older
    than the window is left out, and what claims to come from the future counts as now.

    Args:
        length_seconds: Length of the window; positive.
    """

    __slots__ = ("_slice_seconds", "_slices")

    def __init__(self, length_seconds: float) -> None:
        self._slice_seconds = length_seconds / SLICES
        self._slices: dict[int, WeightedSums] = {}

    def add(self, score: float, probability: float, *, occurred_at: datetime, now: datetime) -> None:
        """Take one score."""
        latest = self._number(now)
        number = min(self._number(occurred_at), latest)
        if number <= latest - SLICES:
            return
        if len(self._slices) > SLICES:
            self._forget(latest)
        self._slices[number] = self._slices.get(number, WeightedSums()).add(score, probability)

    def total(self, now: datetime) -> WeightedSums:
        """Give the sums over the window that ends now."""
        self._forget(self._number(now))
        return WeightedSums.merged(self._slices.values())

    def dump(self) -> dict[str, list[float]]:
        """The sums of each slice, by its number."""
        return {str(number): sums.numbers for number, sums in self._slices.items()}

    def load(self, slices: Mapping[str, Sequence[float]]) -> None:
        """Continue from what `dump` gave."""
        self._slices = {int(number): WeightedSums.from_numbers(sums) for number, sums in slices.items()}

    def _number(self, moment: datetime) -> int:
        return int(moment.timestamp() // self._slice_seconds)

    def _forget(self, latest: int) -> None:
        for number in [number for number in self._slices if number <= latest - SLICES]:
            del self._slices[number]
