"""Sampling rates that follow the money: what a day costs, what it tells, and how soon a fall is called.

Days of three strata (1:0.1:0.01) with threefold swings and an hour of tenfold traffic, judged by workers that
share a simulated log; some are killed and replaced, and the publisher of the rates is cut off from the log
for half an hour a day. Rates, leases and monitor are the worker's.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import count
from math import exp, inf, log, pi, sin
from random import Random
from statistics import median
from typing import Final

from benchmarks.report import Line
from streams.judging.budget import Spending
from streams.judging.ledger import parse_entry
from streams.judging.rates import Rates, rates_record_kind
from streams.monitoring.config import MonitorConfig
from streams.monitoring.partitions import Suspicions
from streams.monitoring.series import Series, SeriesKey
from streams.monitoring.statistics.estimators import WeightedSums
from streams.monitoring.statistics.strata import estimate_strata, expected_of
from streams.monitoring.watch import Sample
from streams.settings.judge import SAMPLING_BUDGET, BudgetSettings, LimitSettings

START: Final = datetime(2026, 9, 7, tzinfo=UTC)
STEP: Final = 5.0
DAY: Final = 86_400.0
BURST_HOUR: Final = 14
USD: Final = 6.0
JUDGED_AFTER: Final = (2.0, 20.0)
CUT_OFF: Final = (9.0, 9.5)
"""Hours in which the publisher hears and writes nothing, and judges on."""
RESTART_EVERY: Final = 7 * 3_600.0
Score = Callable[[float, str], float]


@dataclass(frozen=True)
class Kind:
    """A stratum: answers a day, mean and spread of their scores from 1 to 5, price of a verdict."""

    answers: float
    mean: float
    spread: float
    usd: float


KINDS: Final = {
    "default": Kind(40_000, 4.6, 0.3, 0.001),
    "long": Kind(4_000, 3.2, 1.4, 0.002),
    "rare": Kind(400, 2.6, 1.0, 0.001),
}


def intensity(seconds: float, *, burst: bool) -> float:
    """Return the traffic at a time, relative to the day's mean without a burst."""
    hour = seconds % DAY / 3_600
    return (1 + sin(hour * pi / 12) / 2) * (10 if burst and int(hour) == BURST_HOUR else 1)


def poisson(random: Random, mean: float) -> int:
    """Draw a count with this mean."""
    if mean > 60:
        return max(round(random.gauss(mean, mean**0.5)), 0)
    limit, product, number = exp(-mean), random.random(), 0
    while product > limit:
        product *= random.random()
        number += 1
    return number


def binomial(random: Random, number: int, part: float) -> int:
    """Draw how many of a number are kept."""
    if part >= 1 or not number:
        return number if part >= 1 else 0
    kept, at = 0, -1
    while True:
        at += 1 + int(log(1 - random.random()) / log(1 - part))
        if at >= number:
            return kept
        kept += 1


class Worker:
    """One worker: its leases and rates, and where it is in the log."""

    def __init__(self, group: Group, name: str) -> None:
        self.name, limit = name, LimitSettings(usd_per_day=group.usd)
        self.spending = Spending(BudgetSettings(), sampling=limit, worker=name, now=group.now)
        spent = lambda: group.usd * self.spending.spent_ratio(SAMPLING_BUDGET)  # noqa: E731
        most = dict.fromkeys(group.kinds, 1.0)
        self.rates = Rates(most, limit=group.usd, in_dollars=True, worker=name, spent=spent, now=group.now)
        self.read = 0
        self.spending.sample()
        first = self.spending.joining()
        group.log.append((first.key, first.value))

    def hear(self, log: list[tuple[bytes, bytes | None]]) -> None:
        for offset in range(self.read, len(log)):
            key, value = log[offset]
            entry = None if rates_record_kind(key) or value is None else parse_entry(value)
            self.rates.heard(key, value)
            self.spending.heard(entry, offset)
        self.read = len(log)

    def write(self, log: list[tuple[bytes, bytes | None]]) -> None:
        log.extend((entry.key, entry.value) for entry in self.spending.entries(idle_seconds=12 * STEP))
        log.extend(self.rates.due())


