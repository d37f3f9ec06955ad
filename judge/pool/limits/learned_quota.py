"""A limit that nobody configured and no header tells: refusals teach it.

Used only where the settings name no `requests_per_minute`. Pure: the time is an argument, in seconds on any
clock that never goes back.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from judge.pool.limits.quota import Quota

WINDOW_SECONDS: Final = 60
GROWTH: Final = 1.1
"""A learned limit is tried this much higher after a window without a lesson, and after each further one by
the square of that."""
MOST_GROWTH: Final = 2.0
RARE_SHARE: Final = 0.015
"""Refusals of this share of a minute's calls are the price of using the limit, or chance: the learned limit
stays."""
LEAST_LESSON_SECONDS: Final = 1.0
"""A shorter `Retry-After` speaks of calls at the same time, not of calls a minute."""


@dataclass(slots=True)
class _Lesson:
    """What a refusal tells.

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
    """Requests a minute at an endpoint for which no limit is configured.

    What headers tell goes before what is learned.
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
        """A call was refused for asking too often, by an endpoint that tells no limit: learn one.

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
