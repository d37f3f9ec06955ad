"""Prompts, results of tools, JSON of other forms, and properties of any content."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas import QAEvent
from streams.errors import DecodeError
from streams.intake.reader import GroupReading
from streams.intake.reading.otlp.pages import open_prompt
from streams.intake.reading.otlp.reader import OtlpReader
from streams.intake.reading.otlp.text import result_text
from tests.streams.intake.reading.otlp.building import TRACE, request, span

QUESTION = "How long does the battery last?"
ANSWER = "12 hours [Page 2]."
PAGES = {"Page-1": "It weighs 340 g.", "Page-2": "A charge lasts 12 hours."}
ONE, TWO = PAGES.values()
MARKED = f"Pages:\n[Page-1] {ONE}\n[Page-2] {TWO}"
TAGGED = f"<documents><document index='1'>{ONE}</document>\n<document index='2'>{TWO}</document></documents>"
MODEL = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m-1"}


def read(value: bytes) -> GroupReading:
    (spans,) = READER.parts(value).values()
    return READER.read(spans)


def event_of(value: bytes) -> QAEvent:
    (event,) = read(value).events
    return event


def said(text: str) -> dict[str, Any]:
    """Return the attributes of an OpenInference model call."""
    return {
        "openinference.span.kind": "LLM",
        "llm.model_name": "m-1",
        "llm.output_messages.0.message.content": text,
    }


@pytest.mark.parametrize(
    "text",
    [
        f"{MARKED}\n\n{QUESTION}",
        f"{MARKED}\n{QUESTION}",
        f"{QUESTION}\n\n{MARKED}",
        f"{TAGGED}\n\n{QUESTION}",
        f"{QUESTION}\n{TAGGED}",
    ],
)
def test_a_question_without_a_mark_is_cut_from_marked_pages(text: str) -> None:
    prompt = open_prompt(text)
    assert (prompt.question, prompt.pages, prompt.is_cut) == (QUESTION, PAGES, True)


def test_the_fields_of_a_prompt_of_dspy_are_marks() -> None:
    fields = f"[[ ## context ## ]]\n{TWO}\n\n[[ ## question ## ]]\n{QUESTION}\n\nRespond with a JSON object"
    prompt = open_prompt(fields)
    assert (prompt.question, prompt.pages, prompt.is_cut) == (QUESTION, {"Page-1": TWO}, True)


@pytest.mark.parametrize("text", [MARKED, f"{MARKED}\n\nAnswer in French.", "Page 3: what does it say?"])
def test_a_message_with_marks_and_no_question_stays_whole(text: str) -> None:
    prompt = open_prompt(text)
    assert (prompt.question, prompt.is_cut) == (text, False)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"type": "tool", "data": {"content": TWO, "tool_call_id": "c"}}, TWO),  # LangChain in OpenInference
        ({"content": TWO, "type": "tool", "tool_call_id": "c"}, TWO),
        ({"blocks": [{"text": TWO}], "tool_name": "search", "raw_output": TWO}, TWO),  # LlamaIndex
        ({"result": TWO}, TWO),  # Gemini
        ({"content": [{"type": "text", "text": ONE}, {"type": "text", "text": TWO}]}, f"{ONE}\n{TWO}"),  # MCP
        ({"type": "text", "value": TWO}, TWO),  # Vercel
        ([{"id": 7}], '[{"id":7}]'),
        ('{"hours": 12.0}', '{"hours": 12.0}'),  # unchanged
        ("12 hours", "12 hours"),
        (None, ""),
    ],
)
def test_the_result_of_a_tool_is_taken_out_of_its_envelope(value: Any, text: str) -> None:
    """The text of a tool result is read from each library's envelope; other structures are kept."""
    assert result_text(value) == text
    assert result_text(json.dumps(value) if isinstance(value, dict) else value) == text


READER = OtlpReader(unit="trace", max_event_bytes=1_000_000)

FORM_NAMES = (
    *("role", "content", "parts", "messages", "type", "text", "kwargs", "lc", "data", "args", "documents"),
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(FORM_NAMES) | st.text(max_size=5), inner, max_size=4)
    ),
    max_leaves=20,
)


