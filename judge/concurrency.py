"""How many calls an endpoint bears at the same time: halved when it is overloaded, raised while it answers.

Additive increase, multiplicative decrease, as TCP does it (RFC 5681), with a call in the place of a segment. Latency is
no signal here: a judge that queues what it gets is in order until calls time out, and that is one.

Pure: the time is an argument, in seconds on any clock that never goes back.
"""

from __future__ import annotations

from typing import Final

DECREASE: Final = 0.5
FAST_UNTIL: Final = 0.75
"""After a decrease the limit doubles within a round of calls up to this share of what it was, and creeps from there."""
RETURN_SHARE: Final = 0.25
"""Of the most, an endpoint that comes back gets this much at once."""


class AdaptiveLimit:
    """Calls at the same time at one endpoint.

    Args:
        most: Never more than this; at least 1.
    """

    def __init__(self, most: int) -> None:
        self._most = float(most)
        self._fast_until = float(most)
        self._limit = float(most)
        self._decreased_at = float("-inf")

    @property
    def calls(self) -> int:
        """The limit as it stands; at least 1."""
        return int(self._limit)

    def answered(self, in_flight: int) -> None:
        """A call was answered.

        Args:
            in_flight: Calls under way then, this one included: a limit that is not reached is not raised.
        """
        limit = self._limit
        if limit >= self._most or in_flight < int(limit):
            return
        self._limit = min(self._most, limit + (1.0 if limit < self._fast_until else 1.0 / limit))

    def overloaded(self, now: float, *, sent_at: float) -> None:
        """A call failed as they do under too much load.

        Args:
            now: When.
            sent_at: When the call was sent: those sent before the last decrease say nothing new.
        """
        if sent_at < self._decreased_at:
            return
        self._decreased_at = now
        self._fast_until = max(1.0, self._limit * FAST_UNTIL)
        self._limit = max(1.0, self._limit * DECREASE)

    def came_back(self) -> None:
        """The endpoint was down and answers again: what it failed then says nothing about what it bears."""
        self._fast_until = self._most
        self._limit = max(1.0, self._limit, self._most * RETURN_SHARE)
