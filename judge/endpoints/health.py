"""Whether an endpoint is up, and whether it or an event causes a failure. Pure: time is an argument."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice
from math import ceil, inf, log, sqrt
from typing import Final, Literal

FEW_FAILURES: Final = 3
"""Consecutive failures that open the breaker if no call was answered for `SILENT_SECONDS`."""
SILENT_SECONDS: Final = 3.0
FIRST_PAUSE_SECONDS: Final = 1.0

CHANCE: Final = 1e-4
"""A failure is published if an event like the others would fail as often with less than this probability."""
LEAST_TRIES: Final = 2
PAID_TRIES: Final = 3
"""Tries that cost tokens until an event's failure is published, unless the endpoint fails others, too."""
UNWELL_SHARE: Final = 0.1
"""An endpoint that fails more of its events than this is unwell."""
DOUBTED_SHARE: Final = 0.25
"""With more failing events than this a neutral event decides whether they or the endpoint are at fault."""
NEUTRAL_CALLS: Final = 4
"""Neutral verdicts since an event's first failure that show that the endpoint is well."""
MOST_NEUTRAL_CALLS: Final = 9
"""Neutral verdicts after which an endpoint without a record counts as well: 1 / (9 + 1) is `UNWELL_SHARE`."""
OUTAGE_CALLS: Final = 5
"""Neutral events that must fail, with no verdict meanwhile, until an endpoint that answers is down."""
LATEST: Final = 64
"""Outcomes that count however old they are."""
NEUTRAL_SECONDS: Final = 300.0
"""A neutral event's failure is forgotten after this time; a quiet endpoint's latest outcomes span hours."""
REMEMBERED: Final = 512
FEWEST_EVENTS: Final = 20
"""Decided events from which on an endpoint's share of failures is stated."""
RECENT_SECONDS: Final = 900.0
"""Older events are no part of that share."""


class Breaker:
    """Consecutive failures open it, and only a judged neutral event closes it.

    While open, it allows one probe after each pause; pauses double, and `chance` shortens each by up to half.
    """

    def __init__(self, failures: int, longest_pause_seconds: float, chance: Callable[[], float]) -> None:
        self._failures = failures
        self._longest_pause_seconds = longest_pause_seconds
        self._chance = chance
        self._in_a_row = 0
        self._first_failure_at = 0.0
        self._pause_seconds = min(FIRST_PAUSE_SECONDS, longest_pause_seconds)
        self.is_open = False
        self.next_try_at = 0.0

    def answered(self) -> None:
        self._in_a_row = 0

    def failed(self, now: float) -> bool:
        """Record a call without an answer; return whether the breaker must be opened now."""
        if self.is_open:
            return False
        if not self._in_a_row:
            self._first_failure_at = now
        self._in_a_row += 1
        silent = self._in_a_row >= FEW_FAILURES and now - self._first_failure_at >= SILENT_SECONDS
        return silent or self._in_a_row >= self._failures

    def open(self, now: float, pause_seconds: float = 0.0) -> bool:
        """Open it with at least this first pause; return whether it was closed before."""
        opened, self.is_open = not self.is_open, True
        self.next_try_at = max(self.next_try_at, now + max(pause_seconds, self._jittered()))
        return opened

    def close(self) -> None:
        """Close it; the next outage starts with the shortest pause."""
        self.is_open, self._in_a_row = False, 0
        self._pause_seconds = min(FIRST_PAUSE_SECONDS, self._longest_pause_seconds)

    def probed(self, now: float) -> None:
        self._pause_seconds = min(2 * self._pause_seconds, self._longest_pause_seconds)
        self.next_try_at = now + self._jittered()

    def _jittered(self) -> float:
        return self._pause_seconds * (0.5 + 0.5 * self._chance())


@dataclass(slots=True, eq=False)
class Outcome:
    """How an event's first try ended (`pending`: asked again; `failed`: judged then), or a neutral event."""

    sent_at: float
    state: Literal["judged", "pending", "failed"]
    is_neutral: bool = False
    failures: int = 0
    since: float = inf
    """When its first try failed; only calls sent later show whether the endpoint is well."""
    neutral_calls: int = 0
    """Neutral events that were judged on its account."""


