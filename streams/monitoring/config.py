"""The monitor's configuration as plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf
from types import MappingProxyType

from judge.metrics.registry import BUILT_IN
from streams.monitoring.measures import MIX, Measure, Worse, lowest_third, mean_of, mix_of, share_at_most
from streams.monitoring.series import SeriesRules

FIVE_POINTS = 5.0
"""Width of the scale that `min_drop` refers to."""

BUILT_IN_RANGES: Mapping[str, tuple[int, int]] = MappingProxyType(
    {name: metric.score_range for name, metric in BUILT_IN.items()}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitorConfig:
    """Which series are monitored, and when a drop raises an alert.

    Attributes:
        labels: Event labels whose values are monitored separately, besides the whole traffic; no cross
            product.
        max_series: Maximum series in memory, at least 1.
        baseline_samples: Judged answers for the first baseline of a series, which is recomputed with every
            doubling. At least 10.
        min_drop: Smallest relevant fall of a mean, in points of a scale five wide; proportional on others.
            Above 0.
        min_share_rise: Smallest relevant rise of a share; above 0 and below 1.
        shares: By metric, levels: the share of scores at or below each is monitored. Default: the lowest
            third of the scale.
        expected_samples_per_false_alarm: Judged answers of a metric per allowed false alarm, over all its
            series together; at least 100.
        score_ranges: Lowest and highest score of each metric. Results of other metrics are ignored.
        targets: By metric, the lowest acceptable mean in points, instead of a learned baseline.
        label_shares: By metric, shares of labels that are also monitored.
        rising: Metrics that get worse when they rise; their target is the highest acceptable mean.
        explorer_url: Base URL of the explorer for links in alerts; None: no links.

    Raises:
        ValueError: One of them is out of range.
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
        if len(set(self.labels)) < len(self.labels):
            raise ValueError(f"labels must be different from each other, got {list(self.labels)}")
        _check_numbers(self)
        _check_scales(self)
        _check_shares(self)

    def rules(self, metric: str, *, fixed_labels: int = 0) -> SeriesRules:
        """Return the rules of a metric's series.

        Each judged answer belongs to the series of the whole traffic and to at most one per label name, and
        each series has a few measures. A test with threshold T has at most one false alarm in T samples. The
        allowed rate is divided equally among the mean of the whole traffic, its shares, and all other tests
        of an answer; each group divides its part equally again. So the total stays within the allowed rate
        for any number of label values.

        Args:
            metric: The metric's name.
            fixed_labels: Number of labels with one value in the whole series; 0 for the whole traffic.
                Without further labels there are no parts and no mix.
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
        return (
            mean_of(lowest, highest, min_drop=min_drop, target=self.targets.get(metric), worse=worse),
            *(share_at_most(level, min_rise=self.min_share_rise) for level in levels),
            *self.label_shares.get(metric, ()),
            *((mix_of(lowest, highest, min_drop=min_drop, worse=worse),) if self.labels else ()),
        )


def _check_numbers(config: MonitorConfig) -> None:
    at_least: tuple[tuple[str, float, float], ...] = (
        ("max_series", config.max_series, 1),
        ("baseline_samples", config.baseline_samples, 10),
        ("expected_samples_per_false_alarm", config.expected_samples_per_false_alarm, 100),
    )
    for name, value, least in at_least:
        if not least <= value < inf:
            raise ValueError(f"{name} must be at least {least} and finite, got {value}")
    if not 0 < config.min_drop < inf:
        raise ValueError(f"min_drop must be above 0 and finite, got {config.min_drop}")
    if not 0 < config.min_share_rise < 1:
        raise ValueError(f"min_share_rise must be above 0 and below 1, got {config.min_share_rise}")


def _check_scales(config: MonitorConfig) -> None:
    for metric, (lowest, highest) in config.score_ranges.items():
        if not lowest < highest:
            raise ValueError(f"score_ranges.{metric} must be [lowest, highest], got {lowest} to {highest}")
    for metric, target in config.targets.items():
        if metric not in config.score_ranges:
            raise ValueError(f"targets.{metric} needs a range in score_ranges; add one or drop the target")
        lowest, highest = config.score_ranges[metric]
        if not lowest < target < highest:
            raise ValueError(f"targets.{metric} must be inside the scale {lowest} to {highest}, got {target}")


def _check_shares(config: MonitorConfig) -> None:
    for metric, levels in config.shares.items():
        if metric not in config.score_ranges:
            raise ValueError(f"shares.{metric} needs a range in score_ranges; add one or drop the shares")
        lowest, highest = config.score_ranges[metric]
        if len(set(levels)) < len(levels):
            raise ValueError(f"shares.{metric} must differ from each other, got {list(levels)}")
        for level in levels:
            if not lowest <= level < highest:
                raise ValueError(
                    f"shares.{metric} must be at least {lowest} and below {highest}, got {level}; "
                    "all scores are at most the highest"
                )
