"""Payloads as libraries of each family write them, older and newer, read as a person would."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from tests.streams.intake.reading.otlp.building import request, span
from tests.streams.intake.reading.otlp.test_families import (
    ANSWER,
    PAGES,
    QUESTION,
    STUFFED,
    SYSTEM,
    dumped,
    event_of,
)

Payload = tuple[str, Sequence[Mapping[str, Any]]]
TEXTS = list(PAGES.values())
LANGCHAIN = "opentelemetry.instrumentation.langchain"


def model(parent: int, family: str) -> Mapping[str, Any]:
    """A model's call with everything in one user message, as the family writes it."""
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
    """A step of the application around such a call."""
    return scope, [span(1, "ask", attributes), model(1, family)]


def alone(attributes: Mapping[str, Any], *events: tuple[str, Mapping[str, Any]], scope: str = "x") -> Payload:
    return scope, [span(1, "call", attributes, events=events)]


CHAT = {"gen_ai.operation.name": "chat", "gen_ai.system": "s", "gen_ai.request.model": "m"}
WITHOUT_PAGES: dict[str, Payload] = {
    "azure: each message as JSON in an event": alone(
        CHAT,
        ("gen_ai.system.message", {"gen_ai.event.content": dumped({"role": "system", "content": SYSTEM})}),
        ("gen_ai.user.message", {"gen_ai.event.content": dumped({"role": "user", "content": QUESTION})}),
        (
            "gen_ai.choice",
            {"gen_ai.event.content": dumped({"message": {"content": ANSWER}, "finish_reason": "stop"})},
        ),
    ),
    "strands: parts without a type": alone(
        {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "a"},
        ("gen_ai.user.message", {"content": dumped([{"text": QUESTION}])}),
        ("gen_ai.choice", {"message": dumped([{"text": ANSWER}]), "finish_reason": "end_turn"}),
    ),
    "adk: request and response": alone(
        {
            "gen_ai.operation.name": "call_llm",
            "gen_ai.system": "gcp.vertex.agent",
            "gcp.vertex.agent.llm_request": dumped(
                {"model": "g", "contents": [{"role": "user", "parts": [{"text": QUESTION}]}]}
            ),
            "gcp.vertex.agent.llm_response": dumped(
                {"content": {"role": "model", "parts": [{"text": ANSWER}]}}
            ),
        }
    ),
    "openinference: a completion": alone(
        {
            "openinference.span.kind": "LLM",
            "llm.prompts.0.prompt.text": QUESTION,
            "llm.choices.0.completion.text": ANSWER,
        }
    ),
    "openinference: an agent's task": alone(
        {
            "openinference.span.kind": "AGENT",
            "input.value": dumped({"task": QUESTION, "stream": False}),
            "output.value": ANSWER,
        }
    ),
    "traceloop: parts with a picture": alone(
        {
            "llm.request.type": "chat",
            "gen_ai.prompt.0.role": "user",
            "gen_ai.prompt.0.content": dumped(
                [{"type": "text", "text": QUESTION}, {"type": "image_url", "image_url": {"url": "x"}}]
            ),
            "gen_ai.completion.0.content": ANSWER,
        },
        scope="opentelemetry.instrumentation.openai.v1",
    ),
    "traceloop before gen_ai": alone(
        {
            "llm.request.type": "chat",
            "llm.vendor": "OpenAI",
            "llm.request.model": "m",
            "llm.prompts.0.role": "user",
            "llm.prompts.0.content": QUESTION,
            "llm.completions.0.content": ANSWER,
        },
        scope="opentelemetry.instrumentation.openai.v1",
    ),
    "vercel: an object": alone(
        {
            "ai.operationId": "ai.generateObject",
            "ai.prompt": dumped({"prompt": QUESTION}),
            "ai.response.object": dumped({"answer": ANSWER, "pages": [2]}),
        },
        scope="ai",
    ),
    "vercel 5: messages of a page": alone(
        {
            "ai.operationId": "ai.streamText",
            "ai.prompt": dumped(
                {"messages": [{"id": "1", "role": "user", "parts": [{"type": "text", "text": QUESTION}]}]}
            ),
            "ai.response.text": ANSWER,
        },
        scope="ai",
    ),
    "pydantic-ai: all messages, no final result": alone(
        {
            "gen_ai.operation.name": "invoke_agent",
            "pydantic_ai.all_messages": dumped(
                [
                    {"role": "user", "parts": [{"type": "text", "content": QUESTION}]},
                    {"role": "assistant", "parts": [{"type": "text", "content": ANSWER}]},
                ]
            ),
        },
        scope="pydantic-ai",
    ),
}
WITH_PAGES: dict[str, Payload] = {
    "openinference: a query engine": (
        "openinference.instrumentation.llama_index",
        [
            span(
                1,
                "RetrieverQueryEngine.query",
                {
                    "openinference.span.kind": "CHAIN",
                    "input.value": dumped({"str_or_query_bundle": QUESTION}),
                    "output.value": ANSWER,
                },
            ),
            span(
                2,
                "retrieve",
                {
                    "openinference.span.kind": "RETRIEVER",
                    "input.value": QUESTION,
                    "retrieval.documents.0.document.id": "n1",
                    "retrieval.documents.0.document.content": TEXTS[0],
                    "retrieval.documents.1.document.content": TEXTS[1],
                },
                parent=1,
            ),
            model(1, "openinference"),
        ],
    ),
    "traceloop: a chain's inputs": within(
        LANGCHAIN,
        "traceloop",
        {
            "traceloop.span.kind": "workflow",
            "traceloop.entity.input": dumped({"inputs": {"query": QUESTION}, "tags": [], "metadata": {}}),
            "traceloop.entity.output": dumped({"outputs": {"result": ANSWER}, "kwargs": {}}),
        },
    ),
    "traceloop: a function's arguments": within(
        LANGCHAIN,
        "traceloop",
        {
            "traceloop.span.kind": "workflow",
            "traceloop.entity.input": dumped({"args": [QUESTION], "kwargs": {}}),
            "traceloop.entity.output": dumped(ANSWER),
        },
    ),
    "langfuse: a chain": within(
        "langfuse-sdk",
        "langfuse",
        {
            "langfuse.observation.type": "chain",
            "langfuse.observation.input": dumped({"question": QUESTION}),
            "langfuse.observation.output": ANSWER,
        },
    ),
    "openinference: a pipeline": within(
        "openinference.instrumentation.haystack",
        "openinference",
        {
            "openinference.span.kind": "CHAIN",
            "input.value": dumped({"data": {"prompt_builder": {"question": QUESTION}}}),
            "output.value": dumped({"llm": {"replies": [ANSWER], "meta": []}}),
        },
    ),
}


@pytest.mark.parametrize("name", [*WITHOUT_PAGES, *WITH_PAGES])
def test_a_payload_is_read_as_a_person_would(name: str) -> None:
    """The bare question and the answer's words, and the pages where a retriever or a prompt has them."""
    scope, spans = (WITHOUT_PAGES | WITH_PAGES)[name]
    event = event_of(request(*spans, scope=scope))
    assert (event.question, event.answer) == (QUESTION, ANSWER)
    assert (list(event.context.values()) if event.context else None) == (
        TEXTS if name in WITH_PAGES else None
    )
