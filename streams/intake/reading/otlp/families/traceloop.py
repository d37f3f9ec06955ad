"""The table of Traceloop (OpenLLMetry)."""

from __future__ import annotations

from typing import Final

from streams.intake.reading.otlp.families.family import Family

TRACELOOP: Final = Family(
    name="traceloop",
    version="0.62",
    marks=("traceloop",),
    # OpenTelemetry's own instrumentations have similar names, with `genai` or `_v2` in them.
    scopes=(
        "traceloop",
        *(
            f"opentelemetry.instrumentation.{library}"
            for library in (
                "alephalpha",
                "anthropic",
                "bedrock",
                "chromadb",
                "cohere",
                "crewai",
                "google_generativeai",
                "groq",
                "haystack",
                "langchain",
                "llamaindex",
                "mistralai",
                "ollama",
                "openai",
                "openai_agents",
                "replicate",
                "sagemaker",
                "together",
                "transformers",
                "watsonx",
            )
        ),
    ),
    kinds={
        "traceloop.span.kind": {"workflow": "workflow", "agent": "agent", "task": "chain", "tool": "tool"},
        "llm.request.type": {
            "chat": "model",
            "completion": "model",
            "rerank": "rerank",
            "embedding": "embedding",
        },
    },
    given=("traceloop.entity.input", "gen_ai.task.input", "crewai.task.description"),
    gave=(
        "traceloop.entity.output",
        "gen_ai.task.output",
        "crewai.crew.result",
        "crewai.task.result",
        "crewai.agent.result",
    ),
    heard_flat=("gen_ai.prompt", "llm.prompts"),
    said_flat=("gen_ai.completion", "llm.completions"),
    variables=("traceloop.prompt.template_variables",),
    variables_flat=("traceloop.prompt.template_variables.",),
    tool_name=("traceloop.entity.name",),
    tool_arguments=("traceloop.entity.input",),
    tool_result=("traceloop.entity.output",),
    model=("gen_ai.response.model", "llm.response.model", "gen_ai.request.model", "llm.request.model"),
    conversation=(
        "traceloop.association.properties.session_id",
        "traceloop.association.properties.conversation_id",
        "traceloop.association.properties.thread_id",
        "traceloop.association.properties.chat_id",
    ),
    labels={
        "llm.vendor": "provider",
        "traceloop.prompt.key": "prompt",
        "traceloop.prompt.version": "prompt_version",
    },
    label_prefixes=("traceloop.association.properties.",),
    capture="set TRACELOOP_TRACE_CONTENT=true, which is the default",
)
