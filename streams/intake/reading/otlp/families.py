"""Which attribute means what, one table a family of instrumentations.

Written from the conventions, not from examples: OpenTelemetry's `semantic-conventions-genai` (still in development) with the
forms it replaced, OpenInference's `spec/`, Traceloop's `semconv_ai`, Langfuse's `LangfuseOtelSpanAttributes`, the telemetry
of Vercel's AI SDK 3 to 7 and of Pydantic AI (instrumentation versions 1 to 5). A table's version changes with its content.
Spans often carry attributes of several families (Traceloop writes `gen_ai.*`, too): all tables that fit are asked in this
order, and the first that knows a field is believed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

Kind = Literal[
    "workflow",
    "agent",
    "model",
    "chain",
    "prompt",
    "retrieval",
    "rerank",
    "tool",
    "embedding",
    "evaluation",
    "other",
]
"""What a span stands for. workflow: the application's own work on one question; chain: a step of it."""

_Names = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """The attributes of one family of instrumentations.

    Attributes:
        name: As the label `instrumentation` names it.
        version: Changes when the table changes.
        marks: First parts of attribute names, up to the full stop, that only this family uses.
        scopes: Names of instrumentations, or their first parts up to a full stop.
        kinds: By attribute, which value stands for which kind.
        given, gave: Input and output of a step, in whatever form the application has them.
        heard, said: Messages to and from a model, as one attribute.
        heard_flat, said_flat: The same, spread over attributes with these beginnings.
        system: The system instruction, beside the messages.
        question, answer, context, reference: What an application says outright.
        query: What was searched for.
        documents: What was found, as one attribute.
        documents_flat: The same, spread over attributes with these beginnings.
        variables: Variables of a prompt's template, as one attribute.
        variables_flat: The same, spread over attributes with these beginnings.
        tool_name, tool_arguments, tool_result, called: A tool's span, and the calls that a model's span asks for.
        model: Who answered.
        conversation: The conversation it belongs to.
        labels: Attribute to label.
        label_prefixes: Beginnings of attributes that become labels by the rest of their name.
        label_maps: Attributes that hold a mapping of labels.
        capture: How a team switches the capture of content on.
    """

    name: str
    version: str
    marks: _Names = ()
    scopes: _Names = ()
    kinds: Mapping[str, Mapping[str, Kind]] = field(default_factory=dict)
    given: _Names = ()
    gave: _Names = ()
    heard: _Names = ()
    said: _Names = ()
    heard_flat: _Names = ()
    said_flat: _Names = ()
    system: _Names = ()
    question: _Names = ()
    answer: _Names = ()
    context: _Names = ()
    reference: _Names = ()
    query: _Names = ()
    documents: _Names = ()
    documents_flat: _Names = ()
    variables: _Names = ()
    variables_flat: _Names = ()
    tool_name: _Names = ()
    tool_arguments: _Names = ()
    tool_result: _Names = ()
    called: _Names = ()
    model: _Names = ()
    conversation: _Names = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    label_prefixes: _Names = ()
    label_maps: _Names = ()
    capture: str = ""


OWN: Final = Family(
    name="judgestream",
    version="1",
    marks=("judgestream",),
    question=("judgestream.question",),
    answer=("judgestream.answer",),
    context=("judgestream.context",),
    reference=("judgestream.reference",),
    conversation=("judgestream.conversation_id",),
    label_prefixes=("judgestream.label.",),
)

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
    capture="Langfuse records content by default; remove capture_input=False and capture_output=False of @observe, and "
    "LANGFUSE_OBSERVE_DECORATOR_IO_CAPTURE_ENABLED=false",
)

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
    capture="remove OPENINFERENCE_HIDE_INPUTS, OPENINFERENCE_HIDE_OUTPUTS and the other OPENINFERENCE_HIDE_* variables",
)

VERCEL: Final = Family(
    name="vercel-ai",
    version="3-7",
    marks=("ai",),
    scopes=("ai", "gen_ai"),
    kinds={
        "ai.operationId": {
            "ai.generatetext": "agent",
            "ai.streamtext": "agent",
            "ai.generateobject": "agent",
            "ai.streamobject": "agent",
            "ai.generatetext.dogenerate": "model",
            "ai.streamtext.dostream": "model",
            "ai.generateobject.dogenerate": "model",
            "ai.streamobject.dostream": "model",
            "ai.toolcall": "tool",
            "ai.embed": "embedding",
            "ai.embedmany": "embedding",
            "ai.embed.doembed": "embedding",
            "ai.embedmany.doembed": "embedding",
            "ai.rerank": "rerank",
            "ai.rerank.dorerank": "rerank",
        }
    },
    heard=("ai.prompt.messages", "ai.prompt"),
    said=("ai.response.text", "ai.result.text", "ai.response.object", "ai.result.object"),
    called=("ai.response.toolCalls", "ai.result.toolCalls"),
    tool_name=("ai.toolCall.name",),
    tool_arguments=("ai.toolCall.args", "ai.toolCall.input"),
    tool_result=("ai.toolCall.result", "ai.toolCall.output"),
    model=("ai.response.model", "ai.model.id"),
    conversation=("ai.telemetry.metadata.sessionId", "ai.telemetry.metadata.conversationId"),
    labels={"ai.telemetry.functionId": "function", "ai.model.provider": "provider"},
    label_prefixes=("ai.telemetry.metadata.", "ai.settings.context."),
    capture="set experimental_telemetry (telemetry in AI SDK 7) to {isEnabled: true, recordInputs: true, recordOutputs: true}",
)

