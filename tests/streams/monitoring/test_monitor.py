from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from random import Random
from typing import Any

import pytest

from schemas import Alert, Failed, Scored, Unscored
from streams.monitoring.config import MonitorConfig
from streams.monitoring.monitor import SILENT_SECONDS, Monitor, MonitorSnapshot, gauges_of
from streams.monitoring.series import Series
from tests.streams.results import START, at, failed, numbered, scored, unscored

PLAIN = MonitorConfig(labels=(), baseline_samples=20, shares={"relevance": (), "coverage": ()})
"""A configuration that watches the mean only."""


def feed(monitor: Monitor, results: Iterable[Scored | Unscored | Failed]) -> list[Alert]:
    """Observe each result at the time of its answer."""
    return [alert for result in results for alert in monitor.observe(result, result.times.occurred_at)]


def shown(monitor: Monitor, seconds: float = 0) -> MonitorSnapshot:
    return MonitorSnapshot([monitor], at(seconds))


def only(monitor: Monitor) -> Series:
    """Return the one series of all answers."""
    (series,) = (one for one in monitor.series.values() if not one.key.labels)
    return series


def calm(count: int, *, first: int = 0, **common: Any) -> list[Scored]:
    """Return good results with scores 5, 5, 4 in turn."""
    return [scored(n, 4 if n % 3 == 2 else 5, **common) for n in range(first, first + count)]


def test_a_drop_alert_has_numbers_start_and_examples() -> None:
    """The baseline is 4.67; then the scores are 3, 2, 1 in turn."""
    monitor = Monitor(PLAIN)
    assert feed(monitor, calm(90)) == []
    # From second 90 (14:01:30 UTC) the scores are 3, 2, 1, 3, 2, 1, ...
    (alert,) = feed(monitor, [scored(n, 3 - n % 3) for n in range(90, 150)])
    assert (alert.kind, alert.metric, alert.labels, alert.model) == ("drop", "relevance", {}, "judge-1")
    # The baseline has the first 80 scores, 54 fives and 26 fours: 374 / 80.
    assert alert.baseline.mean == pytest.approx(4.675)
    assert alert.baseline.count == 80
    # The 4 at second 89 is below the tolerated mean too, so it may count as the start.
    assert at(85) <= alert.started_at <= at(90)
    assert alert.raised_at < at(105)
    assert alert.current.count == (alert.raised_at - alert.started_at).seconds + 1
    assert 1.5 < alert.current.mean < 3
    assert alert.current.low < alert.current.mean < alert.current.high
    assert alert.statistic >= alert.threshold == 20_000
    assert alert.detector == "shiryaev-roberts-e/3"
    current = alert.current
    assert alert.summary == (
        f"relevance of all answers fell from 4.67 to {current.mean:.2f} (95% interval {current.low:.2f}-"
        f"{current.high:.2f}, {current.count} judged answers) since about 14:01 UTC; judge model judge-1"
    )
    # The ones are events 92, 95, 98, ..., the twos 91, 94, 97, ...: the lowest first, then the latest.
    last = (alert.raised_at - START).seconds
    ones, twos = range(92, last + 1, 3), range(91, last + 1, 3)
    assert alert.example_event_ids == tuple(f"e{n}" for n in [*ones[::-1], *twos[::-1]][:5])


def falling(good: int, bad: int) -> list[Scored]:
    """Return 50 results after the good ones, of which each seventh is still good."""
    return [*calm(good), *(scored(n, bad if n % 7 else 5) for n in range(good, good + 50))]


@pytest.mark.parametrize(
    ("results", "count", "said", "earlier"),
    [
        # The first look has 13 answers of the drop.
        (falling(47, 1), 60, "4.02 (still being learned as it began) to", True),
        # The second look has 10.
        (falling(110, 3), 120, "4.57 (still being learned as it began) to", False),
        (falling(119, 1), 120, "4.67 to", False),
        (falling(100, 1), 60, "4.67 to", False),
        # Two partitions are read one after the other: each look of 60 has 40 fives and 20 ones.
        (
            [scored(n, 1 if n >= 80 else 5) for n in (*range(0, 120, 2), *range(1, 240, 2))],
            120, "3.67 (still being learned as it began) to", False,
        ),
    ],
)  # fmt: skip
def test_an_alert_says_if_its_baseline_has_answers_of_the_drop(
    results: list[Scored], count: int, said: str, earlier: bool
) -> None:
    (alert,) = feed(Monitor(PLAIN.model_copy(update={"baseline_samples": 60})), results)
    assert alert.baseline.count == count
    assert alert.summary.startswith(f"relevance of all answers fell from {said} ")
    assert ("or earlier" in alert.summary) == earlier


