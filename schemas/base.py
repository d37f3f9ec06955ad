"""What every message has in common."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, StringConstraints

MAX_LABELS = 32
"""Labels an event may carry."""
MAX_LABEL_NAME_CHARS = 64
MAX_LABEL_VALUE_CHARS = 200

CLUSTERED_POLICY = "by-key-"
"""How the names of sampling policies begin that keep or leave all events of a record key together."""

EventId = Annotated[str, StringConstraints(min_length=1, max_length=200)]
"""Identifies one answered question; 1 to 200 characters."""
LabelName = Annotated[str, StringConstraints(min_length=1, max_length=MAX_LABEL_NAME_CHARS)]
LabelValue = Annotated[str, StringConstraints(max_length=MAX_LABEL_VALUE_CHARS)]
MetricName = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_-]{0,63}$")]
"""A metric's name is also the end of its task topic's name, hence the narrow alphabet."""
FieldName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_-]{0,63}$")]
"""Name of a text in an event's `fields`."""
EventField = Literal["question", "answer", "reference", "context", "messages", "tool_calls", "other_answer"]
"""Fields of an event that a condition may ask for."""
SamplingKey = Literal["auto", "record_key"]
"""Where the randomness of sampling comes from: trace context, else event id; or the record's key."""
Upstream = Literal["equalize", "proportional", "ignore"]
"""What sampling makes of a sampler that decided before it: the higher threshold of both, our share of what it
left, nothing."""
DEFAULT_STRATUM: Final = "default"
"""Stratum of the events that no sampling rule matches."""


def _bounded(labels: dict[str, str]) -> dict[str, str]:
    if len(labels) > MAX_LABELS:
        raise ValueError(f"labels must hold at most {MAX_LABELS} entries, got {len(labels)}; drop some")
    return labels


Labels = Annotated[dict[LabelName, LabelValue], AfterValidator(_bounded)]
Timestamp = AwareDatetime
"""A moment with its offset from UTC (RFC 3339)."""


class Message(BaseModel):
    """Frozen. Unknown fields are ignored, so that a newer writer does not stop an older reader."""

    model_config = ConfigDict(
        frozen=True,
        extra="ignore",
        allow_inf_nan=False,
        serialize_by_alias=True,
        validate_by_name=True,
        # Every field is always written, so a reader of the published schema may rely on it.
        json_schema_serialization_defaults_required=True,
    )


class Source(Message):
    """The record that an event came in."""

    topic: str
    partition: int
    offset: int
