"""The forms of content of each family of instrumentation, in current and older versions."""

from __future__ import annotations

import json
from typing import Any

import pytest

from schemas import QAEvent
from streams.intake.reader import Reading
from streams.intake.reading.otlp.reader import OtlpReader
from tests.streams.intake.reading.otlp.building import TRACE, log_record, log_request, request, span

QUESTION = "How long does the battery last?"
ANSWER = "12 hours [Page 2]."
SYSTEM = "Answer from the pages only."
PAGES = {"Page-1": "It weighs 340 g.", "Page-2": "A charge lasts 12 hours."}
STUFFED = f"Context:\n[Page-1] {PAGES['Page-1']}\n[Page-2] {PAGES['Page-2']}\n\nQuestion: {QUESTION}"


def read(value: bytes, *, unit: Any = "trace") -> Reading:
    reader = OtlpReader(unit=unit, max_event_bytes=1_000_000)
    (spans,) = reader.parts(value).values()
    return reader.read(spans)


def event_of(value: bytes) -> QAEvent:
    reading = read(value)
    assert len(reading.events) == 1, reading
    return reading.events[0]


def dumped(value: Any) -> str:
    return json.dumps(value)


MODEL = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m-1"}
HEARD = [
    {"role": "system", "parts": [{"type": "text", "content": SYSTEM}]},
    {"role": "user", "parts": [{"type": "text", "content": QUESTION}]},
]
SAID = [{"role": "assistant", "parts": [{"type": "text", "content": ANSWER}], "finish_reason": "stop"}]
CALL = {"type": "tool_call", "id": "c-1", "name": "search", "arguments": {"q": "battery"}}
REPLY = {"type": "tool_call_response", "id": "c-1", "result": "12 hours"}