def test_the_baseline_is_that_of_the_look_that_set_the_limit() -> None:
    """Slightly lower answers lower no limit: the later looks are not the baseline of the test."""
    monitor = Monitor(PLAIN)
    lower = [scored(n, 5 - n % 2 - (n % 5 == 0)) for n in range(80, 480)]
    (alert,) = feed(monitor, [*calm(80), *lower, *[scored(n, 1) for n in range(480, 510)]])
    assert (alert.baseline.mean, alert.baseline.count) == pytest.approx((4.675, 80))


def test_a_recovery_and_a_second_drop_are_alerts() -> None:
    """An alert survives JSON and links to the explorer, if known; the same results give the same alerts."""
    falls = [[scored(n, 1) for n in range(first, first + 30)] for first in (40, 380)]
    results = [*calm(40), *falls[0], *calm(310, first=70), *falls[1]]
    monitor = Monitor(PLAIN)
    alerts = feed(monitor, results)
    drop, recovered, again = alerts
    assert (drop.kind, drop.started_at) == ("drop", at(40))
    assert (recovered.kind, recovered.started_at) == ("recovered", at(40))
    assert recovered.raised_at > at(80)
    assert recovered.summary.startswith("relevance of all answers has recovered from its drop: 4.6")
    assert "since about 14:01 UTC, 4.67 before the drop; judge model judge-1" in recovered.summary
    assert (again.kind, again.started_at) == ("drop", at(380))
    assert (only(monitor).mean.state, only(monitor).mean.dropped_at) == ("dropped", at(380))
    assert len({alert.alert_id for alert in alerts}) == 3
    assert [Alert.model_validate_json(alert.model_dump_json()) for alert in alerts] == alerts
    linked = feed(Monitor(PLAIN.model_copy(update={"explorer_url": "https://judge.example.com/"})), results)
    place = "https://judge.example.com/explore/incident/"
    assert linked == [one.model_copy(update={"link": f"{place}{one.alert_id}"}) for one in alerts]


def test_scores_around_the_limit_do_not_flap() -> None:
    random = Random(4)
    monitor = Monitor(MonitorConfig(labels=(), targets={"relevance": 4.0}))
    feed(monitor, [scored(n, 1) for n in range(50)])
    assert only(monitor).mean.state == "dropped"
    assert len(feed(monitor, (scored(n, random.choice([3, 5])) for n in range(50, 5050)))) <= 10


def test_a_target_takes_the_place_of_a_baseline() -> None:
    monitor = Monitor(MonitorConfig(labels=(), targets={"relevance": 4.0}))
    (alert,) = feed(monitor, [scored(n, 2) for n in range(40)])
    assert (alert.baseline.mean, alert.baseline.count) == (4.0, 0)
    assert alert.summary.startswith("relevance of all answers fell below its target 4.00 to 2.00 (95% ")
    assert feed(monitor, [scored(n, 5) for n in range(40, 50)]) == []
    (back,) = feed(monitor, [scored(n, 5) for n in range(50, 200)])
    assert ", target 4.00; judge model" in back.summary


