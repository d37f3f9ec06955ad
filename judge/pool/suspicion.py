"""Whether events fail or their endpoint does: by what became of other calls, and by failures in a row.

Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log
from typing import Final

ODDS: Final = 1e-6
"""An event is given up when an event like the others would have failed so often with less than this
probability."""
LEAST_SHARE: Final = 0.01
"""No single failure counts for more than one in a hundred, so that three are needed at least."""
FIRST_DOUBT: Final = 6
"""This many failed verdicts in a row raise the doubt; all but the last may have been published by then."""
MOST_DOUBT: Final = 48


@dataclass(slots=True)
class Tally:
    """Calls to one endpoint, by whether they were answered.

    What timed out again is not counted, for it may be the event.
    """

    answered: int = 0
    failed: int = 0


class Suspicion:
    """What is held against one event.

    Each failure counts by the share of other calls that failed at the same endpoint in the same time: with
    none answered it counts nothing, so that an outage never speaks against an event, however long it takes.
    """

    def __init__(self) -> None:
        self._log_odds = 0.0

    def failed(self, *, others_answered: int, others_failed: int) -> None:
        """The event failed once more.

        Args:
            others_answered: Calls for other events that were answered at this endpoint since this event's
                last failure there.
            others_failed: Those that failed.
        """
        share = (others_failed + 1) / (others_answered + others_failed + 1)
        self._log_odds += log(max(share, LEAST_SHARE))

    @property
    def proven(self) -> bool:
        """Whether it is the event."""
        return self._log_odds <= log(ODDS) * (1 - 1e-9)


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
