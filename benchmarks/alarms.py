"""Alarms where life differs from the table: edits, mornings, repairs, little traffic, unequal rates.

A part of `python -m benchmarks monitor`. The baselines are those of commit 33ce70f with these simulations.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from math import cos, pi
from random import Random
from statistics import median
from typing import Final

from benchmarks.intervals import chance
from benchmarks.report import Line
from streams.monitoring.config import Measure, MonitorConfig, mean_of, share_at_most
from streams.monitoring.series import Series
from streams.monitoring.statistics.detectors import evenness_of, expected_answers, expected_margin
from streams.monitoring.watch import Sample, Watch

START: Final = datetime(2026, 9, 2, tzinfo=UTC)
RULES: Final = MonitorConfig(score_ranges={"quality": (0, 5)}, shares={"quality": ()}).rules("quality")
THRESHOLD: Final = 60_000
LONGEST: Final = 40_000
Draw = Callable[[Random], float]


def rows(seed: int, part: float) -> Iterator[dict[str, object]]:
    """Measure; yields one record per number.

    Args:
        seed: Seed of the random streams.
        part: Share of the runs.
    """

    def runs(count: int) -> int:
        return max(round(count * part), 2)

    yield from _edits(seed, runs(40))
    yield from _headers(seed, runs(20))
    yield from _mornings(seed, runs(12))
    yield from _repairs(seed, runs(20))
    yield from _little_traffic(seed, runs(30))
    yield from _unequal(seed, runs(10))
    yield from _zeros(seed, runs(30))


def _law(fall: float) -> Draw:
    """Return scores of 0 to 5 with mean 3.95 - fall and a spread of about 1.2."""
    bad = 0.22 + fall / 2.5
    return lambda random: (
        random.choice((1, 2, 2, 2, 3)) if random.random() < bad else random.choice((4, 4, 5, 5))
    )


def _delay(watch: Watch, random: Random, calm: Draw, fallen: Draw, known: int) -> int:
    for _ in range(known):
        _add(watch, calm(random))
    return next((n for n in range(1, LONGEST) if _add(watch, fallen(random)) == "drop"), LONGEST)


def _add(
    watch: Watch, score: float, at: datetime = START, history: deque[Sample] | None = None
) -> str | None:
    sample = Sample("e", score, 1.0, at)
    if history is not None:
        history.append(sample)
    change = watch.add(sample, 1.0, [sample] if history is None else history)
    return None if change is None else change.kind


def _watch(measure: Measure | None = None) -> Watch:
    return Watch(measure or mean_of(0, 5, min_drop=0.1), first=60, threshold=THRESHOLD)


def _edits(seed: int, runs: int) -> Iterator[dict[str, object]]:
    """A twelfth of the answers is disliked and always judged; the rest at 0.02, then at a lower rate."""
    for rate, before in ((0.005, 0.575), (0.002, 0.8), (0.001, 0.9)):
        paged = 0
        for number in range(runs):
            random, series = chance(seed, number), Series(RULES)
            for count in range(4000):
                policy, now = ("before", 0.02) if count < 1500 else ("after", rate)
                disliked = random.random() < 1 / (1 + 11 * now)
                score = random.choice((0, 1, 2, 2, 3, 4) if disliked else (3, 4, 4, 5, 5))
                stratum = "disliked" if disliked else "default"
                sample = Sample("e", score, 1.0 if disliked else now, START, policy, stratum)
                paged += any(change.measure.name == "mean" for change in series.add(sample, START))
        yield Line(
            f"monitor: a sampling rate of 0.02 lowered to {rate} beside a stratum judged always: false drops",
            round(paged / runs, 3),
            "drops an edit",
            baseline=before,
            aim="at most 0.02",
            met=paged / runs <= 0.02,
        ).as_json()


def _headers(seed: int, runs: int) -> Iterator[dict[str, object]]:
    calm, fallen = _law(0), _law(1.5)
    for weight, before in ((1.0, 24), (100.0, 897), (1000.0, 5001), (7.2e16, 5001)):
        found = []
        for number in range(runs):
            random, series = chance(seed, number), Series(RULES)
            for count in range(1000):
                rate = 1 / weight if count == 999 else 1.0
                series.add(Sample("e", calm(random), rate, START, "p", "default"), START)
            for count in range(1, LONGEST):
                changes = series.add(Sample("e", fallen(random), 1.0, START, "p", "default"), START)
                if any(change.measure.name == "mean" for change in changes) or count > 5000:
                    found.append(count)
                    break
        yield Line(
            f"monitor: one answer of weight {weight:g}, then a drop of 1.5: answers until it is called",
            median(found),
            "judged answers",
            baseline=before,
            aim="at most 300",
            met=median(found) <= 300,
        ).as_json()


def _mornings(seed: int, months: int) -> Iterator[dict[str, object]]:
    """Calm weeks with a daily swing, which start at all hours."""
    for a_day, days, swing, before in ((1000, 30, 0.3, (0.333, 0.1933)), (5000, 10, 0.2, (0.333, 0.2567))):
        called, dropped = 0, 0.0
        for number in range(months):
            random, watch, inside, drops = chance(seed, number), _watch(), 0, 0
            for count in range(days * a_day):
                day = (count + random.random()) / a_day
                score = _law(-swing * cos(2 * pi * (day + number / months)))(random)
                drops += _add(watch, score, START + timedelta(days=day)) == "drop"
                inside += watch.state == "dropped"
            called += drops > 0
            dropped += inside / (days * a_day)
        what = f"monitor: calm {days} days of {a_day} answers, daily swing ±{swing}, from any hour"
        yield Line(
            f"{what}: runs with a drop",
            round(called / months, 3),
            "of the runs",
            baseline=before[0],
            aim="at most 0.05",
            met=called / months <= 0.05,
        ).as_json()
        yield Line(
            f"{what}: share of the time in dropped",
            round(dropped / months, 4),
            "of the time",
            baseline=before[1],
            aim="at most 0.01",
            met=dropped / months <= 0.01,
        ).as_json()


def _repairs(seed: int, runs: int) -> Iterator[dict[str, object]]:
    for fall, after, before, aim in (
        (0.44, 0, 1816, 1500),
        (0.44, 400, 1577, 1000),
        (1.0, 0, 1926, 600),
        (1.0, 400, 1641, 300),
        (2.0, 0, 1949, 300),
    ):
        found = []
        for number in range(runs):
            random, watch, history = chance(seed, number), _watch(), deque[Sample](maxlen=500)
            calm, fallen = _law(0), _law(fall)
            for _ in range(2500):
                _add(watch, calm(random), history=history)
            while _add(watch, fallen(random), history=history) != "drop":
                pass
            for _ in range(after):
                _add(watch, fallen(random), history=history)
            answers = (n for n in range(1, 8000) if _add(watch, calm(random), history=history) == "recovered")
            found.append(next(answers, 8000))
        yield Line(
            f"monitor: a drop of {fall} repaired {after} answers after its alert: until recovered, median",
            median(found),
            "judged answers",
            baseline=before,
            aim=f"at most {aim}",
            met=median(found) <= aim,
            note=f"nine in ten within {sorted(found)[min(runs * 9 // 10, runs - 1)]}",
        ).as_json()


def _little_traffic(seed: int, runs: int) -> Iterator[dict[str, object]]:
    """A drop of 0.44 at the end of the first week, all answers judged; with a baseline, or a target."""
    for a_day, target, before in ((20, None, 366.3), (200, None, 1.2), (20, 3.85, None)):
        measure, known = mean_of(0, 5, min_drop=0.1, target=target), 7 * a_day
        delays = [_delay(_watch(measure), chance(seed, n), _law(0), _law(0.44), known) for n in range(runs)]
        margin = 0.02 if target else expected_margin(0.24, known=known, first=60, min_drop=0.02)
        expected = expected_answers(0.088, mean=0.79, spread=0.24, margin=margin, threshold=THRESHOLD)
        how = f"with a target of {target}" if target else "with a learned baseline"
        yield Line(
            f"monitor: a drop of 0.44 after a week of {a_day} answers a day, {how}, is called, median",
            round(median(delays) / a_day, 1),
            "days",
            baseline=before,
            note=(
                f"{median(delays):g} judged answers; expected {expected:.0f}; "
                f"not within {LONGEST}: {sum(delay >= LONGEST for delay in delays) / runs:.0%}"
            ),
        ).as_json()


def _unequal(seed: int, runs: int) -> Iterator[dict[str, object]]:
    """Half of the traffic judged completely, half at 1 in 100; both fall by 0.44 after 8,000 answers."""
    whole, often = [], []
    for number in range(runs):
        random, series, alone = chance(seed, number), Series(RULES), _watch()
        found = [LONGEST, LONGEST]
        for count in range(8000 + LONGEST):
            rate = 1.0 if random.random() < 1 / 1.01 else 0.01
            score = _law(0 if count < 8000 else 0.44)(random)
            sample = Sample("e", score, rate, START, "p", "often" if rate == 1 else "default")
            called = series.mean.state != "dropped" and bool(series.add(sample, START))
            if called and count >= 8000:
                found[0] = min(found[0], count - 7999)
            if found[1] == LONGEST and rate == 1 and _add(alone, score) == "drop":
                found[1] = count - 7999
            if max(found) < LONGEST:
                break
        whole.append(found[0])
        often.append(found[1])
    evenness = evenness_of([(0.5, 1.0), (0.5, 0.01)])
    margin = expected_margin(0.24, known=8000, first=60, min_drop=0.02, evenness=evenness)
    expected = expected_answers(
        0.088, mean=0.79, spread=0.24, margin=margin, threshold=THRESHOLD, evenness=evenness
    )
    for what, delays, before, note in (
        ("all traffic", whole, 11_063, f"expected {expected:.0f}"),
        ("a series of the stratum at rate 1 alone", often, 161, "as with equal rates"),
    ):
        yield Line(
            f"monitor: rates 1 and 0.01 mixed, a drop of 0.44 in both is called by {what}, median",
            median(delays),
            "judged answers",
            baseline=before,
            note=note,
        ).as_json()


def _zeros(seed: int, runs: int) -> Iterator[dict[str, object]]:
    calm, fallen = _zeros_law(0.02), _zeros_law(0.05)
    measure = share_at_most(0, min_rise=0.02)
    delays = [_delay(_watch(measure), chance(seed, n), calm, fallen, 2000) for n in range(runs)]
    margin = expected_margin(0.14, known=2000, first=60, min_drop=0.02)
    expected = expected_answers(0.03, mean=0.98, spread=0.218, margin=margin, threshold=THRESHOLD)
    missed = sum(delay >= LONGEST for delay in delays) / runs
    yield Line(
        "monitor: judged answers until a share of zeros from 2% to 5% is called, median",
        median(delays),
        "judged answers",
        baseline=3027,
        note=f"expected {expected:.0f}; not within {LONGEST}: {missed:.0%}",
    ).as_json()


def _zeros_law(share: float) -> Draw:
    return lambda random: 0 if random.random() < share else random.choice((3, 4, 5))
