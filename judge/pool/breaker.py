"""Circuit breaker: when an endpoint counts as down, and when it is probed.

Pure: time (seconds of any monotonic clock) and randomness are arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

FEW_FAILURES: Final = 3
"""Consecutive failures that open the breaker if no call was answered for `SILENT_SECONDS`."""
SILENT_SECONDS: Final = 3.0
FIRST_PAUSE_SECONDS: Final = 1.0


class Breaker:
    """Breaker of one endpoint.

    Consecutive failures open it. While open, it allows one probe after each pause; any answer closes it. A
    hanging probe does not delay the next one.

    Args:
        failures: Consecutive failures that open it; at least 1.
        longest_pause_seconds: Upper limit of the doubling pauses; above 0.
        chance: Returns uniform random numbers from 0 to 1; each pause is 50% to 100% of its length.
    """

    def __init__(self, *, failures: int, longest_pause_seconds: float, chance: Callable[[], float]) -> None:
        self._failures = failures
        self._longest_pause_seconds = longest_pause_seconds
        self._chance = chance
        self._in_a_row = 0
        self._first_failure_at = 0.0
        self._pause_seconds = FIRST_PAUSE_SECONDS
        self.is_open = False
        self.next_try_at = 0.0
        """While open: earliest time of the next probe."""

    def may_try(self, now: float) -> bool:
        """Return whether a call or probe may be sent."""
        return not self.is_open or now >= self.next_try_at

    def started(self, now: float) -> None:
        """Record that a probe was sent, and schedule the next."""
        if self.is_open:
            self.next_try_at = now + self._jittered()

    def answered(self) -> bool:
        """Record an answered call.

        Returns:
            Whether this closed it.
        """
        self._in_a_row = 0
        closed, self.is_open = self.is_open, False
        self._pause_seconds = min(FIRST_PAUSE_SECONDS, self._longest_pause_seconds)
        return closed

    def failed(self, now: float) -> bool:
        """Record a failed call.

        Returns:
            Whether this opened it.
        """
        if not self._in_a_row:
            self._first_failure_at = now
        self._in_a_row += 1
        if self.is_open:
            self._pause_seconds = min(2 * self._pause_seconds, self._longest_pause_seconds)
            self.next_try_at = max(self.next_try_at, now + self._jittered())
            return False
        silent = self._in_a_row >= FEW_FAILURES and now - self._first_failure_at >= SILENT_SECONDS
        if self._in_a_row < self._failures and not silent:
            return False
        self._pause_seconds = min(FIRST_PAUSE_SECONDS, self._longest_pause_seconds)
        return self.trip(now, self._jittered())

    def trip(self, now: float, pause_seconds: float) -> bool:
        """Open the breaker with this first pause, whatever the failure count.

        Returns:
            Whether it was closed before.
        """
        opened, self.is_open = not self.is_open, True
        self.next_try_at = max(self.next_try_at, now + pause_seconds)
        return opened

    def open(self, now: float) -> bool:
        """Open the breaker with the default first pause, whatever the failure count.

        Returns:
            Whether it was closed before.
        """
        return self.trip(now, self._jittered())

    def _jittered(self) -> float:
        return self._pause_seconds * (0.5 + 0.5 * self._chance())
