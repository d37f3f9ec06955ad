"""The table of Langfuse."""

from __future__ import annotations

from typing import Final

from streams.intake.reading.otlp.families.family import Family

LANGFUSE: Final = Family(
    name="langfuse",
    version="5.0",
    marks=("langfuse",),
    scopes=("langfuse-sdk", "langfuse-tracer"),
    kinds={
        "langfuse.observation.type": {
            "generation": "model",
            "agent": "agent",
            "tool": "tool",
            "chain": "chain",
            "span": "chain",
            "retriever": "retrieval",
            "embedding": "embedding",
            "evaluator": "evaluation",
            "guardrail": "evaluation",
            "event": "other",
        }
    },
    given=("langfuse.observation.input", "langfuse.trace.input"),
    gave=("langfuse.observation.output", "langfuse.trace.output"),
    system=("langfuse.observation.metadata.instructions",),
    reference=("langfuse.experiment.item.expected_output",),
    model=("langfuse.observation.model.name",),
    conversation=("langfuse.session.id", "session.id"),
    labels={
        "langfuse.observation.prompt.name": "prompt",
        "langfuse.observation.prompt.version": "prompt_version",
        "langfuse.environment": "environment",
        "langfuse.release": "app_version",
        "langfuse.version": "version",
        "langfuse.trace.name": "trace",
    },
    label_prefixes=("langfuse.trace.metadata.",),
    label_maps=("langfuse.trace.metadata",),
    capture="Langfuse records content by default; remove capture_input=False and "
    "capture_output=False of @observe, and LANGFUSE_OBSERVE_DECORATOR_IO_CAPTURE_ENABLED=false",
)
