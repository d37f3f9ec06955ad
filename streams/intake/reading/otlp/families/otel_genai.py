"""The table of OpenTelemetry's conventions for generative AI."""

from __future__ import annotations

from typing import Final

from streams.intake.reading.otlp.families.family import Family

OTEL: Final = Family(
    name="otel-genai",
    version="1.28-1.41",
    marks=("gen_ai",),
    kinds={
        "gen_ai.operation.name": {
            "chat": "model",
            "text_completion": "model",
            "generate_content": "model",
            "call_llm": "model",
            "completion": "model",
            "responses": "model",
            "invoke_agent": "agent",
            "create_agent": "other",
            "invoke_workflow": "workflow",
            "agent_step": "chain",
            "execute_task": "chain",
            "plan": "chain",
            "execute_tool": "tool",
            "retrieval": "retrieval",
            "vector_db_retrieve": "retrieval",
            "rerank": "rerank",
            "embeddings": "embedding",
            "embedding": "embedding",
            "evaluate": "evaluation",
        }
    },
    heard=(
        "gen_ai.input.messages",
        "gen_ai.prompt",
        "gen_ai.input",
        "gen_ai.content.prompt",
        "gcp.vertex.agent.llm_request",
    ),
    said=(
        "gen_ai.output.messages",
        "gen_ai.completion",
        "gen_ai.output",
        "gen_ai.content.completion",
        "gcp.vertex.agent.llm_response",
    ),
    heard_flat=("gen_ai.prompt",),
    said_flat=("gen_ai.completion",),
    system=("gen_ai.system_instructions", "system_prompt"),
    query=("gen_ai.retrieval.query.text",),
    documents=("gen_ai.retrieval.documents",),
    variables_flat=("gen_ai.prompt.variable.",),
    tool_name=("gen_ai.tool.name",),
    tool_arguments=("gen_ai.tool.call.arguments", "gcp.vertex.agent.tool_call_args"),
    tool_result=("gen_ai.tool.call.result", "gcp.vertex.agent.tool_response", "code.function.return.value"),
    model=("gen_ai.response.model", "gen_ai.request.model"),
    conversation=("gen_ai.conversation.id", "gcp.vertex.agent.session_id"),
    labels={
        "gen_ai.prompt.name": "prompt",
        "gen_ai.prompt.version": "prompt_version",
        "gen_ai.agent.name": "agent",
        "gen_ai.provider.name": "provider",
        "gen_ai.system": "provider",
    },
    capture="set OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=SPAN_ONLY "
    "(true for older instrumentations) and OTEL_SEMCONV_STABILITY_OPT_IN=gen_ai_latest_experimental",
)
