"""The monitor where answers depend on each other or strata differ, and tickets of a slow burn.

Each baseline is the former method on the same answers: one interval from all weights, one bet an answer, and
the alert of a burn rate above 1 alone. Laws and seeds are not those of the tests.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from math import sqrt
from random import Random
from statistics import fmean, median
from typing import Final

from benchmarks.report import Line
from streams.monitoring.config import MonitorConfig
from streams.monitoring.series import Series
from streams.monitoring.statistics.estimators import WeightedSums
from streams.monitoring.watch import Sample

START: Final = datetime(2026, 2, 2, tzinfo=UTC)
SCALE: Final = (0.0, 10.0)
SCORES: Final = (0, 2, 5, 8, 10)
FINE: Final = (0.02, 0.05, 0.13, 0.3, 0.5)
POOR: Final = (0.35, 0.25, 0.2, 0.15, 0.05)
EQUAL: Final = (0.0, 0.0, 1.0, 0.0, 0.0)
STRATA: Final = {
    "4% always judged and poor, the rest at 0.004": (250, ((0.04, 1.0, POOR), (0.96, 0.004, FINE))),
    "30% at 0.5, 70% at 0.01 and poor": (150, ((0.3, 0.5, FINE), (0.7, 0.01, POOR))),
    "rates 1, 0.2 and 0.02": (200, ((0.1, 1.0, POOR), (0.4, 0.2, EQUAL), (0.5, 0.02, FINE))),
}
Law = Sequence[float]


def run(seed: int = 611_202) -> Iterator[dict[str, object]]:
    """Measure; yields one record per number."""
    for name, (an_hour, strata) in STRATA.items():
        former, now, width = _strata(Random(seed), an_hour, strata)  # noqa: S311 - repeatable noise
        yield Line(
            f"hourly intervals that hold, strata: {name}", now, "share", former, "at least 0.94", now >= 0.94,
            f"width {width:.2f} of the former",
        ).as_json()  # fmt: skip
    for correlation in (0.0, 0.3, 0.6):
        single, *keyed = (
            _drops(Random(seed + number), correlation, 40_000, number > 0)  # noqa: S311 - repeatable noise
            for number in range(6)
        )
        drops = sum(keyed) / 2
        yield Line(
            f"false drops in 100,000 answers, conversations of 8, correlation {correlation}",
            drops, "drops", 2.5 * single, "at most 1.67", drops <= 1.67,
        ).as_json()  # fmt: skip
    months = [Random(seed + month) for month in range(40)]  # noqa: S311 - repeatable noise
    for burn in (0.8, 1.0):
        counts = [_tickets(month, 1_000, burn) for month in months]
        former, now = (fmean(count[rule] for count in counts) for rule in range(2))
        name = f"tickets a month, {burn:.0%} of the budget, 1,000 answers a day"
        yield Line(name, now, "tickets", former, "at most 0.45", now <= 0.45).as_json()
    hours = median(_tickets(month, 1_000, 1.0, doubled=True)[1] for month in months)
    yield Line("hours until a burn of 2 is a ticket, 1,000 answers a day", hours, "hours").as_json()


def _draw(random: Random, law: Law) -> int:
    return random.choices(SCORES, law)[0]


def _mean(law: Law) -> float:
    return sum(score * chance for score, chance in zip(SCORES, law, strict=True))


def _strata(
    random: Random, an_hour: int, strata: Sequence[tuple[float, float, Law]]
) -> tuple[float, float, float]:
    """Return the shares of hours whose interval holds the mean, formerly and now, and the ratio of widths."""
    series = Series(MonitorConfig(labels=(), score_ranges={"quality": SCALE}).rules("quality"))
    truth = sum(share * _mean(law) for share, _, law in strata)
    held, widths, hours = [0, 0], [0.0, 0.0], 0
    for hour in range(400):
        sums = WeightedSums()
        for second in sorted(random.uniform(0, 3600) for _ in range(an_hour)):
            number = random.choices(range(len(strata)), [share for share, _, _ in strata])[0]
            _, rate, law = strata[number]
            if random.random() < rate:
                moment = START + timedelta(hours=hour, seconds=second)
                score = _draw(random, law)
                sums = sums.add(score, rate)
                series.add(Sample("e", score, rate, moment, "p", f"s{number}"), moment)
        found = series.window(START + timedelta(hours=hour + 1))
        former = sums.interval(lowest=SCALE[0], highest=SCALE[1])
        if hour >= 12 and found is not None and former is not None:
            hours += 1
            for one, (low, high) in enumerate((former, (found.low, found.high))):
                held[one] += low <= truth <= high
                widths[one] += high - low
    return held[0] / hours, held[1] / hours, widths[1] / widths[0]


def _drops(random: Random, correlation: float, answers: int, keyed: bool) -> int:
    """Return the false drops of the mean; its target is 0.02 below the true mean."""
    targets = {"quality": _mean(FINE) - 0.02}
    config = MonitorConfig(labels=(), score_ranges={"quality": SCALE}, targets=targets)
    series, drops = Series(config.rules("quality")), 0
    for number in range(answers):
        if number % 8 == 0:
            common = _draw(random, FINE)
        score = common if random.random() < sqrt(correlation) else _draw(random, FINE)
        moment = START + timedelta(minutes=number)
        cluster = f"{number // 8:014x}" if keyed else None
        changes = series.add(Sample("e", score, 1.0, moment, cluster=cluster), moment)
        drops += sum(one.kind == "drop" and one.measure.name == "mean" for one in changes)
    return drops


def _tickets(random: Random, a_day: int, burn: float, *, doubled: bool = False) -> tuple[float, float]:
    """Return the tickets of a month, or the hours until one after the burn doubles, formerly and now."""
    budget, steps = 0.01, 144
    misses, judged = [0], [0]
    for step in range((7 if doubled else 33) * steps):
        rate = budget * burn * (1 + (doubled and step >= 3 * steps))
        count = int(a_day / steps + random.random())
        judged.append(judged[-1] + count)
        misses.append(misses[-1] + sum(random.random() < rate for _ in range(count)))
    found = []
    for limit, kept in ((0.0, 1), (3.1, 36)):
        tickets, until, first = 0, -1, 96.0
        for step in range(3 * steps, len(judged)):
            if any(
                _burns(judged, misses, step, window, least, short, limit * sqrt(budget))
                for window, least, short in ((144, 3.0, 12), (432, 1.0, 36))
            ):
                tickets += step > until
                until, first = step + kept, min(first, (step - 3 * steps) / 6)
        found.append(first if doubled else float(tickets))
    return found[0], found[1]


def _burns(
    judged: Sequence[int],
    misses: Sequence[int],
    step: int,
    window: int,
    least: float,
    short: int,
    limit: float,
) -> bool:
    answers, missed = judged[step] - judged[step - window], misses[step] - misses[step - window]
    lately, recent = misses[step] - misses[step - short], judged[step] - judged[step - short]
    enough = missed >= 10 and missed > 0.01 * answers + limit * sqrt(answers)
    return enough and missed > least * 0.01 * answers and lately > least * 0.01 * recent


if __name__ == "__main__":
    for line in run():
        print(json.dumps(line))
