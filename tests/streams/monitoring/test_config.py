from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from judge.metrics.packs.pack import parse_pack
from judge.metrics.registry import build_metric
from streams.errors import SettingsError
from streams.judging.metrics import build_metric as metric_of
from streams.monitoring.config import Measure, MonitorConfig, mean_of, monitor_config, share_at_most
from streams.monitoring.monitor import Monitor
from streams.settings.metrics import MetricSettings
from streams.settings.outputs import MonitorSettings
from streams.settings.tree import Settings
from tests.streams.results import scored

METRICS = {name: build_metric(name) for name in ("relevance", "refusal")}


def settings_of(monitor: dict[str, Any]) -> Settings:
    return Settings().model_copy(update={"monitor": MonitorSettings.model_validate(monitor)})


_PACK = b'{"result": {"yes": 1, "no": 0, "never": 0}, "messages": [{"role": "user", "content": "{answer}"}]}'


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"objectives": {"relevance": {"at_least": 1}}}, "objectives.relevance.at_least: must be above 1"),
        ({"objectives": {"relevance": {"at_least": 5.5}}}, "objectives.relevance.at_least: must be above 1"),
        ({"shares": {"refusal": {"silent": "up"}}}, "refusal.silent: refusal has no such label (it"),
        ({"shares": {"relevance": {"refused": "up"}}}, "relevance.refused: relevance has no such"),
        ({"shares": {"relevance": {"refused": "up"}}}, "gives numbers only)"),
        ({"shares": {"own": {"no": "up"}}}, "shares.own.no: never has the same number"),
        ({"labels": ["app", "app"]}, "labels must be different"),
        ({"targets": {"relevance": 5.0}}, "targets.relevance must be inside the scale 1 to 5"),
        ({"shares": {"relevance": [5.0]}}, "shares.relevance must be at least 1 and below 5"),
        ({"shares": {"relevance": [2.0, 2.0]}}, "shares.relevance must differ"),
    ],
)
def test_settings_that_do_not_fit_the_metrics_are_refused(settings: dict[str, Any], said: str) -> None:
    own = build_metric("own", pack=parse_pack(_PACK, dialect="yaml", origin="p"))
    with pytest.raises(SettingsError, match="monitor.*" + re.escape(said)):
        monitor_config(settings_of(settings), METRICS | {"own": own})


def test_more_refusals_are_called() -> None:
    settings = settings_of({"labels": [], "shares": {"refusal": {"refused": "up"}}})
    monitor = Monitor(monitor_config(settings, METRICS))
    shares = []
    for number in range(600):
        refused = number % (10 if number < 400 else 2) == 0
        # answered is 3, refused 0: the mean falls too; the share has its own alert.
        result = scored(number, 0 if refused else 3, metric="refusal")
        alerts = monitor.observe(result, result.times.judged_at)
        shares += [alert for alert in alerts if alert.measure == "share_of_refused"]
    assert [alert.kind for alert in shares] == ["drop"]
    assert shares[0].summary.startswith("share of refused in refusal of all answers rose from 10.")


def test_true_and_false_are_labels_as_yaml_reads_them() -> None:
    given = yaml.safe_load("{toxicity: {true: up}, pii_leak: {false: down}}")
    settings = MonitorSettings.model_validate({"shares": given})
    assert settings.shares == {"toxicity": {"true": "up"}, "pii_leak": {"false": "down"}}


def test_a_rise_of_latency_is_for_the_worse() -> None:
    """The smallest rise is 60 s * 0.1 / 5 = 1.2 s: min_drop is 0.1 on a scale of five points."""
    named = {
        "latency": MetricSettings.model_validate({"code": "latency"}),
        "words": MetricSettings.model_validate({"code": "length"}),
        "rambling": MetricSettings.model_validate({"code": {"length": {"worse": "up"}}}),
    }
    metrics = {name: metric_of(name, settings) for name, settings in named.items()}
    settings = settings_of({"labels": ["app"]}).model_copy(update={"metrics": named})
    config = monitor_config(settings, metrics)
    latency = config.measures("latency")
    assert [(one.name, one.worse) for one in latency] == [("mean", "up"), ("mix", "up")]
    assert latency[0].min_change == pytest.approx(1.2)
    assert latency[0].goodness(0) == 1
    assert config.measures("words")[0].worse == "down"
    assert config.measures("rambling")[0].worse == "up"
    assert config.rules("latency").measures == latency


def test_amount_goodness_and_back() -> None:
    mean = mean_of(1, 5, min_drop=0.1)
    assert (mean.amount(4), mean.goodness(4), mean.reported(0.75)) == (4, 0.75, 4)
    share = share_at_most(2, min_rise=0.02)
    assert [share.amount(score) for score in (1, 2, 3)] == [1, 1, 0]
    assert (share.goodness(1), share.goodness(3)) == (0, 1)
    assert share.reported(0.9) == pytest.approx(0.1)
    # A higher share of 2 or 3, the numbers of two labels, is worse; a cluster has its mean amount.
    unsafe = Measure(name="share_of_unsafe", worse="up", min_change=0.05, among=frozenset({2.0, 3.0}))
    assert (unsafe.goodness(2), unsafe.goodness(1)) == (0, 1)
    assert unsafe.amount((1, 2, 3, 1)) == 0.5
    assert mean_of(0, 1, min_drop=0.1).amount((0, 1, 1)) == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    ("lowest", "highest", "level"), [(1, 5, 2), (0, 5, 1), (0, 100, 33), (0, 1, 1 / 3), (0, 10, 3)]
)
def test_the_lowest_third_of_a_scale(lowest: float, highest: float, level: float) -> None:
    config = MonitorConfig(score_ranges={"own": (lowest, highest)})
    assert config.measures("own")[1].at_most == pytest.approx(level)


@pytest.mark.parametrize("labels", [(), ("app",), ("app", "model")])
@pytest.mark.parametrize("levels", [(), (2,), (1, 2)])
def test_the_thresholds_of_all_tests_add_up_to_the_allowed_rate(
    labels: tuple[str, ...], levels: tuple[float, ...]
) -> None:
    """An answer is tested in the overall series and in one series per label."""
    config = MonitorConfig(labels=labels, shares={"relevance": levels})
    series = [config.rules("relevance"), *(config.rules("relevance", fixed_labels=1) for _ in labels)]
    rate = sum(1 / threshold for rules in series for threshold in rules.thresholds)
    # With one label its series have no mix, so the rate of that test stays unused.
    assert rate <= 1 / 20_000 * (1 + 1e-9)
    if len(labels) != 1:
        assert rate == pytest.approx(1 / 20_000)