PYDANTIC_AI: Final = Family(
    name="pydantic-ai",
    version="1-5",
    marks=("pydantic_ai", "final_result", "all_messages_events", "model_request_parameters"),
    scopes=("pydantic-ai",),
    given=("prompt",),
    gave=("final_result",),
    heard=("pydantic_ai.all_messages", "all_messages_events", "events"),
    tool_arguments=("tool_arguments",),
    tool_result=("tool_response",),
    model=("model_name",),
    labels={"agent_name": "agent"},
    capture="set InstrumentationSettings(include_content=True), which is the default",
)

TRACELOOP: Final = Family(
    name="traceloop",
    version="0.62",
    marks=("traceloop",),
    # Named as OpenTelemetry's own instrumentations are, which have `genai` or an `_v2` in their names.
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
    given=("traceloop.entity.input", "gen_ai.task.input"),
    gave=("traceloop.entity.output", "gen_ai.task.output"),
    heard_flat=("gen_ai.prompt", "llm.prompts"),
    said_flat=("gen_ai.completion", "llm.completions"),
    variables=("traceloop.prompt.template_variables",),
    variables_flat=("traceloop.prompt.template_variables.",),
    tool_name=("traceloop.entity.name",),
    tool_arguments=("traceloop.entity.input",),
    tool_result=("traceloop.entity.output",),
    conversation=(
        "traceloop.association.properties.session_id",
        "traceloop.association.properties.conversation_id",
        "traceloop.association.properties.thread_id",
        "traceloop.association.properties.chat_id",
    ),
    labels={"traceloop.prompt.key": "prompt", "traceloop.prompt.version": "prompt_version"},
    label_prefixes=("traceloop.association.properties.",),
    capture="set TRACELOOP_TRACE_CONTENT=true, which is the default",
)

OTEL: Final = Family(
    name="otel-genai",
    version="1.28-1.41",
    marks=("gen_ai",),
    kinds={
        "gen_ai.operation.name": {
            "chat": "model",
            "text_completion": "model",
            "generate_content": "model",
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
    heard=("gen_ai.input.messages", "gen_ai.prompt", "gen_ai.input"),
    said=("gen_ai.output.messages", "gen_ai.completion", "gen_ai.output"),
    heard_flat=("gen_ai.prompt",),
    said_flat=("gen_ai.completion",),
    system=("gen_ai.system_instructions",),
    query=("gen_ai.retrieval.query.text",),
    documents=("gen_ai.retrieval.documents",),
    variables_flat=("gen_ai.prompt.variable.",),
    tool_name=("gen_ai.tool.name",),
    tool_arguments=("gen_ai.tool.call.arguments",),
    tool_result=("gen_ai.tool.call.result",),
    model=("gen_ai.response.model", "gen_ai.request.model"),
    conversation=("gen_ai.conversation.id",),
    labels={
        "gen_ai.prompt.name": "prompt",
        "gen_ai.prompt.version": "prompt_version",
        "gen_ai.agent.name": "agent",
        "gen_ai.provider.name": "provider",
        "gen_ai.system": "provider",
    },
    capture="set OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=SPAN_ONLY (true for older instrumentations) and "
    "OTEL_SEMCONV_STABILITY_OPT_IN=gen_ai_latest_experimental",
)

MLFLOW: Final = Family(
    name="mlflow",
    version="3",
    marks=("mlflow",),
    kinds={
        "mlflow.spanType": {
            "llm": "model",
            "chat_model": "model",
            "agent": "agent",
            "chain": "chain",
            "workflow": "workflow",
            "retriever": "retrieval",
            "reranker": "rerank",
            "tool": "tool",
            "embedding": "embedding",
            "evaluator": "evaluation",
            "guardrail": "evaluation",
        }
    },
    given=("mlflow.spanInputs",),
    gave=("mlflow.spanOutputs",),
    conversation=("mlflow.trace.session",),
)

FAMILIES: Final = (OWN, LANGFUSE, OPENINFERENCE, VERCEL, PYDANTIC_AI, TRACELOOP, MLFLOW, OTEL)
"""In order of precedence: what wraps another family comes before it."""

LAST_WORD: Final = "judgestream"
"""Service and scope of our own spans, which are not judged."""
