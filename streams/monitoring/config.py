"""What the monitor watches, and when it calls a drop. Plain values: settings are read elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf
from types import MappingProxyType

from streams.monitoring.series import SeriesRules

BUILT_IN_RANGES: Mapping[str, tuple[int, int]] = MappingProxyType({"coverage": (0, 5), "relevance": (1, 5)})


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitorConfig:
    """What is watched, and when a drop is called.

    Attributes:
        labels: Event labels whose values are watched one by one, beside the whole traffic; no cross product.
        max_series: Most series in memory, at least 1.
        baseline_samples: Judged answers from which a series learns what is normal; at least 10.
        min_drop: Smallest fall that matters, in points of the metric's scale; above 0.
        expected_samples_per_false_alarm: Judged answers of a metric for each false alarm that is allowed, over
            all its series together; at least 100.
        window_seconds: Length of the sliding window of `MonitorSnapshot`; above 0.
        score_ranges: Lowest and highest score of each metric. Results of a metric that is not here are ignored.
        targets: By metric, the lowest mean that is all right, in points, in place of a learned one.
        smallest_probability: The smallest inclusion probability the sampling policy gives; None learns it.

    Raises:
        ValueError: One of them is out of its range.
    """

    labels: tuple[str, ...] = ("app", "model")
    max_series: int = 200
    baseline_samples: int = 60
    min_drop: float = 0.25
    expected_samples_per_false_alarm: float = 20_000
    window_seconds: float = 3600
    score_ranges: Mapping[str, tuple[float, float]] = field(default_factory=lambda: BUILT_IN_RANGES)
    targets: Mapping[str, float] = field(default_factory=dict)
    smallest_probability: float | None = None

    def __post_init__(self) -> None:
        if len(set(self.labels)) < len(self.labels):
            raise ValueError(f"labels must be different from each other, got {list(self.labels)}")
        _check_numbers(self)
        _check_scales(self)

    def rules(self, metric: str) -> SeriesRules:
        """Say by what a series of a metric is watched.

        Each judged answer belongs to one series of the whole traffic and to at most one for each label name. With
        each series' threshold 1 + len(labels) times the allowed number, the false alarms of all series together
        stay within it, however many values the labels have.
        """
        lowest, highest = self.score_ranges[metric]
        return SeriesRules(
            lowest=lowest,
            highest=highest,
            target=self.targets.get(metric),
            baseline_samples=self.baseline_samples,
            min_drop=self.min_drop,
            threshold=self.expected_samples_per_false_alarm * (1 + len(self.labels)),
            largest_weight=None if self.smallest_probability is None else 1 / self.smallest_probability,
            window_seconds=self.window_seconds,
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
    probability = config.smallest_probability
    if probability is not None and not 0 < probability <= 1:
        raise ValueError(f"smallest_probability must be above 0 and at most 1, got {probability}")


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
