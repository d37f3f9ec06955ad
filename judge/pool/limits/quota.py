"""An endpoint's limits per minute: configured, reported, or learned from refusals.

Pure: the time is an argument, in seconds of any monotonic clock.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from judge.chat import QuotaReport, RateLimits

MARGIN: Final = 0.97
"""Share of a limit to use, because calls may arrive closer together than they were sent."""
BURST_SECONDS: Final = 1.0
"""Depth of the token bucket."""
LONGEST_GATE_SECONDS: Final = 60.0
"""Longest wait for an endpoint that reports a used-up quota."""
_ROUNDING: Final = 1e-9
WINDOW_SECONDS: Final = 60
GROWTH: Final = 1.1
"""Factor on a learned limit after a window without a refusal; it is squared after each further one."""
MOST_GROWTH: Final = 2.0
RARE_SHARE: Final = 0.015
"""Up to this share of refusals in a minute, the learned limit stays."""
LEAST_LESSON_SECONDS: Final = 1.0
"""A shorter `Retry-After` limits concurrent calls, not calls a minute."""


class Quota:
    """Quota of requests or tokens per minute at one endpoint.

    Calls are spread evenly (a token bucket one second deep), which respects fixed windows, sliding windows
    and token buckets. In addition, no more is sent than the last reply reported as remaining, less what was
    sent after that reply's call.

    Args:
        per_minute: The configured limit, above 0; None if there is none.
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
        """The effective limit: the lower of the known ones, or None."""
        if self._configured is None or self._told is None:
            return self._configured if self._told is None else self._told
        return min(self._configured, self._told)

    @property
    def known(self) -> bool:
        """Whether a limit is known."""
        return self.per_minute is not None or self._left is not None

    def wait_seconds(self, now: float, cost: float) -> float:
        """Return how long a call of this cost must wait; 0 if it may be sent."""
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
        """Correct the cost of a call by the difference between actual and estimated tokens."""
        if self._level_at is not None:
            self._level -= difference
        self._sent += difference

    def report(self, now: float, mark: float, report: QuotaReport) -> None:
        """Apply the limits that a reply reports.

        Args:
            now: When the reply came.
            mark: Returned by `take` for the call.
            report: The limits in the reply.
        """
        if report.limit is not None and report.limit > 0:
            self._told = report.limit
        if report.remaining is None or report.reset_seconds is None:
            return
        if self._left is not None and mark < self._left[1]:
            return  # a later call has already reported
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


@dataclass(slots=True)
class _Lesson:
    """State at a refusal.

    Args:
        granted: Calls granted from the last reset to the refusal.
        cycle_seconds: Time from that reset to the next.
        opens_at: Time of the next reset.
        before: Limit learned before; kept if no call was granted.
    """

    granted: int
    cycle_seconds: float
    opens_at: float
    before: float | None


class LearnedQuota(Quota):
    """Requests per minute at an endpoint without a configured limit, learned from refusals.

    Used only if `requests_per_minute` is not set. Limits in headers override learned ones.
    """

    def __init__(self) -> None:
        super().__init__()
        self._learned: float | None = None
        self._learned_at = 0.0
        self._growth = GROWTH
        self._granted = [0] * WINDOW_SECONDS
        self._refused = [0] * WINDOW_SECONDS
        self._recent = [0] * WINDOW_SECONDS
        self._recent_second = 0
        self._opened_at: float | None = None
        self._lesson: _Lesson | None = None
        self._answered = False
        self._held: float | None = None

    @property
    def per_minute(self) -> float | None:
        """The effective limit; None if unknown."""
        return self._learned if self._told is None else self._told

    def take(self, now: float, cost: float) -> float:
        """Count a call that is sent now.

        Returns:
            A mark to hand to `report` with this call's reply.
        """
        if self._told is None:
            self._forget(now)
            self._recent[int(now) % WINDOW_SECONDS] += 1
            self._granted[int(now) % WINDOW_SECONDS] += 1
            if self._opened_at is None:
                self._opened_at = now
        return super().take(now, cost)

    def answered(self, now: float, *, sent_at: float) -> None:
        """Record an answered call."""
        if self._lesson is None or sent_at >= self._lesson.opens_at:
            self._answered = True
        if self._learned is not None and now - self._learned_at >= WINDOW_SECONDS:
            self._learned *= self._growth
            self._growth = min(MOST_GROWTH, self._growth * self._growth)
            self._learned_at = now

    def refused(self, now: float, retry_after_seconds: float) -> None:
        """Learn a limit from a rate-limited call.

        Calls granted from the last reset to this refusal estimate what the endpoint grants between two
        resets; the estimate is at least the calls granted in the last minute. If none was granted, the
        endpoint is out of order or other clients used the limit up, and nothing is learned. A small share of
        refusals changes nothing: an endpoint that refuses at random must not be asked less and less.

        Args:
            now: When.
            retry_after_seconds: The pause that the endpoint asked for.
        """
        if self._told is not None or retry_after_seconds < LEAST_LESSON_SECONDS:
            return
        if self._answered:
            self._held, self._answered = self._learned, False
        self._forget(now)
        opened = now if self._opened_at is None else self._opened_at
        cycle_seconds = min(max(0.0, now - opened), WINDOW_SECONDS) + retry_after_seconds
        self._opened_at = now + retry_after_seconds
        self._lesson = _Lesson(sum(self._recent), cycle_seconds, self._opened_at, self._learned)
        self._recent = [0] * WINDOW_SECONDS
        self.refused_too()

    def refused_too(self) -> None:
        """Record another refused call that was sent before the pause."""
        if self._lesson is None or self._told is not None:
            return
        lesson = self._lesson
        lesson.granted -= 1
        self._granted[self._recent_second % WINDOW_SECONDS] -= 1
        self._refused[self._recent_second % WINDOW_SECONDS] += 1
        if lesson.granted <= 0:
            self._learned = lesson.before
            return
        granted = sum(self._granted)
        if sum(self._refused) <= RARE_SHARE * granted:
            self._learned = lesson.before
            return
        self._learned = max(lesson.granted * 60 / lesson.cycle_seconds, granted)
        self._learned_at, self._growth = lesson.opens_at, GROWTH

    def unlearn(self) -> None:
        """Discard the learned limit: pauses did not help, so the refusals have another cause."""
        if not self._answered:
            self._learned, self._lesson = self._held, None

    def _forget(self, now: float) -> None:
        """Drop counts outside the window."""
        second = int(now)
        gone = min(second - self._recent_second, WINDOW_SECONDS)
        for step in range(gone):
            self._recent[(second - step) % WINDOW_SECONDS] = 0
            self._granted[(second - step) % WINDOW_SECONDS] = 0
            self._refused[(second - step) % WINDOW_SECONDS] = 0
        self._recent_second = second


def reset_seconds(limits: RateLimits | None) -> float:
    """Return the reported time until a used-up quota resets; 0 if none is reported."""
    if limits is None:
        return 0.0
    used_up = (
        one for one in (limits.requests, limits.tokens) if one.remaining is not None and one.remaining < 1
    )
    return max((one.reset_seconds or 0.0 for one in used_up), default=0.0)
