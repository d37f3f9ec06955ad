"""The table of OpenInference."""

from __future__ import annotations

from typing import Final

from streams.intake.reading.otlp.families.family import Family

OPENINFERENCE: Final = Family(
    name="openinference",
    version="2026-11",
    marks=("openinference",),
    scopes=("openinference",),
    kinds={
        "openinference.span.kind": {
            "llm": "model",
            "agent": "agent",
            "chain": "chain",
            "prompt": "prompt",
            "retriever": "retrieval",
            "reranker": "rerank",
            "tool": "tool",
            "embedding": "embedding",
            "evaluator": "evaluation",
            "guardrail": "evaluation",
        }
    },
    given=("input.value",),
    gave=("output.value",),
    heard_flat=("llm.input_messages", "llm.prompts"),
    said_flat=("llm.output_messages", "llm.choices"),
    documents=("retrieval.documents", "reranker.output_documents"),
    documents_flat=("retrieval.documents", "reranker.output_documents"),
    variables=("llm.prompt_template.variables",),
    tool_name=("tool.name",),
    tool_arguments=("input.value", "tool.parameters"),
    tool_result=("output.value",),
    model=("llm.model_name",),
    conversation=("session.id",),
    query=("input.value", "reranker.query"),
    labels={
        "llm.prompt_template.version": "prompt_version",
        "agent.name": "agent",
        "llm.provider": "provider",
    },
    label_maps=("metadata",),
    capture="remove OPENINFERENCE_HIDE_INPUTS, OPENINFERENCE_HIDE_OUTPUTS "
    "and the other OPENINFERENCE_HIDE_* variables",
)
