"""Limit the share of records that become dead letters: `dead_letters.limit`."""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass, field
from typing import Final

from streams.errors import DeadLetterLimitError
from streams.settings import DeadLetterLimitSettings


@dataclass(slots=True)
class _Tally:
    """Outcomes of a topic's latest records: True for a dead letter."""

    latest: deque[bool]
    consecutive: int = 0
    aside: int = field(default=0)

    def add(self, *, aside: bool) -> None:
        if len(self.latest) == self.latest.maxlen and self.latest[0]:
            self.aside -= 1
        self.latest.append(aside)
        self.aside += aside
        self.consecutive = self.consecutive + 1 if aside else 0


RATIO_OVER_RECORDS: Final = 1000
"""Number of recent records for the share."""


class DeadLetterLimit:
    """Stops a worker that would turn every record into a dead letter: a setting or a producer is wrong then.

    Args:
        limit: The limit; None for no limit.
    """

    def __init__(self, limit: DeadLetterLimitSettings | None) -> None:
        self._limit = limit
        self._tallies: defaultdict[str, _Tally] = defaultdict(
            lambda: _Tally(deque(maxlen=RATIO_OVER_RECORDS))
        )

    def finished(self, topic: str) -> None:
        """Count a record that did not become a dead letter."""
        if self._limit is not None:
            self._tallies[topic].add(aside=False)

    def set_aside(self, topic: str) -> None:
        """Count a record that is about to become a dead letter.

        Raises:
            DeadLetterLimitError: The record exceeds the limit.
        """
        limit = self._limit
        if limit is None:
            return
        tally = self._tallies[topic]
        tally.add(aside=True)
        if limit.consecutive is not None and tally.consecutive > limit.consecutive:
            raise DeadLetterLimitError(
                f"{tally.consecutive} consecutive records of {topic} would become dead letters, "
                "dead_letters.limit.consecutive is "
                f"{limit.consecutive}; check the latest dead letters, then fix their cause or raise the limit"
            )
        full = len(tally.latest) == tally.latest.maxlen
        if limit.ratio is not None and full and tally.aside > limit.ratio * len(tally.latest):
            raise DeadLetterLimitError(
                f"{tally.aside} of the latest {len(tally.latest)} records of {topic} would become dead "
                f"letters, dead_letters.limit.ratio is {limit.ratio:g}; check the latest dead letters, then "
                "fix their cause or raise the limit"
            )
