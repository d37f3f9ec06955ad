"""Sampling rates that follow the money of `sampling.budget`, the same at all workers.

Over the topic of the budget's leases, each worker reports what it has counted, and that with the first id
publishes policies: the rates of all strata from a time on, some seconds later. An event is decided by the
policy in force at its record's time, so by the same one at each worker and when it is read again.

**Spent evenly.** Of what is left, the policy spends until the end of the day as the day's demand usually
comes; n times as much demand as usual for the hour gets the root of n times as much, so that a burst neither
takes all nor is hardly seen. What was asked for is spent before it is judged. The leases keep the limit.

**Suspicion.** While the monitor suspects a fall in a stratum, its rate is the configured one, as far as
`SUSPICIOUS_PART` of what is left pays for a quarter of an hour of that.
"""

from __future__ import annotations

import asyncio
import json
from bisect import bisect_right, insort
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from functools import cached_property
from hashlib import sha256
from math import sqrt
from typing import Any, Final

import structlog
from pydantic import TypeAdapter, ValidationError

from streams.judging.allocation import (
    AN_OCTAVE,
    MOST_STEPS,
    Demand,
    Flow,
    StratumLoad,
    VerdictTally,
    allocate,
    figures,
    part_of,
    step_of,
)

_log = structlog.stdlib.get_logger(__name__)

LEAD_SECONDS: Final = 5.0
"""From publishing a policy until it is in force: by then every worker has read it."""
REPORT_SECONDS: Final = 15.0
SILENT_SECONDS: Final = 3 * REPORT_SECONDS
"""A worker without a report for this long publishes no policies, but the next one; nor does a first one."""
CHANGE_SECONDS: Final = 600.0
"""Between policies, unless a rate is off by half, or a suspicion begins or ends."""
AGAIN_SECONDS: Final = 3_600.0
"""A policy is published again after this time, for workers that start."""
AHEAD: Final = timedelta(minutes=15)
"""The pace is that of the usual demand of this time."""
LAST_SECONDS: Final = 120.0
"""At the end of a day, what is left is for at least as long."""
SURE_OF_DAY: Final = 1 / 24
"""Part of a day's demand from which it tells how much more or less than usual comes."""
MOST_TIMES: Final = 16.0
RESERVE: Final = 0.002
"""Part of the day's money that is still divided when all is spent: verdicts then wait for the next day."""
SUSPICIOUS_PART: Final = 0.25
PAID_SUSPICION_SECONDS: Final = 900.0
"""For how long that part must pay for the configured rate."""
SUSPICION_LASTS_SECONDS: Final = 1_200.0
"""A suspicion that the monitor does not repeat ends."""
FIRST_STEP: Final = 10 * AN_OCTAVE
"""Before the first policy 1 of 1,024 are judged."""
UNPRICED: Final = 1_600
"""Before the first verdict its price is supposed to be the limit divided by this."""
KEPT_SECONDS: Final = 8 * 86_400.0
"""Older policies are forgotten: events of their time are then decided like those before the first one."""


@dataclass(frozen=True)
class Policy:
    """The rates from a time on, and what the next publisher needs to go on."""

    since: float
    """Seconds since the epoch."""
    worker: str
    steps: dict[str, int]
    """By stratum, how many steps its rate is below the configured one."""
    day: str = ""
    demand: Demand = field(default_factory=lambda: Demand(datetime.now(UTC)))
    asked: float = 0.0
    """What the verdicts asked for on this day cost, in the limit's unit."""

    @cached_property
    def suffix(self) -> str:
        """What it adds to the name of the policy of the configured rates; the same for the same rates."""
        steps = [*self.steps.values()]
        if len(set(steps)) == 1:
            return f"*{float(part_of(steps[0])):.6g}" if steps[0] else ""
        return f"+{sha256(json.dumps(sorted(self.steps.items())).encode()).hexdigest()[:8]}"


@dataclass(frozen=True, slots=True)
class Report:
    """What a worker has counted since its start, by stratum; sums of verdicts halve every day."""

    worker: str
    at: float
    met: dict[str, float]
    """Verdicts that the configured rates would have asked for."""
    asked: dict[str, float]
    verdicts: dict[str, list[float]]
    """Sums of tallies."""


@dataclass(frozen=True, slots=True)
class Suspected:
    """The strata in which a metric's monitor suspects a fall."""

    at: float
    metric: str
    strata: list[str]


_KINDS: Final[Mapping[str, TypeAdapter[Any]]] = {
    kind.__name__.lower(): TypeAdapter(kind) for kind in (Policy, Report, Suspected)
}
_Record = tuple[bytes, bytes | None]


