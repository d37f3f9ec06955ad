"""Common parts of all messages."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, StringConstraints

MAX_LABEL_NAME_CHARS = 64
MAX_LABEL_VALUE_CHARS = 200

CLUSTERED_POLICY = "by-key-"
"""Prefix of sampling policies that sample by record key."""

EventId = Annotated[str, StringConstraints(min_length=1, max_length=200)]
"""Identifies one answered question; 1 to 200 characters."""
LabelName = Annotated[str, StringConstraints(min_length=1, max_length=MAX_LABEL_NAME_CHARS)]
LabelValue = Annotated[str, StringConstraints(max_length=MAX_LABEL_VALUE_CHARS)]
MetricName = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_-]{0,63}$")]
"""A metric's name is part of its task topic's name, hence the restricted characters."""
FieldName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_-]{0,63}$")]
"""Name of a text in an event's `fields`."""
EventField = Literal["question", "answer", "reference", "context", "messages", "tool_calls", "other_answer"]
"""Fields of an event that conditions may use."""
SamplingKey = Literal["auto", "record_key"]
"""Source of randomness for sampling: trace context, else event id; or the record's key."""
Upstream = Literal["equalize", "proportional", "ignore"]
"""How an earlier sampler is taken into account: the higher of both thresholds, a share of what it kept, or
not at all."""
DEFAULT_STRATUM: Final = "default"
"""Stratum of events that match no sampling rule."""
Timestamp = AwareDatetime
"""A timestamp with its UTC offset (RFC 3339)."""


class Message(BaseModel):
    """Base class of messages: frozen; unknown fields are ignored, for messages of newer versions."""

    model_config = ConfigDict(
        frozen=True,
        extra="ignore",
        allow_inf_nan=False,
        serialize_by_alias=True,
        validate_by_name=True,
        # All fields are always written, and therefore required in the published schema.
        json_schema_serialization_defaults_required=True,
    )


class Source(Message):
    """The record of an event."""

    topic: str
    partition: int
    offset: int