@dataclass
class Group:
    """Workers of one group, over simulated days.

    Attributes:
        burst_on: The day with a tenfold hour.
        step: Seconds of simulated time.
    """

    random: Random
    workers: int = 1
    burst_on: int = -1
    kinds: dict[str, Kind] = field(default_factory=lambda: KINDS)
    score: Score | None = None
    restarts: bool = True
    step: float = STEP
    usd: float = USD
    seconds: float = 0.0
    log: list[tuple[bytes, bytes | None]] = field(default_factory=list)
    spent: Counter[int] = field(default_factory=Counter)
    waiting: Counter[int] = field(default_factory=Counter)
    met: dict[tuple[int, str], int] = field(default_factory=lambda: defaultdict(int))
    scores: dict[tuple[int, str], list[tuple[float, float]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    variance: dict[tuple[int, str], float] = field(default_factory=lambda: defaultdict(float))

    def __post_init__(self) -> None:
        self._names = count()
        self.team = [Worker(self, f"w{next(self._names)}") for _ in range(self.workers)]
        self._due: list[tuple[float, Worker, str, float, float, str]] = []

    def now(self) -> datetime:
        return START + timedelta(seconds=self.seconds)

    def go(self) -> list[tuple[float, float, float, str]]:
        """Go on by a step; return the verdicts: time of the answer, score, probability and policy."""
        self.seconds += self.step
        if self.restarts and self.seconds % RESTART_EVERY == 0:
            # Killed: its leases are lost, and so are its counts since the last report.
            self.team[self.random.randrange(self.workers)] = Worker(self, f"w{next(self._names)}")
        self._exchange()
        self._arrive()
        found = self._judge()
        self._exchange()  # leases come within the step
        return found

    def _exchange(self) -> None:
        linked = [worker for worker in self.team if not self._is_cut_off(worker)]
        for worker in linked:
            worker.hear(self.log)
            worker.write(self.log)
        for worker in linked:
            worker.hear(self.log)

    def _is_cut_off(self, worker: Worker) -> bool:
        """Cut the publisher, the first of several by name, off from the log for a part of each day."""
        hour = self.seconds % DAY / 3_600
        return (
            self.workers > 1
            and CUT_OFF[0] <= hour < CUT_OFF[1]
            and worker is min(self.team, key=lambda one: one.name)
        )

    def _arrive(self) -> None:
        day, at = int(self.seconds // DAY), (START + timedelta(seconds=self.seconds)).timestamp()
        much = intensity(self.seconds, burst=day == self.burst_on) * self.step / DAY / self.workers
        for worker in self.team:
            for name, kind in self.kinds.items():
                met = poisson(self.random, kind.answers * much)
                share, policy = worker.rates.in_force(at, name)
                part = float(share)
                kept = binomial(self.random, met, part)
                worker.rates.count(name, met, kept)
                hour = int(self.seconds // 3_600)
                self.met[hour, name] += met
                self.variance[day, name] += met * kind.spread**2 / part
                for _ in range(kept):
                    due = self.seconds + self.random.uniform(*JUDGED_AFTER)
                    self._due.append((due, self.random.choice(self.team), name, part, self.seconds, policy))

    def _judge(self) -> list[tuple[float, float, float, str]]:
        found, self._due, due = [], [], self._due
        refused: set[Worker] = set()
        for one in due:
            ends, worker, name, part, came, policy = one
            kind = self.kinds[name]
            if ends > self.seconds:
                self._due.append(one)
                continue
            if worker not in self.team:
                worker = self.random.choice(self.team)
            if worker in refused or worker.spending.admit() is not None:
                refused.add(worker)
                self._due.append(one)
                continue
            usd = kind.usd * self.random.choice([0.5, 1.0, 1.5])
            worker.spending.settle(usd=usd, calls=1)
            score = (
                self.random.gauss(kind.mean, kind.spread) if self.score is None else self.score(came, name)
            )
            score = min(max(score, 1.0), 5.0)
            worker.rates.judged(name, "m", (score - 1) / 4, usd)
            self.spent[int(self.seconds // DAY)] += round(usd * 1e6)
            self.scores[int(came // 3_600), name].append((score, part))
            found.append((came, score, part, policy))
        if self.seconds % DAY == 0:
            self.waiting[int(self.seconds // DAY) - 1] = len(self._due)
        return found


def fixed_part(usd: float, met: dict[str, int], kinds: dict[str, Kind]) -> float:
    """Return the one rate for all that costs as much on that day, known afterwards."""
    return usd / sum(met[name] * kind.usd for name, kind in kinds.items())


def day_lines(workers: int, seed: int, days: int = 3) -> Iterator[Line]:
    """Yield what days cost and tell, with this many workers."""
    random = Random(seed)  # noqa: S311 - repeatable
    group = Group(random, workers, burst_on=2)
    while group.seconds < days * DAY:
        group.go()
    truth = {name: _mean_of(random, kind) for name, kind in KINDS.items()}
    for day in range(days):
        spent = group.spent[day] / 1e6
        what = ("first day", "second day", "a day with a tenfold hour")[day]
        yield Line(
            f"{workers} workers, {what}: spent of the cap",
            round(spent / USD, 4),
            "1",
            aim="0.98 to 1.00",
            met=0.98 <= spent / USD <= 1.001,
            note=f"verdicts under way at midnight: {group.waiting[day]}",
        )
        met = Counter({name: sum(group.met[day * 24 + hour, name] for hour in range(24)) for name in KINDS})
        part = fixed_part(spent, met, KINDS)
        whole = sum(met.values()) ** 2
        yield Line(
            f"{workers} workers, {what}: variance of the day's mean",
            sum(group.variance[day, name] for name in KINDS) / whole,
            "1",
            sum(met[name] * kind.spread**2 / part for name, kind in KINDS.items()) / whole,
            aim="below 1 of one fixed rate at equal cost",
        )
    yield from _coverage(group, truth, days, workers)
    yield Line(
        f"{workers} workers: policies a day",
        len({k for k, v in group.log if rates_record_kind(k) == "policy"}) / days,
        "1",
    )


def _mean_of(random: Random, kind: Kind) -> float:
    return sum(min(max(random.gauss(kind.mean, kind.spread), 1.0), 5.0) for _ in range(400_000)) / 400_000


def _coverage(group: Group, truth: dict[str, float], days: int, workers: int) -> Iterator[Line]:
    held: Counter[str] = Counter()
    tried: Counter[str] = Counter()
    for hour in range(24, 24 * days):
        window = {name: WeightedSums.of(group.scores[hour, name]) for name in KINDS}
        met = {name: group.met[hour, name] for name in KINDS}
        for name, sums in window.items():
            ends = sums.interval(lowest=1, highest=5)
            if ends is not None:
                held[name] += ends[0] <= truth[name] <= ends[1]
                tried[name] += 1
        before = {
            name: WeightedSums.of(x for h in range(hour - 24, hour) for x in group.scores[h, name])
            for name in KINDS
        }
        found = estimate_strata(window, expected_of(before, 1 / 24), lowest=1, highest=5)
        mean = sum(met[name] * truth[name] for name in KINDS) / sum(met.values())
        held["all"] += found is not None and found[1] <= mean <= found[2]
        tried["all"] += 1
    for name in tried:
        yield Line(
            f"{workers} workers: hours whose interval holds the mean, {name}",
            round(held[name] / tried[name], 3),
            "1",
            aim="at least 0.93",
            met=held[name] / tried[name] >= 0.93,
            note=f"{tried[name]} hours",
        )


def fall(seed: int, *, follows: bool) -> tuple[float, float]:
    """Return the hours from a fall of all answers by 0.088 of the scale until its alert, and that day's cost.

    It was learnt for ten days at the fixed rate, 5%; with `follows` the day's rates are those of the budget.
    """
    random = Random(f"{seed} {follows}")  # noqa: S311 - repeatable
    kind = Kind(20_000, 4.0, 0.8, 0.001)
    rules = replace(MonitorConfig(labels=(), score_ranges={"m": (1.0, 5.0)}).rules("m"), suspects=follows)
    series = Series(rules, SeriesKey("m", "f", ()))
    falls_at = random.uniform(2, 14) * 3_600
    fixed, at = 0.05, -10 * DAY

    def add(seconds: float, score: float, part: float, policy: str) -> bool:
        number = min(max(score, 1.0), 5.0)
        when = START + timedelta(seconds=seconds)
        found = series.add(Sample(f"{seconds}", number, part, when, policy=policy, stratum="default"), when)
        return seconds > falls_at and any(one.kind == "drop" for one in found)

    def score(seconds: float) -> float:
        return random.gauss(kind.mean - 0.352 * (seconds >= falls_at), kind.spread)

    last = 0 if follows else 5 * DAY
    verdicts = 0
    while at < last:
        at += random.expovariate(kind.answers / DAY * fixed * intensity(at, burst=False))
        verdicts += at >= 0
        if add(at, score(at), fixed, "fixed"):
            return (at - falls_at) / 3_600, kind.usd * fixed * kind.answers
    group = Group(random, 1, kinds={"default": kind}, restarts=False, step=15.0, usd=kind.usd * 1_000)
    group.score = lambda came, _: score(came)
    suspicions = Suspicions(clock=lambda: group.seconds)
    while group.seconds < last + 5 * DAY:
        for came, number, part, policy in group.go():
            if add(came, number, part, policy):
                return (group.seconds - falls_at) / 3_600, group.spent[0] / 1e6
        suspicions.look([series], group.team[0].rates.suspect)
    return inf, 0.0


def fall_lines(runs: int = 30) -> Iterator[Line]:
    """Yield how soon a fall is called."""
    hours = {follows: [fall(seed, follows=follows)[0] for seed in range(runs)] for follows in (False, True)}
    yield Line(
        "hours from a fall of 0.44 of 5 until its alert, 1,000 verdicts a day of 20,000, median",
        round(median(hours[True]), 2),
        "h",
        round(median(hours[False]), 2),
        aim="no more than at the fixed rate",
        met=median(hours[True]) <= median(hours[False]),
        note=f"{runs} falls; a tenth took longer than {sorted(hours[True])[-(runs // 10)]:.1f} h "
        f"({sorted(hours[False])[-(runs // 10)]:.1f} h)",
    )


def run() -> Iterator[dict[str, object]]:
    """Run the days, then the falls."""
    for workers in (1, 3, 6):
        for line in day_lines(workers, workers):
            yield line.as_json()
    for line in fall_lines():
        yield line.as_json()


if __name__ == "__main__":
    for shown in run():
        print(shown, flush=True)
