"""Payloads of further libraries and versions of each family."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.streams.intake.reading.otlp.building import log_record, log_request, request, span
from tests.streams.intake.reading.otlp.test_families import (
    ANSWER,
    PAGES,
    QUESTION,
    STUFFED,
    SYSTEM,
    dumped,
    event_of,
    read,
)

Payload = tuple[str, Sequence[Mapping[str, Any]]]
TEXTS = list(PAGES.values())
LANGCHAIN = "opentelemetry.instrumentation.langchain"


def model(parent: int, family: str) -> Mapping[str, Any]:
    """Return a model call with pages and question in one user message, in the family's form."""
    attributes: dict[str, Any] = {
        "openinference": {
            "openinference.span.kind": "LLM",
            "llm.input_messages.0.message.role": "user",
            "llm.input_messages.0.message.content": STUFFED,
            "llm.output_messages.0.message.content": ANSWER,
        },
        "traceloop": {
            "llm.request.type": "chat",
            "gen_ai.system": "Langchain",
            "gen_ai.prompt.0.role": "user",
            "gen_ai.prompt.0.content": STUFFED,
            "gen_ai.completion.0.content": ANSWER,
        },
        "langfuse": {
            "langfuse.observation.type": "generation",
            "langfuse.observation.input": dumped([{"role": "user", "content": STUFFED}]),
            "langfuse.observation.output": dumped({"role": "assistant", "content": ANSWER}),
        },
    }[family]
    return span(9, "call", attributes, parent=parent)


def within(scope: str, family: str, attributes: Mapping[str, Any]) -> Payload:
    """Return an application step that contains such a call."""
    return scope, [span(1, "ask", attributes), model(1, family)]


def alone(attributes: Mapping[str, Any], *events: tuple[str, Mapping[str, Any]], scope: str = "x") -> Payload:
    return scope, [span(1, "call", attributes, events=events)]


