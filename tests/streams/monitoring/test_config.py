from __future__ import annotations

from typing import Any

import pytest
import yaml

from judge.metrics.packs.pack import parse_pack
from judge.metrics.registry import build_metric
from streams.errors import SettingsError
from streams.judging.metrics import build_metric as metric_of
from streams.monitoring.config import Measure, lowest_third, mean_of, monitor_config, share_at_most
from streams.monitoring.monitor import Monitor
from streams.settings import MetricSettings, MonitorSettings
from tests.streams.results import scored

METRICS = {name: build_metric(name) for name in ("relevance", "refusal")}


@pytest.mark.parametrize("level", [1, 5.5])
def test_an_objective_outside_the_scale_is_refused(level: float) -> None:
    """An objective that each answer, or none, would meet is refused."""
    settings = MonitorSettings.model_validate({"objectives": {"relevance": {"at_least": level}}})
    with pytest.raises(
        SettingsError, match=r"monitor\.objectives\.relevance\.at_least: must be above 1 and at most 5"
    ):
        monitor_config(settings, METRICS)


def test_an_objective_does_not_change_the_detector() -> None:
    settings = MonitorSettings.model_validate({"objectives": {"relevance": {"at_least": 3}}})
    assert monitor_config(settings, METRICS) == monitor_config(MonitorSettings(), METRICS)


def test_more_refusals_are_called() -> None:
    """A rise of refusals from a tenth to a half raises an alert about the label's share."""
    settings = MonitorSettings.model_validate(
        {"labels": [], "shares": {"refusal": []}, "label_shares": {"refusal": {"refused": "up"}}}
    )
    monitor = Monitor(monitor_config(settings, METRICS))
    alerts = []
    for number in range(600):
        refused = number % (10 if number < 400 else 2) == 0
        # answered is 3, refused 0: the mean falls too; the share has its own alert.
        result = scored(number, 0 if refused else 3, metric="refusal")
        alerts += monitor.observe(result, result.times.judged_at)
    shares = [alert for alert in alerts if alert.measure == "share_of_refused"]
    assert [alert.kind for alert in shares] == ["drop"]
    assert shares[0].summary.startswith("share of refused in refusal of all answers rose from 10.")


def test_true_and_false_are_labels_as_yaml_reads_them() -> None:
    """YAML's booleans are accepted as label names."""
    given = yaml.safe_load("{toxicity: {true: up}, pii_leak: {false: down}}")
    settings = MonitorSettings.model_validate({"label_shares": given})
    assert settings.label_shares == {"toxicity": {"true": "up"}, "pii_leak": {"false": "down"}}


@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        (
            {"refusal": {"silent": "up"}},
            r"label_shares\.refusal\.silent: refusal has no such label \(it gives answered",
        ),
        ({"relevance": {"refused": "up"}}, "gives numbers only"),
    ],
)
def test_a_label_that_a_metric_does_not_give_is_refused(wanted: dict[str, Any], told: str) -> None:
    """An unknown label is refused with the metric's labels."""
    settings = MonitorSettings.model_validate({"label_shares": wanted})
    with pytest.raises(SettingsError, match=told):
        monitor_config(settings, METRICS)


def test_a_label_needs_a_number_of_its_own() -> None:
    """A label that shares its number with another is refused."""
    raw = (
        b'{"result": {"yes": 1, "no": 0, "never": 0}, "messages": [{"role": "user", "content": "{answer}"}]}'
    )
    metric = build_metric("own", pack=parse_pack(raw, dialect="yaml", origin="p"))
    settings = MonitorSettings.model_validate({"label_shares": {"own": {"no": "up"}}})
    with pytest.raises(SettingsError, match="never has the same number"):
        monitor_config(settings, {"own": metric})


def test_a_rise_of_latency_is_for_the_worse() -> None:
    """For latency a rise is worse, and no share of low values is watched.

    The smallest rise is 60 s * 0.1 / 5 = 1.2 s: min_drop is 0.1 on a scale of five points.
    """
    named = {
        "latency": MetricSettings.model_validate({"code": "latency"}),
        "words": MetricSettings.model_validate({"code": "length"}),
        "rambling": MetricSettings.model_validate({"code": {"length": {"worse": "up"}}}),
    }
    metrics = {name: metric_of(name, settings) for name, settings in named.items()}
    config = monitor_config(MonitorSettings(labels=("app",)), metrics, named)
    latency = config.measures("latency")
    assert [(one.name, one.worse) for one in latency] == [("mean", "up"), ("mix", "up")]
    assert latency[0].min_change == pytest.approx(1.2)
    assert latency[0].goodness(0) == 1
    assert config.measures("words")[0].worse == "down"
    assert config.measures("rambling")[0].worse == "up"
    assert config.rules("latency").measures == latency


def test_amount_goodness_and_back() -> None:
    """A higher share of low scores is worse, and a lower mean is worse."""
    mean = mean_of(1, 5, min_drop=0.1)
    assert (mean.amount(4), mean.goodness(4), mean.reported(0.75)) == (4, 0.75, 4)
    share = share_at_most(2, min_rise=0.02)
    assert [share.amount(score) for score in (1, 2, 3)] == [1, 1, 0]
    assert (share.goodness(1), share.goodness(3)) == (0, 1)
    assert share.reported(0.9) == pytest.approx(0.1)


def test_labels_are_watched_by_their_share_and_clusters_by_their_mean() -> None:
    """A higher share of 2 or 3, the numbers of two labels, is worse; scores have their mean amount."""
    unsafe = Measure(name="share_of_unsafe", worse="up", min_change=0.05, among=frozenset({2.0, 3.0}))
    assert (unsafe.goodness(2), unsafe.goodness(1)) == (0, 1)
    assert unsafe.amount((1, 2, 3, 1)) == 0.5
    assert mean_of(0, 1, min_drop=0.1).amount((0, 1, 1)) == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    ("lowest", "highest", "level"), [(1, 5, 2), (0, 5, 1), (0, 100, 33), (0, 1, 1 / 3), (0, 10, 3)]
)
def test_the_lowest_third_of_a_scale(lowest: float, highest: float, level: float) -> None:
    assert lowest_third(lowest, highest) == pytest.approx(level)
