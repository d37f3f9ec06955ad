"""Adaptive concurrency limit of an endpoint, and the slow start of its calls.

The limit is halved on overload and raised while calls are answered: additive increase, multiplicative
decrease, as in TCP (RFC 5681), with a call in place of a segment. Latency is no signal, because an endpoint
may queue requests; time-outs are.

Pure: the time is an argument, in seconds of any monotonic clock.
"""

from __future__ import annotations

from typing import Final

DECREASE: Final = 0.5
FAST_UNTIL: Final = 0.75
"""After a decrease the limit doubles per round of calls up to this share of its former value; beyond that it
grows by one per round."""
RETURN_SHARE: Final = 0.25
"""Share of the maximum with which a recovered endpoint restarts."""
FIRST_CALLS: Final = 4
"""Calls sent before the first reply, which may report limits that a burst would exceed."""
FIRST_SECONDS: Final = 1.0
"""Longest wait for the first reply."""
SPREAD_SHARE: Final = 0.8
"""Share of a call's duration over which the calls up to the limit are spread."""
GROWTH_CALLS: Final = 1.0
"""After n calls the next one waits for this share of a call's duration, divided by n."""
CATCH_UP_SECONDS: Final = 0.02
"""Calls delayed by a late timer within this time start together; far less than a call takes."""


class AdaptiveLimit:
    """Limit of concurrent calls at one endpoint.

    Args:
        most: Upper limit; at least 1.
    """

    def __init__(self, most: int) -> None:
        self._most = float(most)
        self._fast_until = float(most)
        self._limit = float(most)
        self._decreased_at = float("-inf")

    @property
    def calls(self) -> int:
        """The current limit; at least 1."""
        return int(self._limit)

    def answered(self, in_flight: int) -> None:
        """Raise the limit after an answered call, if the limit was reached.

        Args:
            in_flight: Calls in flight at that time, this one included.
        """
        limit = self._limit
        if limit >= self._most or in_flight < int(limit):
            return
        self._limit = min(self._most, limit + (1.0 if limit < self._fast_until else 1.0 / limit))

    def overloaded(self, now: float, *, sent_at: float) -> None:
        """Halve the limit after a failure that means overload.

        Args:
            now: When.
            sent_at: When the call was sent: calls sent before the last decrease are ignored.
        """
        if sent_at < self._decreased_at:
            return
        self._decreased_at = now
        self._fast_until = max(1.0, self._limit * FAST_UNTIL)
        self._limit = max(1.0, self._limit * DECREASE)

    def came_back(self) -> None:
        """Raise the limit after an outage, whose failures are no evidence about capacity."""
        self._fast_until = self._most
        self._limit = max(1.0, self._limit, self._most * RETURN_SHARE)


class GentleStart:
    """Slow start for an endpoint without a known limit.

    An unknown limit shows only in refusals, which also hit all calls sent before the first of them returns.
    So about twice as many calls start per call duration as before, evenly spread; once the concurrency limit
    is reached, replies set the pace.
    """

    __slots__ = ("_met", "_next_at", "_sent", "_shortest_seconds", "is_over")

    def __init__(self) -> None:
        self._met = False
        self._sent = 0
        self._shortest_seconds: float | None = None
        self._next_at = 0.0
        self.is_over = False
        """Whether the concurrency limit was reached since the last time that no call was in flight."""

    def wait_seconds(self, now: float, in_flight: int) -> float:
        """Return how long the next call must wait; 0 or less if it may be sent.

        Args:
            now: When.
            in_flight: Calls in flight.
        """
        if not self._met and in_flight < FIRST_CALLS:
            return 0.0
        return self._next_at - now

    def sent(self, now: float, most: int) -> None:
        """Record a sent call; `most` may be in flight."""
        self._sent += 1
        if not self._met and self._sent <= FIRST_CALLS:
            self._next_at = self._next_at or now + FIRST_SECONDS
            return
        seconds = FIRST_SECONDS if self._shortest_seconds is None else self._shortest_seconds
        gap = seconds * max(SPREAD_SHARE / most, GROWTH_CALLS / self._sent)
        self._next_at = max(self._next_at, now - CATCH_UP_SECONDS) + gap

    def answered(self, seconds: float) -> None:
        """Record the duration of an answered call."""
        if self._shortest_seconds is None or seconds < self._shortest_seconds:
            self._shortest_seconds = seconds

    def ended(self, now: float) -> None:
        """Record that a call has ended, answered or not; its duration is not used."""
        if not self._met:
            self._met = True
            self._next_at = now