def rates_record_kind(key: bytes | None) -> str | None:
    """Return "policy", "report" or "suspected"; None for a record of the leases, which share the topic."""
    begun = (key or b"").decode(errors="replace").partition('", ')[0].removeprefix('["')
    return begun if begun in _KINDS else None


def _record(kind: str, name: str, value: object) -> _Record:
    return json.dumps([kind, name]).encode(), _KINDS[kind].dump_json(value)


class Rates:
    """What one worker knows of the group's rates; `most` is each stratum's configured one, above 0.

    `limit` and `spent` are of a day, in dollars or calls.
    """

    def __init__(
        self,
        most: Mapping[str, float],
        *,
        limit: float,
        in_dollars: bool,
        worker: str,
        spent: Callable[[], float],
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.worker, self.most = worker, dict(most)
        self.known = asyncio.Event()
        """Set when all earlier policies are known: when its own first report was read."""
        self._limit, self._in_dollars, self._spent, self._now = limit, in_dollars, spent, now
        self._policies: list[Policy] = [Policy(0.0, "", dict.fromkeys(most, FIRST_STEP))]
        self._met: dict[str, float] = defaultdict(float)
        self._asked: dict[str, float] = defaultdict(float)
        self._tallies: dict[str, VerdictTally] = defaultdict(VerdictTally)
        self._reports: dict[str, Report] = {}
        self._flows: dict[str, Flow] = {}
        self._suspected: dict[str, Suspected] = {}
        self._day = f"{now():%F}"
        self._demand = Demand(now())
        self._committed = 0.0
        self._reported_at = self._published_at = 0.0
        self._unsent: dict[str, _Record] = {}

    def in_force(self, timestamp: float | None, stratum: str) -> tuple[Fraction, str]:
        """Return the part of a stratum's configured rate, and the policy's suffix, for an event's time."""
        at = self._now().timestamp() if timestamp is None else timestamp
        policy = self._policies[max(bisect_right(self._policies, at, key=lambda one: one.since) - 1, 0)]
        return part_of(policy.steps.get(stratum, FIRST_STEP)), policy.suffix

    def count(self, stratum: str, met: float, asked: float) -> None:
        """Count an event: verdicts that its configured rate asks for, and those that are asked for."""
        self._met[stratum] += met
        self._asked[stratum] += asked

    def judged(self, stratum: str, metric: str, score: float | None, usd: float | None) -> None:
        """Add a verdict, with its score scaled to [0, 1] if it has one."""
        self._tallies[stratum].add(metric, score, (usd or 0.0) if self._in_dollars else 1.0)

    def suspect(self, metric: str, strata: Collection[str]) -> None:
        """Tell all workers in which strata a metric's monitor suspects a fall."""
        told = Suspected(self._now().timestamp(), metric, sorted(strata))
        self._unsent[metric] = _record("suspected", metric, told)

    def suspects(self, stratum: str) -> bool:
        since = self._now().timestamp() - SUSPICION_LASTS_SECONDS
        return any(stratum in one.strata for one in self._suspected.values() if one.at > since)

    def rate(self, stratum: str) -> float:
        return self.most[stratum] * float(self.in_force(None, stratum)[0])

    def heard(self, key: bytes | None, value: bytes | None) -> bool:
        """Take the log's next record; return whether it is one of these."""
        kind = rates_record_kind(key)
        if kind is None:
            return False
        try:
            one = None if value is None else _KINDS[kind].validate_json(value)
        except ValidationError:
            _log.warning("record says nothing about sampling rates; skipped", key=key)
            return True
        if isinstance(one, Policy):
            insort(self._policies, one, key=lambda policy: policy.since)
            if not self.known.is_set():  # else this worker's own sums are as good
                self._day, self._demand, self._committed = one.day, one.demand, one.asked
        elif isinstance(one, Report):
            self._take(one)
            if one.worker == self.worker:
                self.known.set()
        elif isinstance(one, Suspected):
            self._suspected[one.metric] = one
        return True

    def _take(self, report: Report) -> None:
        before = self._reports.get(report.worker)
        self._reports[report.worker] = report
        self._begin(min(report.at, self._now().timestamp()))
        day, at = report.at >= self._midnight(), datetime.fromtimestamp(report.at, UTC)
        known = self._figures()
        for name in self.most:
            flow = self._flows.setdefault(name, Flow(report.at, report.at))
            if before is None:
                continue
            met = report.met.get(name, 0.0) - before.met.get(name, 0.0)
            flow.add(report.at, met)
            if day:
                self._demand.add(at, met)
                asked = report.asked.get(name, 0.0) - before.asked.get(name, 0.0)
                self._committed += asked * known[name][0]

    def due(self) -> list[_Record]:
        now = self._now().timestamp()
        self._begin(now)
        found, self._unsent = list(self._unsent.values()), {}
        if now - self._reported_at >= REPORT_SECONDS:
            self._reported_at = now
            verdicts = {name: one.sums for name, one in self._tallies.items()}
            told = Report(self.worker, now, dict(self._met), dict(self._asked), verdicts)
            found.append(_record("report", self.worker, told))
        return found + self._published(now)

    def _published(self, now: float) -> list[_Record]:
        """Return the next policy, if it is due and this worker's turn; and tombstones of old records."""
        reporting = [one.worker for one in self._reports.values() if abs(now - one.at) < SILENT_SECONDS]
        first_at = min((flow.since for flow in self._flows.values()), default=now)
        waited = now - max(self._published_at, self._policies[-1].since) >= REPORT_SECONDS
        if self.worker != min(reporting, default="") or not waited or now - first_at < SILENT_SECONDS:
            return []
        latest = self._policies[-1]
        steps = self._steps(now, latest.steps if latest.worker else {})
        moved = max(abs(step - latest.steps.get(name, FIRST_STEP)) for name, step in steps.items())
        pause = AGAIN_SECONDS if not moved else CHANGE_SECONDS if moved < AN_OCTAVE / 2 else 0.0
        if latest.worker and now - latest.since < pause:
            return []
        self._published_at = now
        since = max(now + LEAD_SECONDS, latest.since)
        policy = Policy(since, self.worker, steps, self._day, self._demand, self._committed)
        return [_record("policy", f"{since:.3f} {self.worker}", policy), *self._outdated(now)]

    def _outdated(self, now: float) -> list[_Record]:
        old = [one for one in self._policies[1:-1] if one.since < now - KEPT_SECONDS]
        gone = [one for one in self._reports.values() if one.at < now - KEPT_SECONDS]
        del self._policies[1 : 1 + len(old)]
        for report in gone:
            del self._reports[report.worker]
        keys = [("policy", f"{one.since:.3f} {one.worker}") for one in old]
        keys += [("report", one.worker) for one in gone]
        return [(json.dumps(key).encode(), None) for key in keys]

    def _steps(self, now: float, before: Mapping[str, int]) -> dict[str, int]:
        known = self._figures()
        rates = {name: flow.rate(now) for name, flow in self._flows.items()}
        strata = {name: StratumLoad(rates[name], *known[name], most) for name, most in self.most.items()}
        left = max(self._limit - max(self._spent(), self._committed), self._limit * RESERVE)
        parts = allocate(strata, left * self._usual_part(now))
        steps = {name: step_of(part, before.get(name)) for name, part in parts.items()}
        for name in filter(self.suspects, strata):
            cost = PAID_SUSPICION_SECONDS * strata[name].demand * strata[name].price
            part = min(SUSPICIOUS_PART * left / cost, 1.0)
            steps[name] = min(steps[name], step_of(part, before.get(name)))
        return {name: min(step, MOST_STEPS) for name, step in steps.items()}

    def _usual_part(self, now: float) -> float:
        """Return the part of the day's remaining money for a second: as usual, but for a burst or lull."""
        at = datetime.fromtimestamp(now, UTC)
        tomorrow = self._midnight() + 86_400
        if tomorrow - now <= AHEAD.total_seconds():
            return 1 / max(tomorrow - now, LAST_SECONDS)
        come = self._demand.by(at)
        soon = (self._demand.by(at + AHEAD) - come) / AHEAD.total_seconds()
        counted, flow = sum(self._demand.counted), sum(one.rate(now) for one in self._flows.values())
        times = flow * come / (counted * soon) if counted and come > SURE_OF_DAY else 1.0
        return soon / (1 - come) * sqrt(min(max(times, 1 / MOST_TIMES), MOST_TIMES))

    def _figures(self) -> dict[str, tuple[float, float]]:
        sums: dict[str, list[float]] = {}
        for report in self._reports.values():
            for name, verdicts in report.verdicts.items():
                sums[name] = [a + b for a, b in zip(sums.get(name, [0.0] * 4), verdicts, strict=True)]
        price = self._limit / UNPRICED if self._in_dollars else 1.0
        return figures(self.most, sums, price)

    def _midnight(self) -> float:
        return datetime.fromisoformat(self._day).replace(tzinfo=UTC).timestamp()

    def _begin(self, now: float) -> None:
        """Begin a day if it is new; a clock that is set back begins none."""
        day = datetime.fromtimestamp(now, UTC).replace(hour=0, minute=0, second=0, microsecond=0)
        if f"{day:%F}" > self._day:
            self._day, self._committed = f"{day:%F}", 0.0
            self._demand.begin(day)
            for tally in self._tallies.values():
                tally.halve()
