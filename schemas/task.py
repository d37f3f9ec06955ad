"""JudgeTask: one sampled answer to be judged by one metric. Topics `judge.tasks.<metric>`."""

from __future__ import annotations

import hashlib
import json
from typing import Final, Literal

from pydantic import Field

from schemas.base import EventId, Message, MetricName, Source, Timestamp
from schemas.event import ChatMessage, Labels, ToolCall

BURST: Final = "burst-"
ANCHOR: Final = "anchor-"
"""Beginnings of the replay ids of tasks that the monitor writes, to have answers judged again."""


class Sampling(Message):
    """Why this event was sampled, and with which probability."""

    probability: float = Field(gt=0, le=1, description="Inclusion probability of this event for this metric.")
    stratum: str = Field(description='The matching sampling rule, or "default".')
    policy: str = Field(description="Name of the sampling policy.")
    cluster: str | None = Field(
        default=None,
        pattern=r"^[0-9a-f]{14}$",
        description="Hash of the record's key, if that decided: answers with one hash were sampled together.",
    )


class JudgeTask(Message):
    """The parts of an event that one metric needs.

    For relevance `context` has only the cited pages: `{}` if none of them was given, `None` if the event has
    no pages.
    """

    schema_version: Literal[1] = 1
    result_id: str = Field(pattern=r"^[0-9a-f]{32}$", description="The id of the result.")
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
        description="The named texts and labels (`labels.<name>`) that the metric uses; empty if the "
        "event has none of that name.",
    )
    sampling: Sampling
    occurred_at: Timestamp
    sampled_at: Timestamp


_ID_PARTS = json.JSONEncoder(ensure_ascii=True, separators=(",", ":"))
# Created once, because `json.dumps` with these arguments creates one per call, which dominates the time of an
# id.


def is_rejudged(replay_id: str | None) -> bool:
    """Whether the monitor asked for this judgement: past the cache, and in no live number."""
    return replay_id is not None and replay_id.startswith((BURST, ANCHOR))


def result_id(*, topic: str, event_id: str, metric: str, replay_id: str | None) -> str:
    """Return the deterministic id of a result: 32 hexadecimal digits."""
    parts = _ID_PARTS.encode([topic, event_id, metric, replay_id])
    return hashlib.sha256(parts.encode()).hexdigest()[:32]