CASES: dict[str, bytes] = {
    "otel: messages as JSON text": request(span(1, "chat m-1", MODEL | {
        "gen_ai.input.messages": dumped(HEARD),
        "gen_ai.output.messages": dumped(SAID),
    })),
    "otel: messages as structures": request(span(1, "chat m-1", MODEL | {
        "gen_ai.input.messages": HEARD,
        "gen_ai.output.messages": SAID,
    })),
    "otel: details as an event of the span": request(span(1, "chat m-1", MODEL, events=[
        ("gen_ai.client.inference.operation.details", {
            "gen_ai.input.messages": HEARD,
            "gen_ai.output.messages": SAID,
        }),
    ])),
    "otel 1.28: an event a message": request(span(
        1,
        "chat m-1",
        {"gen_ai.system": "openai", "gen_ai.request.model": "m-1"},
        events=[
            ("gen_ai.system.message", {"content": SYSTEM}),
            ("gen_ai.user.message", {"content": QUESTION}),
            ("gen_ai.choice", {
                "index": 0,
                "finish_reason": "stop",
                "message": dumped({"role": "assistant", "content": ANSWER}),
            }),
        ],
    )),
    "otel 1.27: prompt and completion as events": request(span(
        1,
        "chat m-1",
        {"gen_ai.system": "openai", "gen_ai.request.model": "m-1"},
        events=[
            ("gen_ai.content.prompt", {
                "gen_ai.prompt": dumped([
                    {"role": "system", "content": SYSTEM},
                    {"role": "user", "content": QUESTION},
                ]),
            }),
            ("gen_ai.content.completion", {
                "gen_ai.completion": dumped([{"role": "assistant", "content": ANSWER}]),
            }),
        ],
    )),
    "otel: a log record a message": log_request(
        log_record("gen_ai.system.message", {"gen_ai.system": "openai"}, {"content": SYSTEM}),
        log_record("gen_ai.user.message", {"gen_ai.system": "openai"}, {"content": QUESTION}),
        log_record(
            "gen_ai.choice",
            {"gen_ai.system": "openai"},
            {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": ANSWER}},
        ),
    ),
    "otel: an agent with a tool": request(
        span(1, "POST /ask"),
        span(2, "invoke_agent helper", {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": "helper",
            "gen_ai.system_instructions": dumped([{"type": "text", "content": SYSTEM}]),
            "gen_ai.input.messages": dumped(HEARD[1:]),
            "gen_ai.output.messages": dumped(SAID),
        }, parent=1),
        span(3, "chat m-1", MODEL | {
            "gen_ai.input.messages": dumped(HEARD),
            "gen_ai.output.messages": dumped([{"role": "assistant", "parts": [CALL]}]),
        }, parent=2),
        span(4, "execute_tool search", {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": "search",
            "gen_ai.tool.call.arguments": dumped(CALL["arguments"]),
            "gen_ai.tool.call.result": "12 hours",
        }, parent=2),
        span(5, "chat m-1", MODEL | {
            "gen_ai.input.messages": dumped([
                *HEARD,
                {"role": "assistant", "parts": [CALL]},
                {"role": "tool", "parts": [REPLY]},
            ]),
            "gen_ai.output.messages": dumped(SAID),
        }, parent=2),
    ),
    "openinference: flat messages": request(span(1, "ChatCompletion", {
        "openinference.span.kind": "LLM",
        "llm.model_name": "m-1",
        "llm.input_messages.0.message.role": "system",
        "llm.input_messages.0.message.content": SYSTEM,
        "llm.input_messages.1.message.role": "user",
        "llm.input_messages.1.message.contents.0.message_content.type": "text",
        "llm.input_messages.1.message.contents.0.message_content.text": QUESTION,
        "llm.output_messages.0.message.role": "assistant",
        "llm.output_messages.0.message.content": ANSWER,
    })),
    "openinference: a request and a reply as JSON": request(span(1, "messages.create", {
        "openinference.span.kind": "LLM",
        "llm.model_name": "m-1",
        "input.value": dumped({
            "model": "m-1",
            "system": SYSTEM,
            "messages": [{"role": "user", "content": QUESTION}],
        }),
        "input.mime_type": "application/json",
        "output.value": dumped({
            "id": "x",
            "role": "assistant",
            "content": [{"type": "text", "text": ANSWER}],
            "model": "m-1",
        }),
    })),
    "traceloop: flat prompts and completions": request(span(1, "openai.chat", {
        "llm.request.type": "chat",
        "gen_ai.system": "OpenAI",
        "gen_ai.request.model": "m-1",
        "gen_ai.prompt.0.role": "system",
        "gen_ai.prompt.0.content": SYSTEM,
        "gen_ai.prompt.1.role": "user",
        "gen_ai.prompt.1.content": dumped([{"type": "text", "text": QUESTION}]),
        "gen_ai.completion.0.role": "assistant",
        "gen_ai.completion.0.content": ANSWER,
        "gen_ai.completion.0.finish_reason": "stop",
    })),
    "traceloop: a decorated workflow": request(
        span(1, "ask.workflow", {
            "traceloop.span.kind": "workflow",
            "traceloop.entity.name": "ask",
            "traceloop.entity.input": dumped({"args": [QUESTION], "kwargs": {}}),
            "traceloop.entity.output": dumped(ANSWER),
        }),
        span(2, "openai.chat", {
            "gen_ai.operation.name": "chat",
            "gen_ai.request.model": "m-1",
            "gen_ai.prompt.0.role": "system",
            "gen_ai.prompt.0.content": SYSTEM,
            "gen_ai.prompt.1.role": "user",
            "gen_ai.prompt.1.content": QUESTION,
            "gen_ai.completion.0.content": "a draft",
        }, parent=1),
    ),
    "langfuse: a generation": request(span(1, "answer", {
        "langfuse.observation.type": "generation",
        "langfuse.observation.model.name": "m-1",
        "langfuse.observation.input": dumped([
            {"role": "system", "content": SYSTEM},
            {"role": "user", "content": QUESTION},
        ]),
        "langfuse.observation.output": ANSWER,
    }), scope="langfuse-sdk"),
    "langfuse: a trace with input and output": request(
        span(1, "ask", {
            "langfuse.observation.type": "span",
            "langfuse.trace.input": dumped({"question": QUESTION}),
            "langfuse.trace.output": dumped({"answer": ANSWER, "sources": ["a", "b"]}),
        }),
        span(2, "gen", {
            "langfuse.observation.type": "generation",
            "langfuse.observation.model.name": "m-1",
            "langfuse.observation.input": dumped({
                "messages": [{"role": "system", "content": SYSTEM}, {"role": "user", "content": "Say it."}],
            }),
            "langfuse.observation.output": dumped({"role": "assistant", "content": "draft"}),
        }, parent=1),
        scope="langfuse-sdk",
    ),
    "vercel 4 to 6: generateText with steps": request(
        span(1, "POST /api/chat"),
        span(2, "ai.generateText", {
            "ai.operationId": "ai.generateText",
            "operation.name": "ai.generateText ask",
            "ai.telemetry.functionId": "ask",
            "ai.telemetry.metadata.tenant": "gold",
            "ai.model.id": "m-1",
            "ai.prompt": dumped({"system": SYSTEM, "messages": [{"role": "user", "content": QUESTION}]}),
            "ai.response.text": ANSWER,
        }, parent=1),
        span(3, "ai.generateText.doGenerate", {
            "ai.operationId": "ai.generateText.doGenerate",
            "ai.model.id": "m-1",
            "gen_ai.response.model": "m-1",
            "ai.prompt.messages": dumped([
                {"role": "system", "content": SYSTEM},
                {"role": "user", "content": [{"type": "text", "text": QUESTION}]},
            ]),
            "ai.response.toolCalls": dumped([
                {"toolCallId": "c-1", "toolName": "search", "input": {"q": "battery"}},
            ]),
            "ai.response.text": "",
        }, parent=2),
        span(4, "ai.toolCall", {
            "ai.operationId": "ai.toolCall",
            "ai.toolCall.name": "search",
            "ai.toolCall.args": dumped({"q": "battery"}),
            "ai.toolCall.result": dumped("12 hours"),
        }, parent=2),
        scope="ai",
    ),
    "vercel 3: streamText": request(span(1, "ai.streamText", {
        "ai.operationId": "ai.streamText",
        "ai.model.id": "m-1",
        "ai.prompt": dumped({"system": SYSTEM, "prompt": QUESTION}),
        "ai.result.text": ANSWER,
    }), scope="ai"),
    "pydantic-ai 1: events": request(
        span(1, "agent run", {
            "agent_name": "helper",
            "model_name": "m-1",
            "final_result": ANSWER,
            "all_messages_events": dumped([
                {"content": SYSTEM, "role": "system", "event.name": "gen_ai.system.message"},
                {"content": QUESTION, "role": "user", "event.name": "gen_ai.user.message"},
                {"content": ANSWER, "role": "assistant", "event.name": "gen_ai.assistant.message"},
            ]),
        }),
        span(2, "chat m-1", {
            "gen_ai.operation.name": "chat",
            "gen_ai.request.model": "m-1",
            "events": dumped([
                {"content": SYSTEM, "role": "system", "event.name": "gen_ai.system.message"},
                {"content": QUESTION, "role": "user", "event.name": "gen_ai.user.message"},
                {
                    "index": 0,
                    "message": {"role": "assistant", "content": ANSWER},
                    "event.name": "gen_ai.choice",
                },
            ]),
        }, parent=1),
        scope="pydantic-ai",
    ),
    "pydantic-ai 2 and later: messages": request(span(1, "invoke_agent helper", {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "helper",
        "model_name": "m-1",
        "final_result": ANSWER,
        "gen_ai.system_instructions": dumped([{"type": "text", "content": SYSTEM}]),
        "pydantic_ai.all_messages": dumped([
            HEARD[1],
            {"role": "assistant", "parts": [{"type": "thinking", "content": "hm"}, CALL]},
            {"role": "user", "parts": [REPLY]},
            SAID[0],
        ]),
    }), scope="pydantic-ai"),
    "langgraph by openinference": request(
        span(1, "LangGraph", {
            "openinference.span.kind": "CHAIN",
            "input.value": dumped({"messages": [{"role": "user", "content": QUESTION}]}),
            "output.value": dumped({
                "messages": [
                    {"type": "system", "content": SYSTEM},
                    {"type": "human", "content": QUESTION},
                    {"type": "ai", "content": ANSWER, "tool_calls": []},
                ],
            }),
        }),
        span(2, "ChatOpenAI", {
            "openinference.span.kind": "LLM",
            "llm.model_name": "m-1",
            "llm.input_messages.0.message.role": "system",
            "llm.input_messages.0.message.content": SYSTEM,
            "llm.input_messages.1.message.role": "user",
            "llm.input_messages.1.message.content": QUESTION,
            "llm.output_messages.0.message.content": ANSWER,
        }, parent=1),
    ),
    "mlflow: a chain": request(
        span(1, "predict", {
            "mlflow.spanType": dumped("CHAIN"),
            "mlflow.spanInputs": dumped({"question": QUESTION}),
            "mlflow.spanOutputs": dumped(ANSWER),
        }),
        span(2, "Completions", {
            "mlflow.spanType": dumped("CHAT_MODEL"),
            "gen_ai.response.model": "m-1",
            "mlflow.spanInputs": dumped({
                "messages": [{"role": "system", "content": SYSTEM}, {"role": "user", "content": QUESTION}],
            }),
            "mlflow.spanOutputs": dumped({
                "choices": [{"message": {"role": "assistant", "content": ANSWER}, "finish_reason": "stop"}],
            }),
        }, parent=1),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_question_answer_and_conversation_are_found(name: str) -> None:
    """Question, answer, system message and trace id are read from each form."""
    event = event_of(CASES[name])
    assert (event.question, event.answer) == (QUESTION, ANSWER)
    assert event.messages is not None
    if "streamText" not in name or "prompt" in name:
        assert (event.messages[0].role, event.messages[0].content) == ("system", SYSTEM)
    assert (event.event_id, event.trace_id) == (TRACE, TRACE)
    if "log record" not in name:
        assert event.labels.get("model", "m-1") == "m-1"
