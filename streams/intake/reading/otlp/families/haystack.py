"""The table of Haystack's own tracer."""

from __future__ import annotations

from typing import Final

from streams.intake.reading.otlp.families.family import Family

HAYSTACK: Final = Family(
    name="haystack",
    version="2",
    marks=("haystack",),
    kinds={
        "haystack.component.type": {
            "agent": "agent",
            "*generator": "model",
            "*retriever": "retrieval",
            "*ranker": "rerank",
            "*promptbuilder": "prompt",
            "*embedder": "embedding",
            "*evaluator": "evaluation",
        }
    },
    given=("haystack.component.input", "haystack.agent.input", "haystack.pipeline.input_data"),
    gave=("haystack.component.output", "haystack.agent.output", "haystack.pipeline.output_data"),
    query=("haystack.component.input",),
    capture="set HAYSTACK_CONTENT_TRACING_ENABLED=true",
)