CHAT = {"gen_ai.operation.name": "chat", "gen_ai.system": "s", "gen_ai.request.model": "m"}
WITHOUT_PAGES: dict[str, Payload] = {
    "azure: each message as JSON in an event": alone(
        CHAT,
        ("gen_ai.system.message", {"gen_ai.event.content": dumped({"role": "system", "content": SYSTEM})}),
        ("gen_ai.user.message", {"gen_ai.event.content": dumped({"role": "user", "content": QUESTION})}),
        ("gen_ai.choice", {
            "gen_ai.event.content": dumped({"message": {"content": ANSWER}, "finish_reason": "stop"}),
        }),
    ),
    "strands: parts without a type": alone(
        {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "a"},
        ("gen_ai.user.message", {"content": dumped([{"text": QUESTION}])}),
        ("gen_ai.choice", {"message": dumped([{"text": ANSWER}]), "finish_reason": "end_turn"}),
    ),
    "adk: request and response": alone({
        "gen_ai.operation.name": "call_llm",
        "gen_ai.system": "gcp.vertex.agent",
        "gcp.vertex.agent.llm_request": dumped({
            "model": "g",
            "config": {"system_instruction": {"parts": [{"text": SYSTEM}]}},
            "contents": [{"role": "user", "parts": [{"text": QUESTION}]}],
        }),
        "gcp.vertex.agent.llm_response": dumped({"content": {"role": "model", "parts": [{"text": ANSWER}]}}),
    }),
    "adk by openinference": alone({
        "openinference.span.kind": "CHAIN",
        "input.value": dumped({
            "user_id": "u",
            "new_message": {"parts": [{"text": QUESTION}], "role": "user"},
        }),
        "output.value": dumped({"content": {"parts": [{"text": ANSWER}], "role": "model"}, "id": "x"}),
    }),
    "otel: several choices, of which the first counts": alone(CHAT | {
        "gen_ai.input.messages": dumped([{"role": "user", "content": QUESTION}]),
        "gen_ai.output.messages": dumped(
            [
                {"role": "assistant", "content": text, "finish_reason": "stop"}
                for text in (ANSWER, "Not long.")
            ],
        ),
    }),
    "otel: cut by a limit on the length of attributes": alone(CHAT | {
        "gen_ai.input.messages": dumped([{"role": "user", "parts": [{"content": QUESTION}]}])[:-4],
        "gen_ai.output.messages": dumped([{"role": "assistant", "content": ANSWER}])[:-3],
    }),
    "openlit: messages joined to one text": alone(CHAT | {
        "gen_ai.content.prompt": f"system: {SYSTEM}\nuser: {QUESTION}",
        "gen_ai.content.completion": ANSWER,
    }),
    "logfire: request and response": alone({
        "gen_ai.request.model": "m",
        "request_data": dumped({"model": "m", "messages": [{"role": "user", "content": QUESTION}]}),
        "response_data": dumped({"message": {"role": "assistant", "content": ANSWER}, "usage": {}}),
    }, scope="logfire.openai"),
    "logfire: a stream": alone({
        "gen_ai.request.model": "m",
        "request_data": dumped({"model": "m", "messages": [{"role": "user", "content": QUESTION}]}),
        "response_data": dumped({"combined_chunk_content": ANSWER, "chunk_count": 3}),
    }, scope="logfire.openai"),
    "langgraph: pairs": alone({
        "openinference.span.kind": "CHAIN",
        "input.value": dumped({"messages": [["system", SYSTEM], ["user", QUESTION]]}),
        "output.value": dumped({"messages": [{"type": "ai", "content": ANSWER}]}),
    }),
    "autogen: a message of the chat": alone({
        "openinference.span.kind": "AGENT",
        "input.value": dumped([{"source": "user", "content": QUESTION, "type": "TextMessage"}]),
        "output.value": dumped({"chat_message": {"content": ANSWER}, "inner_messages": []}),
    }),
    "crewai: a task in a prompt": ("opentelemetry.instrumentation.crewai", [
        span(1, "crewai.workflow", {"gen_ai.system": "crewai", "crewai.crew.result": ANSWER}),
        span(2, "openai.chat", {
            "llm.request.type": "chat",
            "gen_ai.prompt.0.role": "user",
            "gen_ai.prompt.0.content": (
                f"\nCurrent Task: {QUESTION}\n\n"
                "This is the expected criteria for your final answer: short"
            ),
            "gen_ai.completion.0.content": f"Final Answer: {ANSWER}",
        }, parent=1),
    ]),
    "openinference: a reply of Bedrock": alone({
        "openinference.span.kind": "LLM",
        "input.value": dumped({"messages": [{"role": "user", "content": [{"text": QUESTION}]}]}),
        "output.value": dumped({"output": {"message": {"content": [{"text": ANSWER}]}}, "stopReason": "x"}),
    }),
    "openinference: a completion": alone({
        "openinference.span.kind": "LLM",
        "llm.prompts.0.prompt.text": QUESTION,
        "llm.choices.0.completion.text": ANSWER,
    }),
    "openinference: an agent's task": alone({
        "openinference.span.kind": "AGENT",
        "input.value": dumped({"task": QUESTION, "stream": False}),
        "output.value": ANSWER,
    }),
    "traceloop: parts with a picture": alone({
        "llm.request.type": "chat",
        "gen_ai.prompt.0.role": "user",
        "gen_ai.prompt.0.content": dumped([
            {"type": "text", "text": QUESTION},
            {"type": "image_url", "image_url": {"url": "x"}},
        ]),
        "gen_ai.completion.0.content": ANSWER,
    }, scope="opentelemetry.instrumentation.openai.v1"),
    "traceloop before gen_ai": alone({
        "llm.request.type": "chat",
        "llm.vendor": "OpenAI",
        "llm.request.model": "m",
        "llm.prompts.0.role": "user",
        "llm.prompts.0.content": QUESTION,
        "llm.completions.0.content": ANSWER,
    }, scope="opentelemetry.instrumentation.openai.v1"),
    "vercel: an object": alone({
        "ai.operationId": "ai.generateObject",
        "ai.prompt": dumped({"prompt": QUESTION}),
        "ai.response.object": dumped({"answer": ANSWER, "pages": [2]}),
    }, scope="ai"),
    "vercel 5: messages of a page": alone({
        "ai.operationId": "ai.streamText",
        "ai.prompt": dumped({
            "messages": [{"id": "1", "role": "user", "parts": [{"type": "text", "text": QUESTION}]}],
        }),
        "ai.response.text": ANSWER,
    }, scope="ai"),
    "pydantic-ai: all messages, no final result": alone({
        "gen_ai.operation.name": "invoke_agent",
        "pydantic_ai.all_messages": dumped([
            {"role": "user", "parts": [{"type": "text", "content": QUESTION}]},
            {"role": "assistant", "parts": [{"type": "text", "content": ANSWER}]},
        ]),
    }, scope="pydantic-ai"),
}  # fmt: skip
WITH_PAGES: dict[str, Payload] = {
    "openinference: a query engine": ("openinference.instrumentation.llama_index", [
        span(1, "RetrieverQueryEngine.query", {
            "openinference.span.kind": "CHAIN",
            "input.value": dumped({"str_or_query_bundle": QUESTION}),
            "output.value": ANSWER,
        }),
        span(2, "retrieve", {
            "openinference.span.kind": "RETRIEVER",
            "input.value": QUESTION,
            "retrieval.documents.0.document.id": "n1",
            "retrieval.documents.0.document.content": TEXTS[0],
            "retrieval.documents.1.document.content": TEXTS[1],
        }, parent=1),
        model(1, "openinference"),
    ]),
    "otel: pages in the system instruction": alone(CHAT | {
        "gen_ai.system_instructions": f"{SYSTEM}\n\n[Page 1] {TEXTS[0]}\n[Page 2] {TEXTS[1]}",
        "gen_ai.input.messages": QUESTION,
        "gen_ai.output.messages": ANSWER,
    }),
    "otel: marks in German": alone(CHAT | {
        "gen_ai.prompt": (
            f"Kontext:\n[Seite 1] {TEXTS[0]}\n[Seite 2] {TEXTS[1]}\n\n"
            f"Frage: {QUESTION}\nAntwort:"
        ),
        "gen_ai.completion": ANSWER,
    }),
    "otel: marks in Chinese": alone(CHAT | {
        "gen_ai.prompt": f"[Page-1] {TEXTS[0]}\n[Page-2] {TEXTS[1]}\n\n问题\uff1a{QUESTION}\n答案\uff1a",
        "gen_ai.completion": ANSWER,
    }),
    "langsmith: a chain": ("langsmith", [
        span(1, "RunnableSequence", {
            "langsmith.span.kind": "chain",
            "gen_ai.prompt": dumped({"input": QUESTION}),
            "gen_ai.completion": dumped({"output": ANSWER}),
        }),
        span(2, "VectorStoreRetriever", {
            "langsmith.span.kind": "retriever",
            "gen_ai.operation.name": "embeddings",
            "gen_ai.prompt": dumped({"query": QUESTION}),
            "gen_ai.completion": dumped({"documents": [{"page_content": text} for text in TEXTS]}),
        }, parent=1),
        span(3, "ChatOpenAI", {
            "langsmith.span.kind": "llm",
            "gen_ai.prompt": dumped({"messages": [{"role": "user", "content": STUFFED}]}),
            "gen_ai.completion": dumped({"generations": [[{"text": ANSWER}]]}),
        }, parent=1),
    ]),
    "traceloop: a chain's inputs": within(LANGCHAIN, "traceloop", {
        "traceloop.span.kind": "workflow",
        "traceloop.entity.input": dumped({"inputs": {"query": QUESTION}, "tags": [], "metadata": {}}),
        "traceloop.entity.output": dumped({"outputs": {"result": ANSWER}, "kwargs": {}}),
    }),
    "traceloop: a function's arguments": within(LANGCHAIN, "traceloop", {
        "traceloop.span.kind": "workflow",
        "traceloop.entity.input": dumped({"args": [QUESTION], "kwargs": {}}),
        "traceloop.entity.output": dumped(ANSWER),
    }),
    "langfuse: a chain": within("langfuse-sdk", "langfuse", {
        "langfuse.observation.type": "chain",
        "langfuse.observation.input": dumped({"question": QUESTION}),
        "langfuse.observation.output": ANSWER,
    }),
    "openinference: a pipeline": within("openinference.instrumentation.haystack", "openinference", {
        "openinference.span.kind": "CHAIN",
        "input.value": dumped({"data": {"prompt_builder": {"question": QUESTION}}}),
        "output.value": dumped({"llm": {"replies": [ANSWER], "meta": []}}),
    }),
}  # fmt: skip


