"""Sections `ingest.otlp` and `ingest.conversations`: when an event of several records is closed."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from streams.settings.base import Section, refuse


class OtlpSettings(Section):
    """How traces become events (`ingest.format: otlp`)."""

    unit: Literal["trace", "span"] = Field(
        default="trace",
        description="trace: one event per trace; spans are joined, so records must be keyed by trace id "
        "(partition_traces_by_id of the Collector's Kafka exporter). span: one event per model call, "
        "without a join.",
    )
    grace_seconds: float = Field(
        default=5, ge=0, le=600, description="Time from a trace's root span until the trace is closed."
    )
    idle_seconds: float = Field(
        default=60,
        gt=0,
        le=86_400,
        description="Idle time after which a trace without a root span is closed.",
    )
    max_seconds: float = Field(
        default=600,
        gt=0,
        le=86_400,
        description="Maximum age of a trace, from its first span.",
    )
    max_traces: int = Field(
        default=20_000,
        ge=1,
        le=10_000_000,
        description="Maximum number of open traces; above it the oldest are closed early.",
    )
    max_bytes: int = Field(
        default=134_217_728,
        ge=1_048_576,
        le=17_179_869_184,
        description="Maximum bytes of records with open traces; above it the oldest traces are closed early.",
    )

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        shortest = max(self.grace_seconds, self.idle_seconds)
        if self.max_seconds < shortest:
            what = (
                f"must be at least grace_seconds and idle_seconds ({shortest:g}), got "
                f"{self.max_seconds:g}; raise it"
            )
            refuse([("max_seconds", what)])
        return self


class ConversationSettings(Section):
    """When a conversation is judged (metrics with `unit: conversation`)."""

    idle_seconds: float = Field(
        default=300, gt=0, le=86_400, description="Idle time after which a conversation is closed."
    )
    max_seconds: float = Field(
        default=3600,
        gt=0,
        le=86_400,
        description="Maximum age of a conversation, from its first event. Offsets are held no longer than "
        "this.",
    )
    max_open: int = Field(
        default=20_000,
        ge=1,
        le=10_000_000,
        description="Maximum number of open conversations; above it the oldest are closed early.",
    )
    max_bytes: int = Field(
        default=134_217_728,
        ge=1_048_576,
        le=17_179_869_184,
        description="Maximum bytes of records with open conversations; above it the oldest are closed early.",
    )

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.max_seconds < self.idle_seconds:
            what = (
                f"must be at least idle_seconds ({self.idle_seconds:g}), got {self.max_seconds:g}; raise it"
            )
            refuse([("max_seconds", what)])
        return self
