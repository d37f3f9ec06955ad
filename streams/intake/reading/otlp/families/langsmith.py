"""The table of LangSmith, as its SDK exports runs to OpenTelemetry."""

from __future__ import annotations

from typing import Final

from streams.intake.reading.otlp.families.family import Family

LANGSMITH: Final = Family(
    name="langsmith",
    version="0.4",
    marks=("langsmith",),
    kinds={
        "langsmith.span.kind": {
            "llm": "model",
            "chain": "chain",
            "parser": "chain",
            "prompt": "prompt",
            "retriever": "retrieval",
            "tool": "tool",
            "embedding": "embedding",
        }
    },
    given=("gen_ai.prompt",),
    gave=("gen_ai.completion",),
    conversation=(
        "langsmith.trace.session_id",
        "langsmith.metadata.session_id",
        "langsmith.metadata.thread_id",
    ),
    label_prefixes=("langsmith.metadata.",),
    capture="remove LANGSMITH_HIDE_INPUTS and LANGSMITH_HIDE_OUTPUTS",
)
