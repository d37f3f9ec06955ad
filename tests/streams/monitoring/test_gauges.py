from __future__ import annotations

from streams.monitoring.config import MonitorConfig
from streams.monitoring.gauges import gauges_of
from streams.monitoring.monitor import SILENT_SECONDS, Monitor
from tests.streams.results import at, scored

CONFIG = MonitorConfig(labels=("app",), baseline_samples=20, shares={"relevance": (2,)})


def test_every_measure_of_every_series_has_its_numbers() -> None:
    """The state gauge goes from learning to watching to dropped, and each measure has its gauges.

    40 good answers of one app are followed by bad ones.
    """
    monitor = Monitor(CONFIG)
    states = []
    for number in range(60):
        score = 5 - number % 2 if number < 40 else 1
        monitor.observe(scored(number, score, labels={"app": "a"}), at(number))
        gauges = {(one.name, *one.labels): one.value for one in gauges_of(monitor.snapshot(at(number)))}
        states.append(gauges["state", "relevance", "f1", "all", "mean"])
    assert sorted(set(states)) == [0, 1, 2]
    assert states == sorted(states)
    mean = {key[0]: value for key, value in gauges.items() if key[1:] == ("relevance", "f1", "all", "mean")}
    assert mean["baseline"] == 4.5
    assert mean["tolerated"] < 4.5
    assert mean["evidence"] >= mean["threshold"]
    assert gauges["missing_strata", "relevance", "f1", "all"] == 0
    measures = {key[4] for key in gauges if key[0] == "state" and key[3] == "all"}
    assert measures == {"mean", "share_at_most_2", "mix"}
    assert {key[3] for key in gauges if key[0] != "state_problems"} == {"all", "app=a"}
    assert gauges["state_problems", "ahead"] == 0


def test_a_silent_series_is_not_exported() -> None:
    """A series without results for a day is not exported."""
    monitor = Monitor(CONFIG)
    monitor.observe(scored(1, 5), at(1))
    assert list(gauges_of(monitor.snapshot(at(SILENT_SECONDS + 1))))
    assert {one.name for one in gauges_of(monitor.snapshot(at(SILENT_SECONDS + 2)))} == {"state_problems"}
