"""How many concurrent calls an endpoint gets, and how they start.

The limit is halved when the endpoint is overloaded, and raised while it answers.

Additive increase, multiplicative decrease, as TCP does it (RFC 5681), with a call in the place of a segment.
Latency is no signal here: a judge that queues what it gets is in order until calls time out, and that is one.

Pure: the time is an argument, in seconds on any clock that never goes back.
"""

from __future__ import annotations

from typing import Final

DECREASE: Final = 0.5
FAST_UNTIL: Final = 0.75
"""After a decrease the limit doubles within a round of calls up to this share of what it was, and creeps from
there."""
RETURN_SHARE: Final = 0.25
"""Share of the maximum that a recovered endpoint gets at once."""
FIRST_CALLS: Final = 4
"""This many calls go before the first reply: it may tell limits that a burst would break."""
FIRST_SECONDS: Final = 1.0
"""It is waited for no longer than this."""
SPREAD_SHARE: Final = 0.8
"""Share of a call's duration; over less, no more calls start than may be in flight."""
GROWTH_CALLS: Final = 1.0
"""After n calls the next one sets out no sooner than so much of a call's time, divided by n."""
CATCH_UP_SECONDS: Final = 0.02
"""What a timer came too late for may set out together; far less than a call takes."""


class AdaptiveLimit:
    """Concurrent calls at one endpoint.

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
        """The endpoint was down and answers again: those failures say nothing about its capacity."""
        self._fast_until = self._most
        self._limit = max(1.0, self._limit, self._most * RETURN_SHARE)


class GentleStart:
    """Starts calls to an endpoint without a known limit one after the other instead of all at once.

    An unknown limit shows only by a refusal, and whatever was sent before that came back is
    refused, too. So in the time that a call takes, about twice as many set out as have before, evenly spread;
    once this many are under way as may be, replies set the pace.
    """

    __slots__ = ("_met", "_next_at", "_sent", "_shortest_seconds", "is_over")

    def __init__(self) -> None:
        self._met = False
        self._sent = 0
        self._shortest_seconds: float | None = None
        self._next_at = 0.0
        self.is_over = False
        """Whether as many were under way as may be; until none is."""

    def wait_seconds(self, now: float, in_flight: int) -> float:
        """Say how long the next call must wait; 0 or less where it may go.

        Args:
            now: When.
            in_flight: Calls under way.
        """
        if not self._met and in_flight < FIRST_CALLS:
            return 0.0
        return self._next_at - now

    def sent(self, now: float, most: int) -> None:
        """A call goes, of the calls that may be in flight."""
        self._sent += 1
        if not self._met and self._sent <= FIRST_CALLS:
            self._next_at = self._next_at or now + FIRST_SECONDS
            return
        seconds = FIRST_SECONDS if self._shortest_seconds is None else self._shortest_seconds
        gap = seconds * max(SPREAD_SHARE / most, GROWTH_CALLS / self._sent)
        self._next_at = max(self._next_at, now - CATCH_UP_SECONDS) + gap

    def answered(self, seconds: float) -> None:
        """A call was answered after so long."""
        if self._shortest_seconds is None or seconds < self._shortest_seconds:
            self._shortest_seconds = seconds

    def ended(self, now: float) -> None:
        """A call has ended in whatever way.

        How soon it failed says nothing about how long an answer takes.
        """
        if not self._met:
            self._met = True
            self._next_at = now