class CallHistory:
    """The latest outcomes of one metric at one endpoint, and the rule that decides who caused a failure.

    An event's failure is published after k tries if share^k is at most `CHANCE`. The share is that of other
    events that failed at the first try, among the latest ones or those sent since this event's first failure,
    whichever is higher. If it is high, the events may be at fault: where neutral events are judged, only the
    failures of events that were judged later count. Failures that were published as the events' own leave the
    record. Without a single verdict for a call sent since the first failure the endpoint is at fault.
    """

    def __init__(self) -> None:
        self._outcomes: deque[Outcome] = deque(maxlen=REMEMBERED)
        self._begun_at = -inf

    def begin(self, now: float) -> None:
        """Forget everything after an outage, whose failures are no evidence about events."""
        self._outcomes.clear()
        self._begun_at = now

    def judged(self, sent_at: float) -> None:
        """Record a verdict at the first try."""
        if sent_at >= self._begun_at:
            self._outcomes.append(Outcome(sent_at, "judged"))

    def healed(self, event: Outcome) -> bool:
        """Record that an event was judged after failures; return whether they count as the endpoint's."""
        event.state = "failed"
        return event in self._outcomes

    def failed(self, event: Outcome | None, *, sent_at: float, now: float) -> Outcome:
        """Record a failure of an event, and return its outcome; only its first failure (None) counts."""
        if event is None:
            event = Outcome(sent_at, "pending", since=now)
            if sent_at >= self._begun_at:
                self._outcomes.append(event)
        event.failures += 1
        return event

    def neutral(self, sent_at: float, *, is_failure: bool) -> None:
        self._outcomes.append(Outcome(sent_at, "failed" if is_failure else "judged", is_neutral=True))

    def excuse(self, event: Outcome) -> None:
        """Record that the event's failures were its own."""
        if event in self._outcomes:
            self._outcomes.remove(event)

    def forget_neutral_failures(self) -> None:
        """Forget the failures of neutral events, because the metric caused them."""
        kept = [one for one in self._outcomes if not (one.is_neutral and one.state == "failed")]
        self._outcomes = deque(kept, maxlen=REMEMBERED)

    def since(self, moment: float, besides: Outcome | None = None) -> list[Outcome]:
        return [one for one in self._outcomes if one.sent_at >= moment and one is not besides]

    def latest(self, now: float, besides: Outcome | None = None) -> list[Outcome]:
        """Return the latest outcomes, without failures of neutral events that are too old."""
        old = now - NEUTRAL_SECONDS
        kept = (
            one
            for one in reversed(self._outcomes)
            if one is not besides and not (one.is_neutral and one.state == "failed" and one.sent_at < old)
        )
        return list(islice(kept, LATEST))

    def decide(self, event: Outcome, *, paid: bool, now: float) -> Literal["event", "neutral", "again"]:
        """Return what follows a failure; `paid`: it cost tokens."""
        since, latest = self.since(event.since, event), self.latest(now, event)
        if event.failures < LEAST_TRIES:
            return "again"
        if not any(one.state == "judged" for one in since):
            return "neutral"
        proven = sum(one.state == "failed" for one in latest)
        low = share_of(one for one in latest if one.state != "pending")
        if any(one.state == "failed" for one in since):
            low = max(low, share_of(one for one in since if one.state != "pending"))
        high = max(share_of(latest), share_of(since))
        neutral = [one.state for one in since if one.is_neutral]
        well = neutral.count("judged") >= NEUTRAL_CALLS and "failed" not in neutral
        share = low if well else high
        if share < 1 and event.failures >= ceil(log(CHANCE) / log(share) - 1e-9):
            return "event"
        if event.failures < PAID_TRIES:
            return "again"
        if paid and low <= UNWELL_SHARE and (well or high <= DOUBTED_SHARE):
            return "event"
        is_unwell = proven > 1 and low > UNWELL_SHARE
        doubted = low > UNWELL_SHARE or (high > DOUBTED_SHARE and not well)
        may_ask = event.neutral_calls < MOST_NEUTRAL_CALLS and not is_unwell
        return "neutral" if doubted and may_ask else "again"


def failed_share(histories: Iterable[CallHistory], now: float) -> float:
    """Return the share of the latest decided outcomes that the endpoint failed; 0 while there are few."""
    latest = [one for history in histories for one in history.latest(now)]
    latest.sort(key=lambda one: one.sent_at)
    recent = [one for one in latest[-LATEST:] if now - one.sent_at <= RECENT_SECONDS]
    decided = [one.state for one in recent if one.state != "pending"]
    return decided.count("failed") / len(decided) if len(decided) >= FEWEST_EVENTS else 0.0


def share_of(outcomes: Iterable[Outcome]) -> float:
    """Return the share of failures, one more than counted and a standard deviation: samples are small."""
    states = [one.state for one in outcomes]
    counted = len(states) - states.count("judged")
    return min(1.0, (counted + sqrt(counted) + 1) / (len(states) + 1))
