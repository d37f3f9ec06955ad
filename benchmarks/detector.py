"""How many judged answers a drop takes to be called, and how often calm traffic is called one.

Scores of 1 to 5, mean 4.5. The drop replaces a share of the answers with bad ones (mean 2.0). Delays are compared
with a CUSUM that is told both distributions beforehand, at the level that gives it the same bound on false alarms: no
test that has to find out for itself can be expected to reach it. Deterministic: all seeds are fixed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from math import log
from random import Random
from statistics import fmean, median

from streams.monitoring.monitor import MonitorConfig
from streams.monitoring.series import Sample, Series
from streams.monitoring.statistics.detectors import ShiryaevRobertsEDetector

SCORES = (5, 4, 3, 2, 1)
GOOD = (0.70, 0.17, 0.08, 0.03, 0.02)  # mean 4.5
BAD = (0.00, 0.10, 0.20, 0.30, 0.40)  # mean 2.0
GOOD_MEAN, BAD_MEAN = 4.5, 2.0

THRESHOLD = 60_000.0
"""20,000 judged answers for each false alarm, shared by the whole traffic and two label names."""

CALM_SAMPLES = 300
RUNS = 100
LONGEST = 10_000


def run() -> Iterator[dict[str, object]]:
    """Measure; one record a number."""
    for tolerance in (0.25, 0.1):
        for drop in (0.3, 0.5, 1.0, 2.0):
            yield from _delays(drop, tolerance)
    for baseline_samples in (60, 100, 500):
        for drop in (0.5, 1.0, 2.0):
            yield _learned_delay(drop, baseline_samples)
    for tolerance in (0.0, 0.25):
        yield _false_alarms(tolerance)
    yield _rolling_mean()


def _mixture(drop: float) -> tuple[float, ...]:
    share = drop / (GOOD_MEAN - BAD_MEAN)
    return tuple((1 - share) * good + share * bad for good, bad in zip(GOOD, BAD, strict=True))


def _detector(tolerance: float, threshold: float) -> ShiryaevRobertsEDetector:
    return ShiryaevRobertsEDetector(tolerated_mean=(GOOD_MEAN - tolerance - 1) / 4, threshold=threshold)


def _delays(drop: float, tolerance: float) -> Iterator[dict[str, object]]:
    after = _mixture(drop)
    ours, best = [], []
    for seed in range(RUNS):
        calm = _draw(Random(seed), GOOD, CALM_SAMPLES)  # noqa: S311 -- a simulation
        fallen = _draw(Random(seed + 1_000_000), after, LONGEST)  # noqa: S311 -- a simulation
        ours.append(_delay(tolerance, calm, fallen))
        best.append(_informed_delay(after, calm, fallen))
    what = f"detector: judged answers to call a drop of {drop} points, {tolerance} tolerated"
    yield _record(f"{what}, mean", fmean(ours), "judged answers", baseline=fmean(best))
    yield _record(f"{what}, nine in ten", sorted(ours)[RUNS * 9 // 10 - 1], "judged answers")


def _draw(random: Random, weights: Sequence[float], count: int) -> list[int]:
    return random.choices(SCORES, weights, k=count)


def _delay(tolerance: float, calm: Sequence[int], fallen: Sequence[int]) -> int:
    detector = _detector(tolerance, THRESHOLD)
    for score in calm:
        if detector.update((score - 1) / 4).alarm:
            detector.reset()
    for number, score in enumerate(fallen, start=1):
        if detector.update((score - 1) / 4).alarm:
            return number
    return len(fallen)


def _learned_delay(drop: float, baseline_samples: int) -> dict[str, object]:
    """Take the median delay with all that the monitor does, a learned baseline included."""
    rules = MonitorConfig(baseline_samples=baseline_samples).rules("relevance")
    moment = datetime(2025, 1, 1, tzinfo=UTC)
    after, delays, early = _mixture(drop), [], 0
    for seed in range(RUNS):
        series = Series(rules)
        calm = baseline_samples + CALM_SAMPLES
        scores = _draw(Random(seed), GOOD, calm)  # noqa: S311 -- a simulation
        scores += _draw(Random(seed + 1_000_000), after, LONGEST // 4)  # noqa: S311 -- a simulation
        delay = LONGEST // 4
        for number, score in enumerate(scores):
            if series.add(Sample("e", score, 1.0, moment), moment) is not None:
                delay = number - calm + 1
                break
        early += delay <= 0
        delays.append(delay)
    what = f"monitor: judged answers to call a drop of {drop} points, learned from {baseline_samples}, median"
    return _record(
        what,
        median(delays),
        "judged answers",
        aim="at most 1% of the runs call anything before the drop",
        met=early <= RUNS // 100,
    )


def _informed_delay(after: Sequence[float], calm: Sequence[int], fallen: Sequence[int]) -> int:
    """Delay of Page's CUSUM; with the level log T its mean time between false alarms is at least T too."""
    gains = {score: log(p / q) for score, p, q in zip(SCORES, after, GOOD, strict=True)}
    evidence = 0.0
    for score in calm:
        evidence = max(evidence, 0.0) + gains[score]
    for number, score in enumerate(fallen, start=1):
        evidence = max(evidence, 0.0) + gains[score]
        if evidence >= log(THRESHOLD):
            return number
    return len(fallen)


def _false_alarms(tolerance: float) -> dict[str, object]:
    """Count false alarms where one in 1,000 is allowed: with so many allowed, they can be counted."""
    allowed_every, samples = 1000, 300_000
    detector = _detector(tolerance, allowed_every)
    alarms = 0
    for score in _draw(Random(1), GOOD, samples):  # noqa: S311 -- a simulation
        if detector.update((score - 1) / 4).alarm:
            alarms += 1
            detector.reset()
    allowed = 1 / allowed_every
    return _record(
        f"detector: false alarms a judged answer, mean {tolerance} above the tolerated one",
        alarms / samples,
        "1",
        baseline=allowed,
        aim="at most the baseline, the allowed rate",
        met=alarms / samples <= allowed,
    )


def _rolling_mean() -> dict[str, object]:
    """Count the false alarms of the usual rule: the mean of the last 50 is below the limit of 0.25 points."""
    length, samples = 50, 300_000
    scores = _draw(Random(1), GOOD, samples)  # noqa: S311 -- a simulation
    total, alarms, below = sum(scores[:length]), 0, False
    for number in range(length, samples):
        total += scores[number] - scores[number - length]
        was_below, below = below, total / length < GOOD_MEAN - 0.25
        alarms += below and not was_below
    return _record(
        "rolling mean of 50 below 0.25 points: false alarms a judged answer", alarms / samples, "1"
    )


def _record(
    benchmark: str,
    value: float,
    unit: str,
    *,
    baseline: float | None = None,
    aim: str | None = None,
    met: bool | None = None,
) -> dict[str, object]:
    return {
        "benchmark": benchmark,
        "value": round(value, 6),
        "unit": unit,
        "baseline": None if baseline is None else round(baseline, 6),
        "ratio": None if baseline is None else round(value / baseline, 3),
        "aim": aim,
        "met": met,
    }


if __name__ == "__main__":
    for record in run():
        print(json.dumps(record))
