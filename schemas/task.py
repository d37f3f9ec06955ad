"""JudgeTask: one sampled answer in transit to one metric. Topics `judge.tasks.<metric>`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from schemas.base import EventId, Labels, Message, MetricName, Source, Timestamp
from schemas.event import ChatMessage, ToolCall


class Sampling(Message):
    """Why this event is in the sample, and with which chance."""

    probability: float = Field(gt=0, le=1, description="Inclusion probability of this event for this metric.")
    stratum: str = Field(description='The sampling rule that spoke, or "default".')
    policy: str = Field(description="Names the sampling policy that decided.")


class JudgeTask(Message):
    """What one metric needs to judge one answer, and no more.

    For relevance `context` holds the cited pages alone: `{}` means that pages were given and none of the
    cited ones is among them, `None` that the event came without pages.
    """

    schema_version: Literal[1] = 1
    result_id: str = Field(pattern=r"^[0-9a-f]{32}$", description="The id that the result will have.")
    event_id: EventId
    metric: MetricName
    replay_id: str | None = None
    source: Source
    trace_id: str | None = None
    span_id: str | None = None
    labels: Labels = Field(default_factory=dict)
    question: str
    answer: str
    reference: str | None = None
    context: dict[str, str] | None = None
    messages: tuple[ChatMessage, ...] | None = None
    tool_calls: tuple[ToolCall, ...] | None = None
    other_answer: str | None = None
    fields: dict[str, str] | None = Field(
        default=None,
        description="The named texts and, as `labels.<name>`, the labels that the metric shows its "
        "judge; empty where the event "
        "has none of the name.",
    )
    sampling: Sampling
    occurred_at: Timestamp
    sampled_at: Timestamp
