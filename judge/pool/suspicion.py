"""Whether the event keeps failing or the endpoint does: decided by what became of other calls meanwhile.

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
