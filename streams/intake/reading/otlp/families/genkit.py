"""The table of Genkit."""

from __future__ import annotations

from typing import Final

from streams.intake.reading.otlp.families.family import Family

GENKIT: Final = Family(
    name="genkit",
    version="1",
    marks=("genkit:type",),
    scopes=("genkit-tracer",),
    kinds={
        "genkit:metadata:subtype": {
            "flow": "workflow",
            "model": "model",
            "retriever": "retrieval",
            "reranker": "rerank",
            "tool": "tool",
            "embedder": "embedding",
            "evaluator": "evaluation",
        },
        "genkit:type": {"util": "agent", "flowstep": "chain", "prompttemplate": "prompt"},
    },
    given=("genkit:input",),
    gave=("genkit:output",),
    query=("genkit:input",),
    tool_name=("genkit:name",),
    tool_arguments=("genkit:input",),
    tool_result=("genkit:output",),
    model=("genkit:name",),
    conversation=("genkit:sessionId",),
    capture="Genkit records content by default; keep genkit:input and genkit:output in span processors",
)