def test_each_label_value_is_watched_and_named() -> None:
    monitor = Monitor(MonitorConfig(labels=("app", "model")))
    apps = ("support", "search", "docs")

    def result(number: int, *, bad: bool) -> Scored:
        app = apps[number % 3]
        labels = {"app": app, "model": "m", "tenant": "t"}
        return scored(number, 1 if bad and app == "support" else 5 - number % 2, labels=labels)

    assert feed(monitor, [result(n, bad=False) for n in range(300)]) == []
    alerts = feed(monitor, [result(n, bad=True) for n in range(300, 420)])
    labels = [alert.labels for alert in alerts]
    assert {"app": "support"} in labels
    assert {"app": "search"} not in labels
    assert {"app": "docs"} not in labels
    support = next(one for one in alerts if one.labels == {"app": "support"} and one.measure == "mean")
    assert support.summary.startswith("relevance of app=support fell from 4.5")
    # The overall mean has a third of the allowed rate and its share a third; the last third is divided
    # among the 7 other tests of an answer: the mix of the whole, and mean, share and mix of two labels.
    assert support.threshold == 20_000 * 3 * 7
    by_app = ((("app", app),) for app in apps)
    assert {key.labels for key in monitor.series} == {(), *by_app, (("model", "m"),)}


def test_the_latest_50_results_are_shown_the_latest_first() -> None:
    monitor = Monitor(PLAIN)
    feed(monitor, [*calm(200), unscored(200)])
    assert [one.event_id for one in shown(monitor).last_results] == [f"e{n}" for n in range(200, 150, -1)]


def test_a_silent_series_makes_room() -> None:
    """The overall series stays."""
    monitor = Monitor(MonitorConfig(labels=("app",), max_series=3))
    feed(monitor, [scored(1, 5, labels={"app": "old"}), scored(2, 5, labels={"app": "kept"})])
    later = SILENT_SECONDS + 1.5
    new = scored(3, 5, labels={"app": "new"}, seconds=later)
    feed(monitor, [new, scored(4, 5, metric="coverage", seconds=later)])
    series = [(one.key.metric, one.key.labels) for one in shown(monitor).series]
    assert series == [("coverage", ()), ("relevance", ()), ("relevance", (("app", "new"),))]


@pytest.mark.parametrize(
    ("results", "tolerated"),
    [
        pytest.param([scored(n, 1) for n in range(300)], None, id="the lowest score never drops"),
        # A baseline of ones and fives tolerates about a point, not only 0.08.
        pytest.param(
            [scored(n, 1 + 4 * (n % 2)) for n in range(20)], pytest.approx(1.5, abs=0.5), id="uncertain"
        ),
        # 0.1 points on a scale five wide are 0.08 on one of four.
        pytest.param([scored(n, 5) for n in range(1280)], pytest.approx(4.92), id="a sure one"),
    ],
)
def test_what_a_baseline_tolerates(results: list[Scored], tolerated: float | None) -> None:
    monitor = Monitor(PLAIN)
    assert feed(monitor, results) == []
    mean = only(monitor).mean
    assert (mean.state == "learning", mean.tolerated) == (tolerated is None, tolerated)


def test_a_time_without_offset_is_refused() -> None:
    with pytest.raises(ValueError, match="now must have a UTC offset"):
        Monitor().observe(scored(1, 5), START.replace(tzinfo=None))


def test_every_measure_of_every_series_has_its_numbers() -> None:
    monitor = Monitor(MonitorConfig(labels=("app",), baseline_samples=20, shares={"relevance": (2,)}))
    states = []
    for number in range(60):
        score = 5 - number % 2 if number < 40 else 1
        monitor.observe(scored(number, score, labels={"app": "a"}), at(number))
        gauges = {(one.name, *one.labels): one.value for one in gauges_of(shown(monitor, number))}
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
    # The last result was at 59; a series silent for a day is not exported.
    silent = [{one.name for one in gauges_of(shown(monitor, SILENT_SECONDS + n))} for n in (59, 60)]
    assert (len(silent[0]) > 1, silent[1]) == (True, {"state_problems"})


OWN_TIMES = [
    scored(n, score, seconds=at) for n, (score, at) in enumerate([(1, 0), (5, 7000), (3, 5000), (4, 9000)])
]


