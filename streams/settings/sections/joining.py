"""Sections `ingest.otlp` and `ingest.conversations`: when what comes in several records is closed."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from streams.settings.base import Section, refuse


class OtlpSettings(Section):
    """How traces become events (`ingest.format: otlp`)."""

    unit: Literal["trace", "span"] = Field(
        default="trace",
        description="trace: one event a trace; its spans are joined, so the topic's key must be the trace id "
        "(partition_traces_by_id of the Collector's Kafka exporter). span: one event a model's call, "
        "without a join.",
    )
    grace_seconds: float = Field(
        default=5, ge=0, le=600, description="A trace is closed so long after its root span came."
    )
    idle_seconds: float = Field(
        default=60,
        gt=0,
        le=86_400,
        description="A trace without its root is closed when nothing came for so long.",
    )
    max_seconds: float = Field(
        default=600,
        gt=0,
        le=86_400,
        description="A trace is closed so long after its first span, whatever comes.",
    )
    max_traces: int = Field(
        default=20_000, ge=1, le=10_000_000, description="Open traces; above it the oldest are closed early."
    )
    max_bytes: int = Field(
        default=134_217_728,
        ge=1_048_576,
        le=17_179_869_184,
        description="Bytes of records with open traces; above it the oldest traces are closed early.",
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
        default=300, gt=0, le=86_400, description="A conversation is closed when nothing came for so long."
    )
    max_seconds: float = Field(
        default=3600,
        gt=0,
        le=86_400,
        description="It is closed so long after its first event, whatever comes. Offsets are held for no "
        "longer.",
    )
    max_open: int = Field(
        default=20_000,
        ge=1,
        le=10_000_000,
        description="Open conversations; above it the oldest are closed early.",
    )
    max_bytes: int = Field(
        default=134_217_728,
        ge=1_048_576,
        le=17_179_869_184,
        description="Bytes of records with open conversations; above it the oldest are closed early.",
    )

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.max_seconds < self.idle_seconds:
            what = (
                f"must be at least idle_seconds ({self.idle_seconds:g}), got {self.max_seconds:g}; raise it"
            )
            refuse([("max_seconds", what)])
        return self
