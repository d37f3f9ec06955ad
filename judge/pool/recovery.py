"""Probe an endpoint that is down, after each pause of its breaker."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, Final

from judge.pool.breaker import Breaker

MOST_PROBES: Final = 8
"""Concurrent probes: a hanging one does not delay the next; beyond this number the oldest is cancelled."""
_SOON_SECONDS: Final = 0.05


class Recovery:
    """Sends probes while a breaker is open.

    Args:
        breaker: Schedules the probes.
        find_out: Sends a probe, and closes the breaker if it is answered.
        clock: Monotonic clock, in seconds.
    """

    def __init__(
        self,
        breaker: Breaker,
        find_out: Callable[[], Coroutine[Any, Any, None]],
        clock: Callable[[], float],
    ) -> None:
        self._breaker = breaker
        self._find_out = find_out
        self._clock = clock
        self._timer: asyncio.TimerHandle | None = None
        self._probes: deque[asyncio.Task[None]] = deque()

    def arm(self) -> None:
        """Send the next probe when the breaker's pause is over."""
        seconds = max(self._breaker.next_try_at - self._clock(), _SOON_SECONDS)
        self.disarm()
        self._timer = asyncio.get_running_loop().call_later(seconds, self._try_again)

    def disarm(self) -> None:
        """Send no further probe."""
        if self._timer is not None:
            self._timer.cancel()

    def stop(self) -> None:
        """Cancel the next probe and those in flight."""
        self.disarm()
        for probe in self._probes:
            probe.cancel()

    def _try_again(self) -> None:
        if not self._breaker.is_open:
            return
        now = self._clock()
        if self._breaker.may_try(now):
            self._breaker.started(now)
            while self._probes and (self._probes[0].done() or len(self._probes) >= MOST_PROBES):
                self._probes.popleft().cancel()
            self._probes.append(asyncio.create_task(self._find_out()))
        self.arm()
