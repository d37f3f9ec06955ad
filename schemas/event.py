"""QAEvent: a question that was answered in production. Topic `qa.events`."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from schemas.base import EventId, Labels, Timestamp


class QAEvent(BaseModel):
    """One answered question, as a product emits it.

    Fields that are not declared here are ignored: producers add to their events at will.
    Blank texts are accepted: whether a metric can judge without them is the metric's to say.
    """

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)

    event_id: EventId = Field(description="Identifies the answer; the same id again is the same answer.")
    occurred_at: Timestamp | None = Field(
        default=None, description="When the answer was given (RFC 3339); else the record's timestamp."
    )
    question: str = Field(description="What the user asked.")
    answer: str = Field(description="What the product answered.")
    reference: str | None = Field(default=None, description="A known good answer (for coverage).")
    context: dict[str, str] | None = Field(
        default=None, description='The pages the answer may cite: {"Page-1": text, ...} (for relevance).'
    )
    trace_id: str | None = Field(default=None, pattern=r"^[0-9a-f]{32}$", description="W3C trace id.")
    span_id: str | None = Field(default=None, pattern=r"^[0-9a-f]{16}$", description="W3C span id.")
    tracestate: str | None = Field(default=None, max_length=512, description="W3C tracestate.")
    labels: Labels = Field(
        default_factory=dict, description="Short strings to group by: app, tenant, model, prompt_version, ..."
    )