@pytest.mark.parametrize("name", [*WITHOUT_PAGES, *WITH_PAGES])
def test_question_answer_and_pages_are_read_from_each_payload(name: str) -> None:
    """Question, answer and the pages of a retriever or prompt are read from each payload."""
    scope, spans = (WITHOUT_PAGES | WITH_PAGES)[name]
    event = event_of(request(*spans, scope=scope))
    assert (event.question, event.answer) == (QUESTION, ANSWER)
    assert (list(event.context.values()) if event.context else None) == (
        TEXTS if name in WITH_PAGES else None
    )


def test_an_agent_is_shown_with_its_instruction_and_tools() -> None:
    """The event of an agent has its instruction, and tool calls from attributes (ADK) or events (Strands)."""
    heard = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": QUESTION}]
    event = event_of(request(
        span(1, "agent", {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.input.messages": dumped(heard[1:]),
            "gen_ai.output.messages": dumped([{"role": "assistant", "content": ANSWER}]),
        }),
        span(2, "execute_tool search", {
            "gen_ai.tool.name": "search",
            "gcp.vertex.agent.tool_call_args": dumped({"q": "battery"}),
            "gcp.vertex.agent.tool_response": dumped({"hours": 12}),
        }, parent=1),
        span(
            3,
            "execute_tool weigh",
            {"gen_ai.tool.name": "weigh"},
            parent=1,
            events=[
                ("gen_ai.tool.message", {"role": "tool", "content": dumped({"what": "lamp"}), "id": "t"}),
                ("gen_ai.choice", {"message": dumped([{"text": "340 g"}]), "id": "t"}),
            ],
        ),
        span(4, "chat", CHAT | {"gen_ai.input.messages": dumped(heard)}, parent=1),
    ))  # fmt: skip
    assert event.messages is not None
    assert [(one.role, one.content) for one in event.messages] == [
        ("system", SYSTEM),
        ("user", QUESTION),
        ("assistant", ANSWER),
    ]
    assert [(one.name, one.arguments, one.result) for one in event.tool_calls or ()] == [
        ("search", '{"q":"battery"}', '{"hours":12}'),
        ("weigh", '{"what":"lamp"}', "340 g"),
    ]


