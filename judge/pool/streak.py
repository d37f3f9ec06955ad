"""Consecutive failed verdicts at one endpoint: whether the endpoint may be at fault, not the events.

Pure.
"""

from __future__ import annotations

from typing import Final

FIRST_DOUBT: Final = 6
"""This many failed verdicts in a row raise the doubt; all but the last may have been published by then."""
MOST_DOUBT: Final = 48


class Streak:
    """Counts the failed verdicts of one endpoint since the last good one."""

    def __init__(self) -> None:
        self.limit = FIRST_DOUBT
        """From this length on the endpoint is to be tried before a failure is believed."""
        self.length = 0
        self.kinds: set[str] = set()
        """The error types of the failures."""

    def judged(self) -> None:
        """A verdict was given."""
        self.limit = FIRST_DOUBT
        self._restart()

    def failed(self, kind: str) -> bool:
        """A verdict failed; say whether the endpoint is to be tried before this one is believed."""
        self.length += 1
        self.kinds.add(kind)
        return self.length >= self.limit

    def excused(self) -> None:
        """The endpoint judged a neutral event: it is the events. It is tried again after twice as many."""
        if self.length >= self.limit:
            self.limit = min(2 * self.limit, MOST_DOUBT)
            self._restart()

    def _restart(self) -> None:
        self.length = 0
        self.kinds.clear()
