"""From settings to what the monitor watches."""

from __future__ import annotations

from collections.abc import Mapping

from streams.errors import SettingsError
from streams.monitoring.config import MonitorConfig
from streams.settings import MonitorSettings


def monitor_config(
    settings: MonitorSettings,
    score_ranges: Mapping[str, tuple[float, float]],
    *,
    explorer_url: str | None = None,
) -> MonitorConfig:
    """Say what is watched.

    Args:
        settings: The section `monitor`.
        score_ranges: Lowest and highest score of each metric, which its prompt pack may name.
        explorer_url: Where people open the explorer; None for alerts without a link.

    Raises:
        SettingsError: A target, a level or an objective lies outside the scale of its metric.
    """
    problems = [
        f"monitor.objectives.{metric}.at_least: must be above {scale[0]:g} and at most {scale[1]:g}, the "
        f"scale of {metric} (got {objective.at_least:g}); choose a score of that scale"
        for metric, objective in settings.objectives.items()
        if (scale := score_ranges.get(metric)) is not None and not scale[0] < objective.at_least <= scale[1]
    ]
    if problems:
        raise SettingsError(problems)
    try:
        return MonitorConfig(
            labels=settings.labels,
            max_series=settings.max_series,
            baseline_samples=settings.baseline_samples,
            min_drop=settings.min_drop,
            min_share_rise=settings.min_share_rise,
            shares=settings.shares,
            targets=settings.targets,
            expected_samples_per_false_alarm=settings.samples_per_false_alarm,
            window_seconds=settings.window_seconds,
            score_ranges=score_ranges,
            explorer_url=explorer_url,
        )
    except ValueError as error:
        raise SettingsError([f"monitor.{error}"]) from error