@given(JSON, JSON)
def test_any_content_is_read_or_left_out(heard: Any, gave: Any) -> None:
    attributes: dict[str, Any] = {
        "openinference.span.kind": "CHAIN",
        "gen_ai.request.model": "m",
        "input.value": json.dumps(heard),
        "output.value": json.dumps(gave),
    }
    model = MODEL | {
        "gen_ai.input.messages": json.dumps(heard),
        "gen_ai.output.messages": json.dumps(gave),
        "events": json.dumps(gave),
        "metadata": json.dumps(gave),
    }
    retriever = {"openinference.span.kind": "RETRIEVER", "output.value": json.dumps(gave)}
    value = request(
        span(1, "a", attributes), span(2, "b", model, parent=1), span(3, "c", retriever, parent=1)
    )
    read(value)


@pytest.mark.parametrize("wrapped", ["[", '{"messages":', '{"kwargs":{"lc":1,"a":', '{"outputs":'])
def test_content_that_is_nested_without_end_is_left_alone(wrapped: str) -> None:
    closing = {"[": "]", '{"messages":': "}", '{"kwargs":{"lc":1,"a":': "}}", '{"outputs":': "}"}[wrapped]
    deep = wrapped * 400 + "1" + closing * 400
    read(request(span(1, "a", MODEL | {
        "gen_ai.input.messages": deep,
        "gen_ai.output.messages": deep,
        "output.value": deep,
    })))  # fmt: skip


def test_fields_of_json_may_be_null_and_ids_base64() -> None:
    written = json.loads(request(span(1, "call", said(ANSWER))))
    (of_resource,) = written["resourceSpans"]
    (of_scope,) = of_resource["scopeSpans"]
    (one,) = of_scope["spans"]
    one |= {"parentSpanId": None, "traceState": None, "events": None, "status": None, "name": None}
    one |= {"traceId": base64.b64encode(bytes.fromhex(TRACE)).decode(), "spanId": "AAAAAAAAAAE="}
    of_scope["scope"] = of_resource["resource"] = written["resourceLogs"] = None
    event = event_of(json.dumps(written).encode())
    assert (event.answer, event.trace_id, event.span_id) == (ANSWER, TRACE, f"{1:016x}")


def test_json_is_read_with_numbers_of_any_form() -> None:
    """JSON may use integers or floats for numbers; names of the schema (resource_spans) are refused."""
    written = request(span(1, "call", said(ANSWER) | {"metadata": json.dumps({"serviceTier": "gold"})}))
    with pytest.raises(DecodeError, match="got resource_spans"):
        READER.heads(written.replace(b"resourceSpans", b"resource_spans"))
    (one,) = (changed := json.loads(written))["resourceSpans"][0]["scopeSpans"][0]["spans"]
    at = int(one["endTimeUnixNano"])
    for number in (at, float(at)):
        one["endTimeUnixNano"] = number
        assert event_of(json.dumps(changed).encode()).occurred_at == event_of(written).occurred_at


@pytest.mark.parametrize("value", [b'{"event_id": "e1", "question": "Q"}', b'{"resourceMetrics": []}'])
def test_json_of_another_kind_is_refused(value: bytes) -> None:
    with pytest.raises(DecodeError, match="has neither resourceSpans nor resourceLogs"):
        READER.heads(value)
    assert READER.heads(b"{}") == []


@pytest.mark.parametrize("read", [READER.heads, READER.parts])
def test_json_of_otlp_before_its_scopes_is_refused(read: Callable[[bytes], object]) -> None:
    """The field was renamed in 2022; in Protobuf it kept its number and is read."""
    value = request(span(1, "chat")).replace(b"scopeSpans", b"instrumentationLibrarySpans")
    with pytest.raises(DecodeError, match="has instrumentationLibrarySpans"):
        read(value)


@given(st.text(min_size=1, max_size=40).filter(str.strip), st.integers(1, 200), st.booleans())
def test_a_truncated_conversation_gives_a_prefix(text: str, cut: int, ascii_only: bool) -> None:
    heard = [{"role": "user", "parts": [{"type": "text", "content": QUESTION}]}]
    told = [{"role": "assistant", "finish_reason": "stop", "parts": [{"type": "text", "content": text}]}]
    whole = json.dumps(told, ensure_ascii=ascii_only)
    kept = whole[: max(len(whole) - cut, whole.index('"role"'))]
    attributes = {"gen_ai.input.messages": json.dumps(heard), "gen_ai.output.messages": kept}
    for event in read(request(span(1, "chat", MODEL | attributes))).events:
        assert text.startswith(event.answer) or text.strip().startswith(event.answer.strip())
