"""Prompts, results of tools, JSON of other forms, any content, and the limits of one request."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.logs.v1.logs_pb2 import LogsData as Logs
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData as Traces

from schemas import QAEvent
from streams.errors import DecodeError
from streams.intake.reader import GroupReading
from streams.intake.reading.otlp.conversation import MAX_TURNS, read_turns
from streams.intake.reading.otlp.pages import open_prompt
from streams.intake.reading.otlp.reader import OtlpReader
from streams.intake.reading.otlp.span import Span, SpanEvent
from streams.intake.reading.otlp.text import result_text
from streams.intake.reading.otlp.trace import merge
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
    """Names of the schema (resource_spans) are refused."""
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


BOUNDED = OtlpReader(unit="trace", max_event_bytes=4_194_304)
ONES = "1" * 32
SPANS = "at most 20000 spans, scopes and resources"
PARTS = "at most 100000 attributes and events"
OBJECTS = "at most 250000 objects in JSON"


def _json(*spans: str, logs: bool = False) -> bytes:
    inner = '{"resourceLogs":[{"scopeLogs":[{"logRecords":[%s]}]}]}' if logs else (
        '{"resourceSpans":[{"scopeSpans":[{"spans":[%s]}]}]}'
    )  # fmt: skip
    return (inner % ",".join(spans)).encode()


def _one(**fields: Any) -> bytes:
    return _json(json.dumps({"traceId": ONES, "spanId": "a", **fields}))


def _traces(fill: Callable[[Any], object]) -> bytes:
    request = Traces()
    span = request.resource_spans.add().scope_spans.add().spans.add()
    span.trace_id = b"1" * 16
    fill(span)
    return bytes(request.SerializeToString())


def _add(count: int, to: Any) -> None:
    for _ in range(count):
        to.add()


def _deep(span: Any) -> None:
    _add(100_001, span.attributes.add().value.array_value.values)


def _logs() -> bytes:
    request = Logs()
    records = request.resource_logs.add().scope_logs.add().log_records
    for _ in range(20_001):
        records.add().trace_id = b"1" * 16
    return bytes(request.SerializeToString())


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (_json(*["{}"] * 20_001), SPANS),
        (_json(*["{}"] * 20_001, logs=True), SPANS),
        (_json(*["{}"] * 300_000), OBJECTS),
        (b'{"resourceSpans":[%s{}]}' % (b"{}," * 300_000), OBJECTS),
        (b"\x0a\0" * 20_001, SPANS),  # 20,001 resources
        (b"\x0a" + b"\x80\xf1\x04" + b"\x12\0" * 40_000, SPANS),  # one of 40,000 scopes: 80,000 bytes
        (_logs(), SPANS),
    ],
)
def test_too_many_spans_are_refused_before_they_are_read(value: bytes, why: str) -> None:
    for read in (BOUNDED.heads, BOUNDED.parts):
        with pytest.raises(DecodeError, match=why) as refused:
            read(value)
        assert refused.value.reason == "oversized"


@pytest.mark.parametrize(
    "value",
    [
        _one(attributes=[0] * 100_001),
        _one(events=[{}] * 25_001),
        _one(attributes=[{"key": "a", "value": {"arrayValue": {"values": [0] * 100_001}}}]),
        _one(attributes=[{"key": "a", "value": {"kvlistValue": {"values": [0] * 100_001}}}]),
        _traces(lambda span: _add(100_001, span.attributes)),
        _traces(lambda span: _add(25_001, span.events)),
        _traces(_deep),
    ],
)
def test_too_many_attributes_are_refused_before_they_are_read(value: bytes) -> None:
    BOUNDED.heads(value)
    with pytest.raises(DecodeError, match=PARTS) as refused:
        BOUNDED.parts(value)
    assert refused.value.reason == "oversized"


def test_an_invalid_array_attribute_is_empty() -> None:
    value = _one(attributes=[{"key": "a", "value": {"arrayValue": {"values": "x" * 9}}}])
    (span,) = BOUNDED.parts(value)[ONES]
    assert span.attributes == {"a": []}


def test_log_records_of_a_span_are_its_events_each_once() -> None:
    """In any order; of a span that arrived twice, the one with more attributes is kept."""

    def log(name: str, end: int) -> Span:
        return Span(ONES, "a", "", "", name, "", {}, {"n": name}, end=end, is_log=True)

    thin, full = (Span(ONES, "a", "", "", "s", "", {}, attributes, end=5) for attributes in ({}, {"x": 1}))
    (one,) = merge([log("e1", 3), thin, log("e2", 9), full, log("e1", 4)])
    assert (one.attributes, one.end) == ({"x": 1}, 9)
    assert one.events == (SpanEvent("e1", {"n": "e1"}), SpanEvent("e2", {"n": "e2"}))
    (alone,) = merge([log("e1", 3), log("e1", 4), log("e2", 2)])
    assert (alone.name, alone.end, alone.events) == ("e1", 4, (SpanEvent("e2", {"n": "e2"}),))


@pytest.mark.parametrize("form", [dict, json.dumps], ids=["messages", "texts"])
def test_a_conversation_is_read_up_to_its_bound(form: Callable[[Any], Any]) -> None:
    """The first 500 messages with text are read, in each form; blank ones do not count."""
    spoken = [f"{number}" if number % 2 else "" for number in range(2 * MAX_TURNS + 9)]
    value = [form({"role": "user", "content": text}) for text in spoken]
    assert [turn.text for turn in read_turns(value)] == spoken[1::2][:MAX_TURNS]
