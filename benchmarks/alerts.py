"""How often the drop alerts cry wolf, and how long they take: 720 calm days, and drops of 0.3, 0.5 and 1.0 points.

Beside them, on the same answers: a fixed limit (mean of the last hour below 3.5) and a plain z-test (last hour against the
day before, 3 standard errors). All are looked at every five minutes and must hold twice in a row (`for: 5m`).
Deterministic: all seeds are fixed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from math import sqrt
from random import Random
from statistics import median
from typing import Final

from benchmarks.calm_traffic import APPS, BIN_SECONDS, BINS_A_DAY, BINS_AN_HOUR, Climate, climate, judged
from benchmarks.drop_rule import PART, WHOLE, AppHistory, Sums, condition
from benchmarks.report import Line

DAYS: Final = 240
SEEDS: Final = (1, 11, 21)
"""Of each, so many calm days; drops are put into those of the first."""
VOLUMES: Final = (2_000, 20_000, 200_000)
DROPS: Final = (0.3, 0.5, 1.0)
TRIALS: Final = 60
FIXED_LIMIT: Final = 3.5
PLAIN_Z: Final = 3.0
_HOLD_BINS: Final = 2
_APART_BINS: Final = BINS_AN_HOUR
"""Firing again within an hour is the same alarm."""
_LEAD_DAYS: Final = 8
_SEARCH: Final = next(index for index, app in enumerate(APPS) if app.name == "search")

Rule = Callable[[Sequence[AppHistory], int], bool]


def run() -> Iterator[dict[str, object]]:
    """Measure; one record a number."""
    for volume in VOLUMES:
        where = f"{volume} events a day"
        weather = _weather(SEEDS[0], volume)
        calm = scores(weather, seed=SEEDS[0])
        others = (scores(_weather(seed, volume), seed=seed) for seed in SEEDS[1:])
        yield from _calm(chain([calm], others), where)
        for size in DROPS:
            yield from _delays(weather, calm, size, where)
        yield from _label(weather, calm, where)
    steady = (scores(_weather(seed, VOLUMES[1], batch=False), seed=seed) for seed in SEEDS)
    yield from _calm(steady, f"{VOLUMES[1]} events a day, no nightly batch")


def _weather(seed: int, volume: float, *, batch: bool = True) -> Climate:
    return climate(Random(seed), DAYS, volume, batch=batch)  # noqa: S311 - a simulation


def scores(
    weather: Climate,
    *,
    seed: int,
    start: int = 0,
    end: int | None = None,
    falls: Sequence[float] | None = None,
) -> list[list[Sums]]:
    """Draw the judged answers of some bins.

    Args:
        weather: What they are drawn from.
        seed: Makes them repeatable.
        start: The first bin.
        end: The bin behind the last.
        falls: Points that each app loses.

    Returns:
        By app, the sums of each bin.
    """
    random = Random(seed)  # noqa: S311 - a simulation
    lost = falls or [0.0] * len(APPS)
    bins = range(start, len(weather.volume) if end is None else end)
    return [
        [judged(random, weather.volume[bin_][app], weather.mean[bin_][app] - lost[app]) for bin_ in bins]
        for app in range(len(APPS))
    ]


def drop_alert(apps: Sequence[AppHistory], end: int) -> bool:
    """The alert on all traffic."""
    return condition(apps, end, WHOLE)


def label_alert(apps: Sequence[AppHistory], end: int) -> bool:
    """The alert on one label: any app, while the whole has not dropped."""
    return any(condition([app], end, PART) for app in apps) and not condition(apps, end, WHOLE)


def fixed_limit(apps: Sequence[AppHistory], end: int) -> bool:
    """The mean of the last hour is below a limit."""
    sums = _all(apps, end, 1)
    return sums[0] > 0 and sums[1] / sums[0] < FIXED_LIMIT


def plain_z(apps: Sequence[AppHistory], end: int) -> bool:
    """The mean of the last hour is significantly below that of the day before."""
    now, past = _all(apps, end, 1), _all(apps, end - BINS_AN_HOUR, 24)
    if now[0] <= 0 or past[0] <= 0:
        return False
    error = sqrt(_error_squared(now) + _error_squared(past))
    return past[1] / past[0] - now[1] / now[0] > PLAIN_Z * error > 0


RULES: Final[dict[str, Rule]] = {
    "drop alert": drop_alert,
    "fixed limit": fixed_limit,
    "plain z-test": plain_z,
    "label alert": label_alert,
}


def _all(apps: Sequence[AppHistory], end: int, hours: int) -> Sums:
    columns = zip(*(app.window(end, hours) for app in apps), strict=True)
    w, w_x, w2, w2_x, w2_x2 = (sum(column) for column in columns)
    return w, w_x, w2, w2_x, w2_x2


def _error_squared(sums: Sums) -> float:
    w, w_x, w2, w2_x, w2_x2 = sums
    mean = w_x / w
    return max(w2_x2 - 2 * mean * w2_x + mean * mean * w2, 0.0) / (w * w)


def _calm(stretches: Iterable[Sequence[Sequence[Sums]]], where: str) -> Iterator[dict[str, object]]:
    alarms = dict.fromkeys(RULES, 0)
    for bins in stretches:
        apps = [AppHistory(one, BINS_AN_HOUR) for one in bins]
        held, fired = dict.fromkeys(RULES, 0), dict.fromkeys(RULES, -BINS_A_DAY)
        for end in range(BINS_A_DAY, len(bins[0]) + 1):
            for name, rule in RULES.items():
                held[name] = held[name] + 1 if rule(apps, end) else 0
                if held[name] >= _HOLD_BINS:
                    alarms[name] += end - fired[name] > _APART_BINS
                    fired[name] = end
    hundreds = DAYS * len(SEEDS) / 100
    others = min(alarms["fixed limit"], alarms["plain z-test"])
    for name, count in alarms.items():
        ours = name in {"drop alert", "label alert"}
        yield Line(
            f"alerts: false alarms in 100 calm days, {name}, {where}",
            round(count / hundreds, 2),
            "alarms",
            baseline=round(others / hundreds, 2) if ours else None,
            aim="at most 2, and at most a tenth of the better of the two simple rules" if ours else None,
            met=count / hundreds <= 2 and count <= others / 10 if ours else None,
        ).as_json()


def _delays(
    weather: Climate, calm: Sequence[Sequence[Sums]], size: float, where: str
) -> Iterator[dict[str, object]]:
    names = ("drop alert", "fixed limit", "plain z-test")
    waited = _trials(weather, calm, [size] * len(APPS), names)
    z_test = median(waited["plain z-test"])
    for name in names:
        yield _delay_line(
            f"alerts: delay of a drop of {size} points, {name}, {where}",
            waited[name],
            z_test if name == "drop alert" else None,
        )


def _label(weather: Climate, calm: Sequence[Sequence[Sums]], where: str) -> Iterator[dict[str, object]]:
    for size in DROPS[1:]:
        falls = [size if app == _SEARCH else 0.0 for app in range(len(APPS))]
        waited = _trials(weather, calm, falls, ("drop alert", "label alert"))
        either = [min(pair) for pair in zip(waited["drop alert"], waited["label alert"], strict=True)]
        yield _delay_line(
            f"alerts: delay of a drop of {size} points in one app of 30%, either alert, {where}", either, None
        )


def _trials(
    weather: Climate, calm: Sequence[Sequence[Sums]], falls: Sequence[float], names: Sequence[str]
) -> dict[str, list[float]]:
    """Let quality fall at times spread over the days and hours; minutes until each rule fires, a day at most."""
    waited: dict[str, list[float]] = {name: [] for name in names}
    lead = _LEAD_DAYS * BINS_A_DAY
    room = len(weather.volume) - lead - 2 * BINS_A_DAY
    for trial in range(TRIALS):
        # Whole days keep the clock right; a step of 7 h 25 min a trial takes the drops through all hours.
        start = trial * room // TRIALS // BINS_A_DAY * BINS_A_DAY
        begins = lead + trial * 89 % BINS_A_DAY
        fallen = scores(
            weather, seed=100 + trial, start=start + begins, end=start + begins + BINS_A_DAY, falls=falls
        )
        apps = [
            AppHistory([*before[start : start + begins], *after], BINS_AN_HOUR)
            for before, after in zip(calm, fallen, strict=True)
        ]
        for name in names:
            waited[name].append(_wait(RULES[name], apps, begins) * BIN_SECONDS / 60)
    return waited


def _wait(rule: Rule, apps: Sequence[AppHistory], begins: int) -> float:
    held = 0
    for end in range(begins + 1, begins + BINS_A_DAY + 1):
        held = held + 1 if rule(apps, end) else 0
        if held == _HOLD_BINS:
            return end - begins
    return float("inf")


def _delay_line(benchmark: str, waited: Sequence[float], baseline: float | None) -> dict[str, object]:
    ordered = sorted(waited)
    middle, late = ordered[len(ordered) // 2], ordered[len(ordered) * 9 // 10]
    missed = sum(one == float("inf") for one in ordered) / len(ordered)
    said = "more than a day" if late == float("inf") else f"{late:.0f} minutes"
    return Line(
        benchmark,
        None if middle == float("inf") else middle,
        "minutes, median",
        baseline=None if baseline == float("inf") else baseline,
        note=f"nine in ten within {said}; not called within a day: {missed:.0%}",
    ).as_json()


if __name__ == "__main__":
    for record in run():
        print(json.dumps(record))
