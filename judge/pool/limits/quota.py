"""How much an endpoint may be asked a minute, as it was configured, or as the endpoint tells it.

Pure: the time is an argument, in seconds on any clock that never goes back.
"""

from __future__ import annotations

from typing import Final

from judge.chat import QuotaReport, RateLimits

MARGIN: Final = 0.97
"""Of a limit, this much is used: two calls may travel at different speeds and arrive closer than they were
sent."""
BURST_SECONDS: Final = 1.0
"""What was left unused for so long may be made up for at once."""
LONGEST_GATE_SECONDS: Final = 60.0
"""An endpoint that says it has nothing left is asked again after so long at the latest, whatever it says."""
_ROUNDING: Final = 1e-9


class Quota:
    """Requests, or tokens, a minute at one endpoint.

    Calls are spread evenly (a token bucket one second deep), which keeps to fixed windows, sliding windows
    and token buckets alike. Beyond that, no more is sent than the endpoint said is left: what was sent after
    the call whose reply said so is subtracted.

    Args:
        per_minute: The configured limit; None where there is none. Above 0.
    """

    def __init__(self, per_minute: float | None = None) -> None:
        self._configured = per_minute
        self._told: float | None = None
        self._level = 0.0
        self._level_at: float | None = None
        self._sent = 0.0
        self._left: tuple[float, float, float] | None = None

    @property
    def per_minute(self) -> float | None:
        """The limit in force: the lower of those known. None without one."""
        if self._configured is None or self._told is None:
            return self._configured if self._told is None else self._told
        return min(self._configured, self._told)

    @property
    def known(self) -> bool:
        """Whether there is a limit to keep to."""
        return self.per_minute is not None or self._left is not None

    def wait_seconds(self, now: float, cost: float) -> float:
        """Say how long a call of this cost must wait; 0 where it may go."""
        waits = 0.0
        if self._left is not None:
            left, sent_then, until = self._left
            if now >= until:
                self._left = None
            elif left - (self._sent - sent_then) < cost:
                waits = until - now
        per_second = self._refill(now)
        if per_second is not None and self._level < -_ROUNDING:
            waits = max(waits, -self._level / per_second)
        return waits

    def take(self, now: float, cost: float) -> float:
        """Count a call that is sent now.

        Returns:
            A mark to hand to `report` with this call's reply.
        """
        if self._refill(now) is not None:
            self._level -= cost
        self._sent += cost
        return self._sent

    def settle(self, difference: float) -> None:
        """A call has cost so much more than was taken (less, where negative)."""
        if self._level_at is not None:
            self._level -= difference
        self._sent += difference

    def report(self, now: float, mark: float, report: QuotaReport) -> None:
        """Believe what the reply to a call says.

        Args:
            now: When the reply came.
            mark: What `take` gave for the call.
            report: What the reply says.
        """
        if report.limit is not None and report.limit > 0:
            self._told = report.limit
        if report.remaining is None or report.reset_seconds is None:
            return
        if self._left is not None and mark < self._left[1]:
            return  # a later call has told something newer
        self._left = (report.remaining, mark, now + min(report.reset_seconds, LONGEST_GATE_SECONDS))

    def _refill(self, now: float) -> float | None:
        limit = self.per_minute
        if limit is None:
            return None
        per_second = limit * MARGIN / 60
        if self._level_at is None:
            self._level_at = now
        self._level = min(self._level + (now - self._level_at) * per_second, BURST_SECONDS * per_second)
        self._level_at = now
        return per_second


def reset_seconds(limits: RateLimits | None) -> float:
    """Say how long until what is used up is there again, by what an endpoint tells.

    0 where it tells nothing.
    """
    if limits is None:
        return 0.0
    used_up = (
        one for one in (limits.requests, limits.tokens) if one.remaining is not None and one.remaining < 1
    )
    return max((one.reset_seconds or 0.0 for one in used_up), default=0.0)
