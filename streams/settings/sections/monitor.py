"""Section `monitor`: the monitored series, and when a drop raises an alert."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from schemas.base import LabelName, LabelValue, MetricName
from streams.settings.base import Section
from streams.settings.sections.telemetry import DEFAULT_LABELS


class ObjectiveSettings(Section):
    """An objective: a share of the answers must reach a score."""

    at_least: float = Field(description="Lowest score that meets the objective.")
    share: float = Field(
        default=0.99,
        gt=0,
        lt=1,
        description="Share of the answers that must meet it; the rest is the error budget.",
    )


_Worse = dict[LabelValue, Literal["up", "down"]]


def _as_written(given: object) -> object:
    """Turn booleans back into the labels `true` and `false`."""
    if not isinstance(given, dict):
        return given
    return {str(label).lower() if isinstance(label, bool) else label: way for label, way in given.items()}


class MonitorSettings(Section):
    """Which series are monitored, and when a drop raises an alert."""

    labels: tuple[LabelName, ...] = Field(
        default=DEFAULT_LABELS,
        max_length=8,
        description="Labels whose values are monitored separately, besides all traffic.",
    )
    max_series: int = Field(default=200, ge=1, le=100_000, description="Maximum number of series in memory.")
    baseline_samples: int = Field(
        default=60,
        ge=10,
        le=1_000_000,
        description=("Judged answers for the first baseline of a series; recomputed with every doubling."),
    )
    min_drop: float = Field(
        default=0.1,
        gt=0,
        le=5,
        description=(
            "Smallest relevant fall of a mean, in points of a scale five wide; proportional on others."
        ),
    )
    min_share_rise: float = Field(
        default=0.02, gt=0, lt=1, description="Smallest relevant rise of the share of low scores."
    )
    shares: dict[MetricName, Annotated[tuple[float, ...], Field(max_length=8)]] = Field(
        default_factory=dict,
        description="By metric, levels: the share of scores at or below each is monitored. Default: the "
        "lowest third of the scale; an empty list monitors only the mean.",
    )
    label_shares: dict[MetricName, Annotated[_Worse, BeforeValidator(_as_written)]] = Field(
        default_factory=dict,
        description="By metric with labels (or true and false), the labels whose share is monitored and "
        "which direction is worse: {refusal: {refused: up}} alerts when more answers refuse.",
    )
    targets: dict[MetricName, float] = Field(
        default_factory=dict,
        description="By metric, the lowest acceptable mean, instead of a learned baseline.",
    )
    objectives: dict[MetricName, ObjectiveSettings] = Field(
        default_factory=dict,
        description="By metric, the share of answers that must reach a score; alerts report how fast the "
        "error budget (the rest) is spent.",
    )
    samples_per_false_alarm: int = Field(
        default=20_000,
        ge=100,
        le=1_000_000_000,
        description="Judged answers of a metric per allowed false alarm.",
    )
    window_seconds: float = Field(
        default=3600, gt=0, le=604_800, description="Length of the live page's sliding window."
    )
