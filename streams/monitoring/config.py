"""What is monitored: the measures of a metric's scores and their thresholds, from the settings. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Literal

from pydantic import Field

from judge.metric import Metric
from judge.metrics.registry import score_ranges
from judge.text.printable import printable
from streams.errors import SettingsError
from streams.settings.outputs import MonitorSettings
from streams.settings.tree import Settings

Worse = Literal["down", "up"]
MEAN = "mean"
SHARE_OF = "share_of_"
"""Prefix of the name of a label's share."""
MIX = "mix"
"""The plain mean, which a change of the mix of labels alone also changes."""
FIVE_POINTS = 5.0
"""Width of the scale that `min_drop` refers to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """The mean of amounts, which are scores or, for a share of them, 1 or 0; and which direction is worse."""

    name: str
    lowest: float = 0.0
    highest: float = 1.0
    worse: Worse
    min_change: float
    """Smallest relevant change for the worse, in units of the amount."""
    target: float | None = None
    """The worst acceptable level, in the same units; None: learned."""
    within_parts: bool = True
    """Whether to compare within the parts of the traffic, so that a change of their mix has no effect."""
    at_most: float | None = None
    """For a share: scores up to this one count."""
    among: frozenset[float] | None = None
    """For a share: these scores count. Without this and `at_most` it is a mean."""

    @property
    def width(self) -> float:
        return self.highest - self.lowest

    @property
    def is_share(self) -> bool:
        return self.at_most is not None or self.among is not None

    def amount(self, score: float | tuple[float, ...]) -> float:
        if isinstance(score, tuple):
            return fmean(map(self.amount, score))
        if self.among is not None:
            return float(score in self.among)
        return score if self.at_most is None else float(score <= self.at_most)

    def scaled(self, amount: float) -> float:
        """Scale an amount to [0, 1], where 1 is best."""
        scaled = (amount - self.lowest) / self.width
        return scaled if self.worse == "down" else 1 - scaled

    def goodness(self, score: float | tuple[float, ...]) -> float:
        return self.scaled(self.amount(score))

    def reported(self, goodness: float) -> float:
        """Convert goodness, a scaled amount, back to units of the amount."""
        scaled = goodness if self.worse == "down" else 1 - goodness
        return self.lowest + scaled * self.width

    def subject(self, metric: str) -> str:
        if self.at_most is not None:
            return f"share of {metric} at most {self.at_most:g}"
        if self.is_share:
            return f"share of {printable(self.name.removeprefix(SHARE_OF), 60)} in {metric}"
        return metric


def mean_of(
    lowest: float, highest: float, *, min_drop: float, target: float | None = None, worse: Worse = "down"
) -> Measure:
    return Measure(name=MEAN, lowest=lowest, highest=highest, worse=worse, min_change=min_drop, target=target)


def share_at_most(level: float, *, min_rise: float) -> Measure:
    return Measure(name=f"share_at_most_{level:g}", worse="up", min_change=min_rise, at_most=level)


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesRules:
    """The measures of a series, the mean first, and for each the scores per allowed false alarm."""

    measures: tuple[Measure, ...]
    baseline_samples: int
    thresholds: tuple[float, ...]
    suspects: bool = False
    """Whether suspicions are kept, which raise the sampling rates."""


class MonitorConfig(MonitorSettings):
    """Which series are monitored, and when a drop raises an alert: the settings, and what metrics say."""

    max_series: int = 200
    score_ranges: Mapping[str, tuple[float, float]] = Field(default_factory=score_ranges)
    label_numbers: Mapping[str, Mapping[str, float]] = Field(default_factory=dict)
    rising: frozenset[str] = frozenset()
    """The metrics that get worse when they rise."""
    explorer_url: str | None = None
    suspects: bool = False

    def rules(self, metric: str, *, fixed_labels: int = 0) -> SeriesRules:
        """Return the rules of a metric's series, of which `fixed_labels` labels have one value.

        A test with threshold T has at most one false alarm in T samples. The allowed rate is divided equally
        among the mean of the whole traffic, its shares, and all other tests of an answer (which belongs to at
        most one series per label); each group divides its part equally again.
        """
        measures = self.measures(metric)
        shares = sum(measure.is_share for measure in measures)
        others = (1 + len(self.labels)) * len(measures) - 1 - shares
        groups = 1 + (shares > 0) + (others > 0)

        def threshold(measure: Measure) -> float:
            tests = others if fixed_labels or measure.name == MIX else shares if measure.is_share else 1
            return self.samples_per_false_alarm * groups * tests

        if len(self.labels) <= fixed_labels:
            measures = tuple(measure for measure in measures if measure.within_parts)
        return SeriesRules(
            measures=measures,
            baseline_samples=self.baseline_samples,
            thresholds=tuple(map(threshold, measures)),
            suspects=self.suspects,
        )

    def measures(self, metric: str) -> tuple[Measure, ...]:
        lowest, highest = self.score_ranges[metric]
        min_rise = min(self.min_drop / FIVE_POINTS, 0.99)  # of a share, whose scale is one wide
        min_drop = self.min_drop * (highest - lowest) / FIVE_POINTS
        worse: Worse = "up" if metric in self.rising else "down"
        # The lowest third, whole if the scale's ends are. If a rise is worse, low scores are good.
        third = lowest + (highest - lowest) / 3
        third = float(int(third)) if float(lowest).is_integer() and highest - lowest > 2 else third
        watched = self.shares.get(metric, () if worse == "up" else (third,))
        if isinstance(watched, dict):
            numbers = {label: frozenset({one}) for label, one in self.label_numbers[metric].items()}
            shares = [
                Measure(name=SHARE_OF + label, worse=bad, min_change=min_rise, among=numbers[label])
                for label, bad in watched.items()
            ]
        else:
            shares = [share_at_most(level, min_rise=min_rise) for level in watched]
        mean = mean_of(lowest, highest, min_drop=min_drop, target=self.targets.get(metric), worse=worse)
        mix = replace(mean, name=MIX, target=None, within_parts=False)
        return (mean, *shares, *((mix,) if self.labels else ()))


def monitor_config(
    settings: Settings, metrics: Mapping[str, Metric], *, suspects: bool = False
) -> MonitorConfig:
    problems = [f"monitor.{problem}" for problem in _problems(settings.monitor, metrics)]
    if problems:
        raise SettingsError(problems)
    return MonitorConfig(
        **dict(settings.monitor),
        score_ranges={name: metric.score_range for name, metric in metrics.items()},
        label_numbers={name: metric.labels for name, metric in metrics.items()},
        rising=frozenset(name for name, metric in settings.metrics.items() if metric.rises),
        explorer_url=settings.store.explorer_url,
        suspects=suspects,
    )


def _problems(settings: MonitorSettings, metrics: Mapping[str, Metric]) -> Iterator[str]:
    if len(set(settings.labels)) < len(settings.labels):
        yield f"labels must be different from each other, got {list(settings.labels)}"
    for name, metric in metrics.items():
        lowest, highest = metric.score_range
        objective, target = settings.objectives.get(name), settings.targets.get(name)
        shares = settings.shares.get(name, ())
        if isinstance(shares, dict):
            yield from _label_problems(name, shares, metric.labels)
        levels = () if isinstance(shares, dict) else shares
        if objective is not None and not lowest < objective.at_least <= highest:
            yield (
                f"objectives.{name}.at_least: must be above {lowest:g} and at most {highest:g}, the scale of "
                f"{name} (got {objective.at_least:g}); choose a score on that scale"
            )
        if target is not None and not lowest < target < highest:
            yield f"targets.{name} must be inside the scale {lowest} to {highest}, got {target}"
        if len(set(levels)) < len(levels):
            yield f"shares.{name} must differ from each other, got {list(levels)}"
        for level in levels:
            if not lowest <= level < highest:
                yield (
                    f"shares.{name} must be at least {lowest} and below {highest}, got {level}; "
                    "all scores are at most the highest"
                )


def _label_problems(metric: str, wanted: Iterable[str], numbers: Mapping[str, float]) -> Iterator[str]:
    for label in wanted:
        where, number = f"shares.{metric}.{label}", numbers.get(label)
        others = [other for other, same in numbers.items() if other != label and same == number]
        if number is None:
            labels = ", ".join(numbers) or "numbers only"
            yield f"{where}: {metric} has no such label (it gives {labels}); remove it"
        elif others:
            yield f"{where}: {others[0]} has the same number; give each label of the metric its own"
