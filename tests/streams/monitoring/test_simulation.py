"""Delay and false alarms of the monitor over simulated streams with fixed seeds."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from random import Random

import pytest

from schemas import Alert
from streams.monitoring.config import MonitorConfig
from streams.monitoring.monitor import Monitor
from tests.streams.randomness import seeded
from tests.streams.results import START, scored

# Scores to draw from, with their means.
GOOD_RELEVANCE = [5] * 15 + [4] * 4 + [3]  # 4.7
BAD_RELEVANCE = [1] * 4 + [2] * 9 + [3] * 6 + [4]  # 2.2
GOOD_COVERAGE = [5] * 9 + [4] * 7 + [3] * 3 + [2]  # 4.2
BAD_COVERAGE = [0] * 4 + [1] * 7 + [2] * 5 + [3] * 3 + [4]  # 1.5

APPS = ("support", "search", "docs")
LONGEST_DELAY = 25


def test_a_run_as_in_the_demo_through_the_whole_monitor() -> None:
    """In 400 events of two metrics both overall series drop after the half and not before."""
    for seed in range(8):
        random = seeded(seed)
        monitor = Monitor()
        alerts: list[tuple[int, Alert]] = []
        for n in range(400):
            labels = {"app": random.choice(APPS), "model": random.choice(("m1", "m2"))}
            bad = n >= 200
            for metric, scores in (
                ("relevance", BAD_RELEVANCE if bad else GOOD_RELEVANCE),
                ("coverage", BAD_COVERAGE if bad else GOOD_COVERAGE),
            ):
                result = scored(n, random.choice(scores), metric=metric, labels=labels)
                alerts += [(n, alert) for alert in monitor.observe(result, result.times.occurred_at)]
        assert all(n >= 200 for n, _ in alerts)
        assert all(alert.kind == "drop" for _, alert in alerts)
        overall = {one.metric: (n, one) for n, one in alerts if not one.labels and one.measure == "mean"}
        assert set(overall) == {"relevance", "coverage"}
        for n, alert in overall.values():
            assert n < 200 + LONGEST_DELAY
            # The drop starts at 200; a few earlier scores may count as its start.
            assert abs(alert.started_at - (START + timedelta(seconds=200))) <= timedelta(seconds=8)


def bursts(count: int, random: Random) -> Iterator[tuple[str, int]]:
    """Yield answers of three apps in bursts of about five; two apps have lower scores."""
    scores = {
        "support": [5] * 12 + [4] * 5 + [3] * 2 + [2],  # 4.4
        "search": [5] * 10 + [4] * 6 + [3] * 3 + [1],  # 4.2
        "docs": [5] * 15 + [4] * 4 + [3],  # 4.7
    }
    app = APPS[0]
    for _ in range(count):
        if random.random() < 0.2:
            app = random.choice(APPS)
        yield app, random.choice(scores[app])


@pytest.mark.slow
def test_a_long_calm_run_stays_within_the_bound() -> None:
    """30,000 answers in bursts with unequal probabilities give at most one false alarm in 20,000."""
    random = seeded(1)
    monitor = Monitor(MonitorConfig(labels=("app",)))
    probabilities = {"support": 1.0, "search": 0.5, "docs": 0.25}
    drops = 0
    for n, (app, score) in enumerate(bursts(30_000, random)):
        if random.random() < probabilities[app]:
            result = scored(n, score, labels={"app": app}, probability=probabilities[app])
            alerts = monitor.observe(result, result.times.occurred_at)
            drops += sum(alert.kind == "drop" for alert in alerts)
    judged = next(one.statuses["scored"] for key, one in monitor.series.items() if not key.labels)
    assert judged > 15_000
    assert drops <= judged / 20_000
