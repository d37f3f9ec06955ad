"""What the monitor watches, and when it calls a drop. Plain values: settings are read elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf
from types import MappingProxyType

from judge.metrics.registry import BUILT_IN
from streams.monitoring.measures import MIX, Measure, Worse, lowest_third, mean_of, mix_of, share_at_most
from streams.monitoring.series import SeriesRules

FIVE_POINTS = 5.0
"""Width of the scale that `min_drop` is meant for."""

BUILT_IN_RANGES: Mapping[str, tuple[int, int]] = MappingProxyType(
    {name: metric.score_range for name, metric in BUILT_IN.items()}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitorConfig:
    """What is watched, and when a drop is called.

    Attributes:
        labels: Event labels whose values are watched one by one, beside the whole traffic; no cross product.
        max_series: Most series in memory, at least 1.
        baseline_samples: Judged answers after which a series first says what is normal; it does again with
            every doubling. At least 10.
        min_drop: Smallest fall of a mean that matters, in points of a scale five wide; on a scale of another
            width in proportion. Above 0.
        min_share_rise: Smallest rise of a share that matters; above 0 and below 1.
        shares: By metric, the levels of which the share of scores at or below is watched. A metric that is
            not here has one, the lowest third of its scale.
        expected_samples_per_false_alarm: Judged answers of a metric for each false alarm that is allowed,
            over all its series together; at least 100.
        window_seconds: Length of the sliding window of `MonitorSnapshot`; above 0.
        score_ranges: Lowest and highest score of each metric. Results of a metric that is not here are
            ignored.
        targets: By metric, the lowest mean that is all right, in points, in place of a learned one.
        label_shares: By metric, shares of labels that are watched beside.
        rising: Metrics whose rise is for the worse; their target is the highest mean that is all right.
        explorer_url: Begin of the explorer's addresses, for the links of alerts; None for none.

    Raises:
        ValueError: One of them is out of its range.
    """

    labels: tuple[str, ...] = ("app", "model")
    max_series: int = 200
    baseline_samples: int = 60
    min_drop: float = 0.1
    min_share_rise: float = 0.02
    expected_samples_per_false_alarm: float = 20_000
    window_seconds: float = 3600
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
        """Say by what a series of a metric is watched.

        Each judged answer belongs to one series of the whole traffic and to at most one for each label name,
        and each series has a few measures. A test with threshold T has at most one false alarm in T samples.
        The allowed ones are divided equally among the mean of the whole traffic, which pages, its shares, and
        all other tests that an answer enters; each group divides its part equally again. So all together stay
        within the allowed number, however many values the labels have.

        Args:
            metric: The metric's name.
            fixed_labels: Labels that have one value in the whole series: 0 for the whole traffic. Without
                other labels it has no parts, so there is no mix to tell apart.
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
            window_seconds=self.window_seconds,
        )

    def measures(self, metric: str) -> tuple[Measure, ...]:
        """Say what is watched of a metric's scores: the mean, shares of low scores, and any mix."""
        lowest, highest = self.score_ranges[metric]
        min_drop = self.min_drop * (highest - lowest) / FIVE_POINTS
        worse: Worse = "up" if metric in self.rising else "down"
        # For a metric whose rise is bad, low scores are good.
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
    for name, value in (("min_drop", config.min_drop), ("window_seconds", config.window_seconds)):
        if not 0 < value < inf:
            raise ValueError(f"{name} must be above 0 and finite, got {value}")
    if not 0 < config.min_share_rise < 1:
        raise ValueError(f"min_share_rise must be above 0 and below 1, got {config.min_share_rise}")


def _check_scales(config: MonitorConfig) -> None:
    for metric, (lowest, highest) in config.score_ranges.items():
        if not lowest < highest:
            raise ValueError(f"score_ranges.{metric} must rise, got {lowest} to {highest}")
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
