"""Builds the monitor's configuration from the settings."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

from judge.metric import Metric
from streams.errors import SettingsError
from streams.monitoring.config import MonitorConfig
from streams.monitoring.measures import SHARE_OF, Measure, share_of
from streams.settings import MetricSettings, MonitorSettings


def monitor_config(
    settings: MonitorSettings,
    metrics: Mapping[str, Metric],
    named: Mapping[str, MetricSettings] = MappingProxyType({}),
    *,
    explorer_url: str | None = None,
) -> MonitorConfig:
    """Return the monitor's configuration.

    Args:
        settings: The section `monitor`.
        metrics: The metrics by name.
        named: Their settings, for the direction that is worse.
        explorer_url: Base URL of the explorer; None: alerts without a link.

    Raises:
        SettingsError: A target, a level or an objective is outside its metric's scale.
    """
    score_ranges = {name: metric.score_range for name, metric in metrics.items()}
    problems = [
        f"monitor.objectives.{metric}.at_least: must be above {scale[0]:g} and at most {scale[1]:g}, the "
        f"scale of {metric} (got {objective.at_least:g}); choose a score on that scale"
        for metric, objective in settings.objectives.items()
        if (scale := score_ranges.get(metric)) is not None and not scale[0] < objective.at_least <= scale[1]
    ]
    measures = {
        metric: tuple(
            _label_share(metric, label, worse, settings, metrics, problems) for label, worse in wanted.items()
        )
        for metric, wanted in settings.label_shares.items()
    }
    if problems:
        raise SettingsError(problems)
    try:
        return MonitorConfig(
            labels=settings.labels,
            baseline_samples=settings.baseline_samples,
            min_drop=settings.min_drop,
            min_share_rise=settings.min_share_rise,
            shares=settings.shares,
            targets=settings.targets,
            expected_samples_per_false_alarm=settings.samples_per_false_alarm,
            score_ranges=score_ranges,
            label_shares=measures,
            rising=frozenset(name for name, metric in named.items() if metric.rises),
            explorer_url=explorer_url,
        )
    except ValueError as error:
        raise SettingsError([f"monitor.{error}"]) from error


def _label_share(
    metric: str,
    label: str,
    worse: Literal["up", "down"],
    settings: MonitorSettings,
    metrics: Mapping[str, Metric],
    problems: list[str],
) -> Measure:
    """Return the measure of a label's share; append errors to the problems."""
    where, numbers = (
        f"monitor.label_shares.{metric}.{label}",
        metrics[metric].labels if metric in metrics else {},
    )
    if label not in numbers:
        given = ", ".join(numbers) or "numbers only"
        problems.append(f"{where}: {metric} has no such label (it gives {given}); remove it")
    others = [one for one, number in numbers.items() if one != label and number == numbers.get(label)]
    if others:
        problems.append(
            f"{where}: {others[0]} has the same number; give each label of the metric a distinct number"
        )
    return share_of(
        f"{SHARE_OF}{label}", {float(numbers.get(label, 0))}, worse=worse, min_change=settings.min_share_rise
    )
