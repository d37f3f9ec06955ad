"""Decides when an endpoint is down, and when it is to be tried.

Pure: the time is an argument, in seconds on any clock that never goes back, and so is chance.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

FEW_FAILURES: Final = 3
"""So few in a row are enough where nothing was answered for `SILENT_SECONDS`: one event at a time fails
slowly."""
SILENT_SECONDS: Final = 3.0
FIRST_PAUSE_SECONDS: Final = 1.0


class Breaker:
    """One endpoint's breaker.

    Consecutive failures open it. Open, it lets one probe through after each pause, and any answer closes it.
    A probe that hangs does not keep the next one from being sent.

    Args:
        failures: This many in a row open it. At least 1.
        longest_pause_seconds: Pauses double up to this; above 0.
        chance: Gives numbers from 0 to 1, evenly; each pause is between a half and the whole of its length.
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
        """While it is open: when the next probe may go."""

    def may_try(self, now: float) -> bool:
        """Whether a probe may go."""
        return not self.is_open or now >= self.next_try_at

    def started(self, now: float) -> None:
        """A probe goes; the next one does after a pause."""
        if self.is_open:
            self.next_try_at = now + self._jittered()

    def answered(self) -> bool:
        """A call was answered.

        Returns:
            Whether this closed it.
        """
        self._in_a_row = 0
        closed, self.is_open = self.is_open, False
        self._pause_seconds = min(FIRST_PAUSE_SECONDS, self._longest_pause_seconds)
        return closed

    def failed(self, now: float) -> bool:
        """A call failed.

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
        """Open it whatever was counted, with this first pause.

        Returns:
            Whether it was closed before.
        """
        opened, self.is_open = not self.is_open, True
        self.next_try_at = max(self.next_try_at, now + pause_seconds)
        return opened

    def open(self, now: float) -> bool:
        """Open it whatever was counted, with the first pause.

        Returns:
            Whether it was closed before.
        """
        return self.trip(now, self._jittered())

    def _jittered(self) -> float:
        return self._pause_seconds * (0.5 + 0.5 * self._chance())
