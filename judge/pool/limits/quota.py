"""An endpoint's limits per minute: as configured, as reported, or as learned from refusals.

Pure: the time is an argument, in seconds on any clock that never goes back.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from judge.chat import QuotaReport, RateLimits

MARGIN: Final = 0.97
"""Share of a limit to use: calls may arrive closer together than they were sent."""
BURST_SECONDS: Final = 1.0
"""What was left unused for this long may be made up for at once."""
LONGEST_GATE_SECONDS: Final = 60.0
"""An endpoint that says it has nothing left is asked again after so long at the latest, whatever it says."""
_ROUNDING: Final = 1e-9
WINDOW_SECONDS: Final = 60
GROWTH: Final = 1.1
"""A learned limit is tried this much higher after a window without a lesson, and after each further one by
the square of that."""
MOST_GROWTH: Final = 2.0
RARE_SHARE: Final = 0.015
"""Refusals of this share of a minute's calls are the price of using the limit, or chance: the learned limit
stays."""
LEAST_LESSON_SECONDS: Final = 1.0
"""A shorter `Retry-After` limits concurrent calls, not calls a minute."""


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
            return  # a later call has reported something newer
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
    """What a refusal reveals.

    Args:
        granted: Calls from one opening to the refusal.
        cycle_seconds: From that opening to the next.
        opens_at: When that is.
        before: What was learned before; still holds where nothing was granted.
    """

    granted: int
    cycle_seconds: float
    opens_at: float
    before: float | None


class LearnedQuota(Quota):
    """Requests a minute at an endpoint for which no limit is configured: refusals teach one.

    Used only where the settings name no `requests_per_minute`. What headers tell goes before what is learned.
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
        """The limit in force. None while none is known."""
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
        """A call that was sent then was answered now."""
        if self._lesson is None or sent_at >= self._lesson.opens_at:
            self._answered = True
        if self._learned is not None and now - self._learned_at >= WINDOW_SECONDS:
            self._learned *= self._growth
            self._growth = min(MOST_GROWTH, self._growth * self._growth)
            self._learned_at = now

    def refused(self, now: float, retry_after_seconds: float) -> None:
        """A call was refused for asking too often, by an endpoint that reports no limit: learn one.

        What is granted from the last opening to this refusal is what the endpoint grants from one opening to
        the next, and no less than it has granted in the last minute. Where nothing is granted, it is out of
        order, or others have used the limit up: how much it grants shows itself later. Where few calls are
        refused, that is the price of using the limit, or chance, and an endpoint that refuses by chance must
        not be asked less and less.

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
        """Another call was refused that was sent before the endpoint asked for its pause."""
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
        """The pauses that the endpoint asked for have not helped: no limit made it refuse."""
        if not self._answered:
            self._learned, self._lesson = self._held, None

    def _forget(self, now: float) -> None:
        """Drop the counts of seconds that have left the window."""
        second = int(now)
        gone = min(second - self._recent_second, WINDOW_SECONDS)
        for step in range(gone):
            self._recent[(second - step) % WINDOW_SECONDS] = 0
            self._granted[(second - step) % WINDOW_SECONDS] = 0
            self._refused[(second - step) % WINDOW_SECONDS] = 0
        self._recent_second = second


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
