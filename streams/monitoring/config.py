"""The monitor's configuration: from the settings, and the measures and thresholds that follow from it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from judge.metric import Metric
from judge.metrics.registry import BUILT_IN
from streams.errors import SettingsError
from streams.monitoring.measures import (
    MIX,
    SHARE_OF,
    Measure,
    Worse,
    lowest_third,
    mean_of,
    share_at_most,
)
from streams.monitoring.series import SeriesRules
from streams.settings import MetricSettings, MonitorSettings

FIVE_POINTS = 5.0
"""Width of the scale that `min_drop` refers to."""

BUILT_IN_RANGES: Mapping[str, tuple[int, int]] = MappingProxyType(
    {name: metric.score_range for name, metric in BUILT_IN.items()}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitorConfig:
    """Which series are monitored, and when a drop raises an alert.

    The fields are those of the settings, which have their bounds; `score_ranges` has the scale of each
    metric, `label_shares` the measures of labels, and `rising` the metrics that get worse when they rise.

    Raises:
        ValueError: Labels, targets or levels do not fit each other or a metric's scale.
    """

    labels: tuple[str, ...] = ("app", "model")
    max_series: int = 200
    baseline_samples: int = 60
    min_drop: float = 0.1
    min_share_rise: float = 0.02
    expected_samples_per_false_alarm: float = 20_000
    score_ranges: Mapping[str, tuple[float, float]] = field(default_factory=lambda: BUILT_IN_RANGES)
    targets: Mapping[str, float] = field(default_factory=dict)
    shares: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    label_shares: Mapping[str, tuple[Measure, ...]] = field(default_factory=dict)
    rising: frozenset[str] = frozenset()
    explorer_url: str | None = None

    def __post_init__(self) -> None:
        problem = next(_problems(self), None)
        if problem is not None:
            raise ValueError(problem)

    def rules(self, metric: str, *, fixed_labels: int = 0) -> SeriesRules:
        """Return the rules of a metric's series, of which `fixed_labels` labels have one value.

        A test with threshold T has at most one false alarm in T samples. The allowed rate is divided equally
        among the mean of the whole traffic, its shares, and all other tests of an answer (which belongs to at
        most one series per label); each group divides its part equally again. So the total stays within it
        for any number of label values.
        """
        measures = self.measures(metric)
        shares = sum(measure.is_share for measure in measures)
        others = (1 + len(self.labels)) * len(measures) - 1 - shares
        groups = 1 + (shares > 0) + (others > 0)

        def threshold(measure: Measure) -> float:
            tests = others if fixed_labels or measure.name == MIX else shares if measure.is_share else 1
            return self.expected_samples_per_false_alarm * groups * tests

        watched = (
            measures if len(self.labels) > fixed_labels else tuple(m for m in measures if m.within_parts)
        )
        return SeriesRules(
            measures=watched,
            baseline_samples=self.baseline_samples,
            thresholds=tuple(map(threshold, watched)),
        )

    def measures(self, metric: str) -> tuple[Measure, ...]:
        """Return a metric's measures: the mean, shares of low scores, and the mix if there are parts."""
        lowest, highest = self.score_ranges[metric]
        min_drop = self.min_drop * (highest - lowest) / FIVE_POINTS
        worse: Worse = "up" if metric in self.rising else "down"
        # If a rise is worse, low scores are good.
        default = () if worse == "up" else (lowest_third(lowest, highest),)
        levels = self.shares.get(metric, default)
        mean = mean_of(lowest, highest, min_drop=min_drop, target=self.targets.get(metric), worse=worse)
        mix = replace(mean, name=MIX, target=None, within_parts=False)
        return (
            mean,
            *(share_at_most(level, min_rise=self.min_share_rise) for level in levels),
            *self.label_shares.get(metric, ()),
            *((mix,) if self.labels else ()),
        )


def _problems(config: MonitorConfig) -> Iterator[str]:
    if len(set(config.labels)) < len(config.labels):
        yield f"labels must be different from each other, got {list(config.labels)}"
    for name, given in (("targets", config.targets), ("shares", config.shares)):
        for metric in given.keys() - config.score_ranges.keys():
            yield f"{name}.{metric} needs a range in score_ranges; add one or remove it"
    for metric, (lowest, highest) in config.score_ranges.items():
        target, levels = config.targets.get(metric), config.shares.get(metric, ())
        if target is not None and not lowest < target < highest:
            yield f"targets.{metric} must be inside the scale {lowest} to {highest}, got {target}"
        if len(set(levels)) < len(levels):
            yield f"shares.{metric} must differ from each other, got {list(levels)}"
        for level in levels:
            if not lowest <= level < highest:
                yield (
                    f"shares.{metric} must be at least {lowest} and below {highest}, got {level}; "
                    "all scores are at most the highest"
                )


def monitor_config(
    settings: MonitorSettings,
    metrics: Mapping[str, Metric],
    named: Mapping[str, MetricSettings] = MappingProxyType({}),
    *,
    explorer_url: str | None = None,
) -> MonitorConfig:
    """Return the configuration for settings and metrics; `named` has the direction that is worse.

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
    worse: Worse,
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
    return Measure(
        name=f"{SHARE_OF}{label}",
        worse=worse,
        min_change=settings.min_share_rise,
        among=frozenset({float(numbers.get(label, 0))}),
    )
