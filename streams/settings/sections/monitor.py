"""Section `monitor`: what is watched, and when a drop is called."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from schemas.base import LabelName, LabelValue, MetricName
from streams.settings.base import Section
from streams.settings.sections.telemetry import DEFAULT_LABELS


class ObjectiveSettings(Section):
    """A promise about the answers: this share of them scores so much or more."""

    at_least: float = Field(description="Lowest score that meets the objective, in points.")
    share: float = Field(
        default=0.99,
        gt=0,
        lt=1,
        description="Share of the answers that have to meet it; the rest is the budget.",
    )


class MonitorSettings(Section):
    """When a drop is called."""

    labels: tuple[LabelName, ...] = Field(
        default=DEFAULT_LABELS,
        max_length=8,
        description="Labels watched one by one, beside the whole traffic.",
    )
    max_series: int = Field(default=200, ge=1, le=100_000, description="Series in memory at the same time.")
    baseline_samples: int = Field(
        default=60,
        ge=10,
        le=1_000_000,
        description=(
            "Judged answers after which a series first says what is normal; again with every doubling."
        ),
    )
    min_drop: float = Field(
        default=0.1,
        gt=0,
        le=5,
        description=(
            "Smallest fall of a mean that matters, in points of a scale five wide; elsewhere in proportion."
        ),
    )
    min_share_rise: float = Field(
        default=0.02, gt=0, lt=1, description="Smallest rise of the share of low scores that matters."
    )
    shares: dict[MetricName, Annotated[tuple[float, ...], Field(max_length=8)]] = Field(
        default_factory=dict,
        description="By metric, the levels of which the share of scores at or below is watched; by default "
        "one, the "
        "lowest third of the scale. An empty list watches the mean alone.",
    )
    label_shares: dict[MetricName, dict[LabelValue, Literal["up", "down"]]] = Field(
        default_factory=dict,
        description="By metric that gives labels (or true and false), the labels whose share is watched, and "
        "which way is worse: {refusal: {refused: up}} calls it when more answers refuse.",
    )
    targets: dict[MetricName, float] = Field(
        default_factory=dict,
        description="By metric, the lowest mean that is all right, in points; in place of a learned one.",
    )
    objectives: dict[MetricName, ObjectiveSettings] = Field(
        default_factory=dict,
        description="By metric, what share of the answers has to score how much; alerts tell how fast the "
        "rest, which is the error budget, is spent.",
    )
    samples_per_false_alarm: int = Field(
        default=20_000,
        ge=100,
        le=1_000_000_000,
        description="Judged answers of a metric for each false alarm that is allowed.",
    )
    window_seconds: float = Field(
        default=3600, gt=0, le=604_800, description="Length of the sliding window that the live page shows."
    )