@pytest.mark.parametrize(
    ("results", "now", "window", "recent"),
    [
        pytest.param([failed(0)], 0, None, None, id="no data is no number"),
        pytest.param([scored(0, 5), unscored(1), failed(2), scored(3, 4)], 3, (2, 4.5), (2, 4.5), id="all"),
        pytest.param([scored(1, 4)], 3700, None, (1, 4), id="an hour without results"),
        # The window is 3600 to 7200 (in steps of a minute): 5, 3 and the 4 from the future, which is now.
        pytest.param(OWN_TIMES, 7200, (3, 4), (4, 13 / 4), id="by the answers' own time"),
        pytest.param(OWN_TIMES, 8660, (2, 4.5), (4, 13 / 4), id="an hour after 5000"),
        pytest.param([scored(n, 5 - n // 60) for n in range(85)], 85, (85, 4.7059), (50, 4.5), id="last 50"),
        # A 1 with probability 1/4 has weight 4: (5 + 4 * 1) / 5.
        pytest.param([scored(0, 5), scored(1, 1, probability=0.25)], 1, (2, 1.8), (2, 1.8), id="weights"),
        # The numbers themselves, not 0 and 1.
        pytest.param(
            [numbered(n, value, metric="fluency") for n, value in enumerate((0.2, 0.6))],
            1, (2, 0.4), (2, 0.4), id="numbers themselves",
        ),
    ],
)  # fmt: skip
def test_estimates_of_a_series(
    results: list[Scored], now: float, window: tuple[int, float] | None, recent: tuple[int, float] | None
) -> None:
    monitor = Monitor(MonitorConfig(labels=(), score_ranges={"relevance": (1, 5), "fluency": (0.0, 1.0)}))
    for result in results:
        monitor.observe(result, at(now))
    series = only(monitor)
    for found, wanted in ((series.window(at(now)), window), (series.recent, recent)):
        assert (found is None) == (wanted is None)
        if found is not None:
            assert (found.count, found.mean) == pytest.approx(wanted, abs=1e-4)
    assert series.statuses == Counter(result.status for result in results)


@pytest.mark.parametrize(
    ("results", "counted"),
    [
        pytest.param([scored(1, 5), scored(1, 2), scored(1, 5, metric="coverage")], [1, 1], id="repeated"),
        # With room for 3 ids, the fourth result renews 1, the fifth evicts 2; then 1 is known, 2 is not.
        pytest.param([scored(n, 5) for n in (1, 2, 3, 1, 4, 1, 2)], [5], id="forgotten ids"),
        pytest.param([scored(1, 5, replay_id="last-week")], [], id="replayed"),
        pytest.param([scored(2, 5, metric="tone")], [], id="unknown metric"),
        # Relevance starts at 1, coverage at 0.
        pytest.param([scored(3, 0), scored(4, 0, metric="coverage")], [1], id="outside the scale"),
        # Above `max_series` a new label value gets no series; the overall series has each answer.
        pytest.param(
            [scored(n, 5, labels={"app": f"a{n}"}) for n in range(10)], [10, 1, 1, 1], id="many labels"
        ),
    ],
)
def test_what_does_not_count_is_ignored(
    results: list[Scored], counted: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("streams.monitoring.monitor.RECENT_RESULT_IDS", 3)
    monitor = Monitor(MonitorConfig(labels=("app",), max_series=4))
    feed(monitor, results)
    assert [one.statuses["scored"] for one in shown(monitor).series] == counted


@pytest.mark.parametrize(
    ("results", "said"),
    [
        ([scored(n, 1, labels={"app": "x\ny\x1b[3m" + "z" * 90}) for n in range(30)], "x y.x1b.3mz{,49}[^z]"),
        # Fours, and each 50th a 3: mean 3.98, so small a difference that it takes more samples than are kept.
        ([scored(n, 3 if n % 50 == 0 else 4) for n in range(2000)], r", 500 judged .* since .* or earlier;"),
        # Midnight is 10 hours after START.
        ([scored(n, 1, seconds=35_700 + n * 60) for n in range(20)], "since about 2025-03-14 23:55 UTC"),
    ],
    ids=["hostile labels", "or earlier", "yesterday"],
)  # fmt: skip
def test_what_a_summary_says(results: list[Scored], said: str) -> None:
    alerts = feed(Monitor(MonitorConfig(labels=("app",), targets={"relevance": 4.0})), results)
    assert any(re.search(said, alert.summary) for alert in alerts)
    assert all(alert.summary.isprintable() for alert in alerts)