@pytest.mark.parametrize("asked", ["AI: what is it?", "tool: hammer\nIs it any good?", "[1] What is it?"])
def test_a_question_that_looks_like_a_form_is_unchanged(asked: str) -> None:
    """A question that starts with a role's name or a bracket is kept unchanged."""
    event = event_of(request(span(1, "call", CHAT | {"gen_ai.prompt": asked, "gen_ai.completion": ANSWER})))
    assert event.question == asked


@given(st.text(min_size=1, max_size=40).filter(str.strip), st.integers(1, 200), st.booleans())
def test_a_truncated_conversation_gives_a_prefix(text: str, cut: int, ascii_only: bool) -> None:
    """A truncated conversation gives a prefix of the answer, without JSON syntax."""
    heard = [{"role": "user", "parts": [{"type": "text", "content": QUESTION}]}]
    said = [{"role": "assistant", "finish_reason": "stop", "parts": [{"type": "text", "content": text}]}]
    whole = json.dumps(said, ensure_ascii=ascii_only)
    kept = whole[: max(len(whole) - cut, whole.index('"role"'))]
    attributes = {"gen_ai.input.messages": dumped(heard), "gen_ai.output.messages": kept}
    for event in read(request(span(1, "chat", CHAT | attributes))).events:
        assert text.startswith(event.answer) or text.strip().startswith(event.answer.strip())


def test_log_records_may_hold_a_conversation_in_their_body() -> None:
    """A log record's body may hold the conversation, under attribute names or as input and output (ADOT)."""
    heard, said = [{"role": "user", "content": QUESTION}], [{"role": "assistant", "content": ANSWER}]
    named = {"gen_ai.input.messages": heard, "gen_ai.output.messages": said}
    for name, body in (
        ("gen_ai.client.inference.operation.details", named),
        ("strands.telemetry.tracer", {"input": {"messages": heard}, "output": {"messages": said}}),
    ):
        event = event_of(log_request(log_record(name, {}, body)))
        assert (event.question, event.answer) == (QUESTION, ANSWER)


@pytest.mark.parametrize(
    ("attributes", "tracestate"),
    [
        ({}, None),
        ({"sampling.threshold": "c"}, "ot=th:c"),
        ({"sampling.threshold": "c", "sampling.randomness": "d29d6a7215ced0"}, None),  # not by the trace id
        ({"sampling.threshold": 12}, None),
    ],
)
def test_a_collectors_sampler_writes_on_log_records(
    attributes: Mapping[str, Any], tracestate: str | None
) -> None:
    """The Collector's sampler writes attributes on log records, which have no tracestate."""
    body = {
        "gen_ai.input.messages": [{"role": "user", "content": QUESTION}],
        "gen_ai.output.messages": ANSWER,
    }
    record = log_record("gen_ai.client.inference.operation.details", attributes, body)
    assert event_of(log_request(record)).tracestate == tracestate
