"""Whether events fail or their endpoint does: by what happened to other calls, and by failures in a row.

Pure.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from math import log, sqrt
from typing import Final

ODDS: Final = 1e-6
"""An event is abandoned when an event like the others would have failed so often with less than this
probability."""
LEAST_SHARE: Final = 0.01
"""No single failure counts for more than one in a hundred, so that three are needed at least."""
FIRST_DOUBT: Final = 6
"""This many failed verdicts in a row raise the doubt; all but the last may have been published by then."""
MOST_DOUBT: Final = 48
RELAPSE_DOUBT: Final = 2
LATEST: Final = 12
MOST_OF_LATEST: Final = 9
"""This many failures among the `LATEST` verdicts raise the doubt as well: nearly all fail, not all."""
ODDS_OF_REFUSALS: Final = 1e-4
"""As `ODDS`, for refusals: a neutral event was judged after every second one of them."""
MOST_REFUSALS: Final = 16
LEAST_REFUSED: Final = 0.05
"""No share that was seen is believed to be less, so that four refusals are needed at least."""
RECENT: Final = 128
"""Events by which it is known how many are refused, or failed."""


@dataclass(slots=True)
class Tally:
    """Calls to one endpoint, by whether they were answered.

    What timed out again is not counted, because it may be the event.
    """

    answered: int = 0
    failed: int = 0


class Refusals:
    """How often events are refused for a reason that concerns the configuration, each counted once.

    A gateway that refuses some contents refuses one event again and again, and few others. One of whose
    replicas some have a wrong key refuses a share of whatever it is asked.
    """

    def __init__(self) -> None:
        self._taken = 0.0
        self._refused = 0.0

    def count(self, *, refused: bool) -> None:
        """An event, or a neutral one, was asked for the first time."""
        self._refused += refused
        self._taken += not refused
        if self._refused + self._taken > RECENT:
            self._refused, self._taken = self._refused / 2, self._taken / 2

    def prove(self, times: int) -> bool:
        """Say whether an event that was refused so often is refused for what it says."""
        others = max(0.0, self._refused - 1)
        # Two standard deviations more than were seen: the share is known from some dozens of events.
        share = min(1.0, (others + 2 * sqrt(others) + 1) / (others + self._taken + 1))
        share = max(share, LEAST_REFUSED)
        return times >= MOST_REFUSALS or times * log(share) <= log(ODDS_OF_REFUSALS)


class Suspicion:
    """What is checked against one event.

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
    """The latest verdicts of one endpoint: whether so many failed that it may be at fault, not the events.

    Args:
        relapse: Whether it has failed all verdicts just before: then few failures are enough, until it has
            been good for a while.
    """

    def __init__(self, *, relapse: bool = False) -> None:
        self.limit = RELAPSE_DOUBT if relapse else FIRST_DOUBT
        """From this many failures in a row on the endpoint is to be tried before one is believed."""
        self._latest: deque[str | None] = deque(maxlen=LATEST)
        """Error types, None for good ones, since the endpoint was last tried."""
        self._failures = 0
        self._good = 0
        self._published: deque[bool] = deque(maxlen=RECENT)

    @property
    def kinds(self) -> frozenset[str]:
        """The error types of the latest failures."""
        return frozenset(kind for kind in self._latest if kind is not None)

    @property
    def published(self) -> int:
        """How many of the latest results say that there is no verdict."""
        return sum(self._published)

    def judged(self) -> None:
        """A verdict was given."""
        self._published.append(False)
        self._latest.append(None)
        self._failures = 0
        self._good += 1
        if self.limit > FIRST_DOUBT or self._good >= LATEST:
            self.limit = FIRST_DOUBT

    def failed(self, kind: str) -> bool:
        """A verdict failed; say whether the endpoint is to be tried before this one is believed."""
        self._latest.append(kind)
        self._failures += 1
        self._good = 0
        mostly = self.limit <= FIRST_DOUBT and LATEST - self._latest.count(None) >= MOST_OF_LATEST
        return self._failures >= self.limit or (mostly and len(self._latest) == LATEST)

    def believed(self) -> None:
        """A failure is published as the event's own."""
        self._published.append(True)

    def excused(self) -> None:
        """The endpoint judged neutral events: it is the events. It is retried after twice as many."""
        if self._failures >= self.limit:
            self.limit = min(2 * self.limit, MOST_DOUBT)
        self._failures = 0
        self._latest.clear()
        self.believed()
