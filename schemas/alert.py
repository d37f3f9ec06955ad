"""Alert: a drop in live quality that the monitor called. Topic `qa.alerts`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from schemas.base import Labels, Message, MetricName, Timestamp


class Estimate(Message):
    """A weighted mean with its uncertainty."""

    mean: float
    low: float = Field(description="Lower end of the 95% confidence interval.")
    high: float = Field(description="Upper end of the 95% confidence interval.")
    count: int = Field(ge=0, description="Judged samples.")
    effective_count: float = Field(ge=0, description="Effective sample size, (sum w)^2 / sum w^2.")
    missing_strata: tuple[str, ...] = Field(
        default=(), description="Sampling rules that had answers in the past week and none here."
    )
    clustered: bool = Field(
        default=False,
        description="Sampled by record key: answers of one key come together, so the interval is too narrow.",
    )


class Alert(Message):
    """One metric dropped, for all events or for those with some labels."""

    schema_version: Literal[1] = 1
    alert_id: str
    kind: Literal["drop", "recovered"]
    metric: MetricName
    labels: Labels = Field(default_factory=dict, description="The part of the traffic; empty for all of it.")
    measure: str = Field(
        default="mean",
        description='What fell: "mean", "mix" (the plain mean, moved by a change of the mix of labels), or a '
        "share "
        'such as "share_at_most_2", which rose.',
    )
    further: bool = Field(default=False, description="A further fall of what had dropped already.")
    fingerprint: str = Field(description="The evaluator whose numbers these are.")
    model: str = Field(description="The judge model.")
    summary: str = Field(description="One sentence for a person who has just been woken.")
    baseline: Estimate = Field(description="Before the drop.")
    current: Estimate = Field(description="Since about when the drop began.")
    statistic: float = Field(ge=0, description="The detector's statistic.")
    threshold: float = Field(gt=0, description="The level at which it calls a drop.")
    detector: str = Field(description="Name and version of the test.")
    started_at: Timestamp = Field(description="When the drop seems to have begun.")
    raised_at: Timestamp
    example_event_ids: tuple[str, ...] = Field(default=(), description="Some of the worst answers since.")
    link: str | None = Field(
        default=None,
        description="Where its incident is shown; null where store.explorer_url is not set.",
    )
