"""Alert: a drop in live quality, detected by the monitor. Topic `qa.alerts`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from schemas.base import Message, MetricName, Timestamp
from schemas.event import Labels


class Estimate(Message):
    """A weighted mean with its uncertainty."""

    mean: float
    low: float = Field(description="Lower end of the 95% confidence interval.")
    high: float = Field(description="Upper end of the 95% confidence interval.")
    count: int = Field(ge=0, description="Judged samples.")
    effective_count: float = Field(ge=0, description="Effective sample size, (sum w)^2 / sum w^2.")
    missing_strata: tuple[str, ...] = Field(
        default=(), description="Sampling rules with answers in the past week and none in this window."
    )
    clustered: bool = Field(
        default=False,
        description="Sampled by record key: answers of one key correlate, and effective_count is in keys.",
    )


class Shift(Message):
    """By how many points something became worse, with its uncertainty; negative: better."""

    mean: float
    low: float = Field(description="Lower end of the 97.5% confidence interval.")
    high: float = Field(description="Upper end of the 97.5% confidence interval.")
    count: int = Field(ge=0, description="Answers compared.")


class Word(Message):
    """Whether the product or the judge moved, from old answers judged again and live ones."""

    said: Literal["product", "judge", "both", "unclear"]
    judge: Shift | None = Field(description="How much worse the judge scores old answers than it did then.")
    product: Shift | None = Field(
        description="How much worse live answers are than usual, without the judge's part."
    )
    product_is_fine: bool = Field(description="Whether the answers are certainly not notably worse.")
    decided_at: Timestamp
    text: str = Field(description="The word in one sentence, with both intervals.")


class Alert(Message):
    """A drop of one metric, for all events or for those with certain labels."""

    schema_version: Literal[1] = 1
    alert_id: str
    kind: Literal["drop", "recovered"]
    metric: MetricName
    labels: Labels = Field(default_factory=dict, description="The slice of the traffic; empty: all of it.")
    measure: str = Field(
        default="mean",
        description='The statistic: "mean", "mix" (the plain mean, changed by the mix of labels), or a share '
        'such as "share_at_most_2", which rose.',
    )
    further: bool = Field(default=False, description="A further fall after an earlier drop.")
    fingerprint: str = Field(description="The evaluator of the scores.")
    model: str = Field(description="The judge model.")
    summary: str = Field(description="Summary in one sentence.")
    baseline: Estimate = Field(description="Before the drop.")
    current: Estimate = Field(description="Since about when the drop began.")
    statistic: float = Field(ge=0, description="The detector's statistic.")
    threshold: float = Field(gt=0, description="The threshold of the evidence.")
    detector: str = Field(description="Name and version of the test.")
    started_at: Timestamp = Field(description="Estimated start of the drop.")
    raised_at: Timestamp
    example_event_ids: tuple[str, ...] = Field(
        default=(), description="Some of the worst answers since then."
    )
    incident_id: str | None = Field(
        default=None,
        description="The incident that the monitor knows it to be part of; one of several workers may know "
        "another alert of the same incident, which leads to it as well.",
    )
    word: Word | None = Field(
        default=None,
        description="What moved. It comes later: then the alert is published again, under the same id.",
    )
    link: str | None = Field(
        default=None,
        description="Address of its incident in the explorer; null if store.explorer_url is not set.",
    )
