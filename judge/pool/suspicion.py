"""Evidence on whether an event or its endpoint fails, from other calls and consecutive failures. Pure."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from math import log, sqrt
from typing import Final

ODDS: Final = 1e-6
"""An event is abandoned if its failures had less than this probability for an event like the others."""
LEAST_SHARE: Final = 0.01
"""Lower bound on the assumed share of failing calls; at least three failures are therefore needed."""
FIRST_DOUBT: Final = 6
"""Consecutive failed verdicts after which the endpoint is probed; all but the last may be published."""
MOST_DOUBT: Final = 48
RELAPSE_DOUBT: Final = 2
LATEST: Final = 12
MOST_OF_LATEST: Final = 9
"""Failures among the `LATEST` verdicts after which the endpoint is probed as well."""
ODDS_OF_REFUSALS: Final = 1e-4
"""`ODDS` for refusals: higher, because a neutral event was judged after every second one."""
MOST_REFUSALS: Final = 16
LEAST_REFUSED: Final = 0.05
"""Lower bound on the assumed share of refused events; at least four refusals are therefore needed."""
RECENT: Final = 128
"""Window of events for the counts of refusals and published failures."""


@dataclass(slots=True)
class Tally:
    """Answered and failed calls of one endpoint.

    Repeated time-outs of one event are not counted, because the event may cause them.
    """

    answered: int = 0
    failed: int = 0


class Refusals:
    """Share of events refused because of the configuration, each counted once.

    A content filter refuses the same few events every time; a gateway with a wrong key on some of its
    replicas refuses a share of all calls.
    """

    def __init__(self) -> None:
        self._taken = 0.0
        self._refused = 0.0

    def count(self, *, refused: bool) -> None:
        """Count the first try of an event or neutral event."""
        self._refused += refused
        self._taken += not refused
        if self._refused + self._taken > RECENT:
            self._refused, self._taken = self._refused / 2, self._taken / 2

    def prove(self, times: int) -> bool:
        """Return whether an event that was refused this often is refused for its content."""
        others = max(0.0, self._refused - 1)
        # Observed share plus two standard deviations, because the sample is small.
        share = min(1.0, (others + 2 * sqrt(others) + 1) / (others + self._taken + 1))
        share = max(share, LEAST_REFUSED)
        return times >= MOST_REFUSALS or times * log(share) <= log(ODDS_OF_REFUSALS)


class Suspicion:
    """Evidence against one event.

    Each failure is weighted by the share of other calls that failed at the same endpoint in the same time. If
    none was answered, it has no weight, so an outage is never evidence against an event.
    """

    def __init__(self) -> None:
        self._log_odds = 0.0

    def failed(self, *, others_answered: int, others_failed: int) -> None:
        """Record a failure of the event.

        Args:
            others_answered: Answered calls for other events at this endpoint since this event's last failure
                there.
            others_failed: Failed calls, likewise.
        """
        share = (others_failed + 1) / (others_answered + others_failed + 1)
        self._log_odds += log(max(share, LEAST_SHARE))

    @property
    def proven(self) -> bool:
        """Whether the event itself causes the failures."""
        return self._log_odds <= log(ODDS) * (1 - 1e-9)


class Streak:
    """Failures among the latest verdicts of one endpoint, to decide when to probe it.

    Args:
        relapse: Whether it has just recovered from failing all verdicts: then few failures suffice.
    """

    def __init__(self, *, relapse: bool = False) -> None:
        self.limit = RELAPSE_DOUBT if relapse else FIRST_DOUBT
        """Consecutive failures from which the endpoint is probed."""
        self._latest: deque[str | None] = deque(maxlen=LATEST)
        """Error types (None for verdicts) since the last probe."""
        self._failures = 0
        self._good = 0
        self._published: deque[bool] = deque(maxlen=RECENT)

    @property
    def kinds(self) -> frozenset[str]:
        """The error types of the latest failures."""
        return frozenset(kind for kind in self._latest if kind is not None)

    @property
    def published(self) -> int:
        """Failures published among the latest results."""
        return sum(self._published)

    def judged(self) -> None:
        """Record a verdict."""
        self._published.append(False)
        self._latest.append(None)
        self._failures = 0
        self._good += 1
        if self.limit > FIRST_DOUBT or self._good >= LATEST:
            self.limit = FIRST_DOUBT

    def failed(self, kind: str) -> bool:
        """Record a failed verdict; return whether to probe the endpoint before publishing it."""
        self._latest.append(kind)
        self._failures += 1
        self._good = 0
        mostly = self.limit <= FIRST_DOUBT and LATEST - self._latest.count(None) >= MOST_OF_LATEST
        return self._failures >= self.limit or (mostly and len(self._latest) == LATEST)

    def believed(self) -> None:
        """Record a failure published as the event's own."""
        self._published.append(True)

    def excused(self) -> None:
        """Record that a neutral event was judged, and double the limit: the events cause the failures."""
        if self._failures >= self.limit:
            self.limit = min(2 * self.limit, MOST_DOUBT)
        self._failures = 0
        self._latest.clear()
        self.believed()
