"""JSON of other forms, any content, and the limits of one request."""

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
from streams.intake.reading.otlp.reader import OtlpReader
from streams.intake.reading.otlp.span import Span, SpanEvent
from streams.intake.reading.otlp.trace import merge
from tests.streams.intake.reading.otlp.building import TRACE, request, span

QUESTION = "How long does the battery last?"
ANSWER = "12 hours [Page 2]."
READER = OtlpReader(unit="trace", max_event_bytes=4_194_304)
MODEL = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m-1"}


def read(value: bytes) -> GroupReading:
    (spans,) = READER.parts(value).values()
    return READER.read(spans)


def event_of(document: Any) -> QAEvent:
    (event,) = read(json.dumps(document).encode()).events
    return event


FORM_NAMES = ["role", "content", "parts", "messages", "type", "text", "kwargs", "lc", "data", "args"]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from([*FORM_NAMES, "documents"]) | st.text(max_size=5), inner, max_size=4
        )
    ),
    max_leaves=20,
)


@given(JSON, JSON)
def test_any_content_is_read_or_left_out(heard: Any, gave: Any) -> None:
    given, output = json.dumps(heard), json.dumps(gave)
    chain = {"openinference.span.kind": "CHAIN", "gen_ai.request.model": "m", "input.value": given}
    model = MODEL | {"gen_ai.input.messages": given, "gen_ai.output.messages": output, "events": output}
    retriever = {"openinference.span.kind": "RETRIEVER", "output.value": output}
    spans = chain | {"output.value": output}, model | {"metadata": output}, retriever
    read(request(*(span(at, "a", one, parent=1 if at > 1 else None) for at, one in enumerate(spans, 1))))


NESTED = {"[": "]", '{"messages":': "}", '{"kwargs":{"lc":1,"a":': "}}", '{"outputs":': "}"}


@pytest.mark.parametrize(("wrapped", "closing"), NESTED.items())
def test_content_that_is_nested_without_end_is_left_alone(wrapped: str, closing: str) -> None:
    names = ("gen_ai.input.messages", "gen_ai.output.messages", "output.value")
    read(request(span(1, "a", MODEL | dict.fromkeys(names, wrapped * 400 + "1" + closing * 400))))


def test_fields_of_json_may_be_null_ids_base64_and_numbers_of_any_form() -> None:
    said = {"openinference.span.kind": "LLM", "llm.output_messages.0.message.content": ANSWER}
    written = json.loads(request(span(1, "call", said)))
    (of_resource,) = written["resourceSpans"]
    (of_scope,) = of_resource["scopeSpans"]
    (one,) = of_scope["spans"]
    one |= {"parentSpanId": None, "traceState": None, "events": None, "status": None, "name": None}
    one |= {"traceId": base64.b64encode(bytes.fromhex(TRACE)).decode(), "spanId": "AAAAAAAAAAE="}
    of_scope["scope"] = of_resource["resource"] = written["resourceLogs"] = None
    at, expected = int(one["endTimeUnixNano"]), event_of(written).occurred_at
    for one["endTimeUnixNano"] in (at, float(at)):
        event = event_of(written)
        assert (event.answer, event.trace_id, event.span_id) == (ANSWER, TRACE, f"{1:016x}")
        assert event.occurred_at == expected


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (request(span(1, "a")).replace(b"resourceSpans", b"resource_spans"), "got resource_spans"),
        # Renamed in 2022; in Protobuf it kept its number and is read.
        (
            request(span(1, "a")).replace(b"scope", b"instrumentationLibrary"),
            "has instrumentationLibrarySpans",
        ),
        (b'{"event_id": "e1", "question": "Q"}', "has neither resourceSpans nor resourceLogs"),
        (b'{"resourceMetrics": []}', "has neither resourceSpans nor resourceLogs"),
    ],
)
def test_json_of_another_form_is_refused(value: bytes, why: str) -> None:
    for reading in (READER.heads, READER.parts):
        with pytest.raises(DecodeError, match=why):
            reading(value)
    assert READER.heads(b"{}") == []


@given(st.text(min_size=1, max_size=40).filter(str.strip), st.integers(1, 200), st.booleans())
def test_a_truncated_conversation_gives_a_prefix(text: str, cut: int, ascii_only: bool) -> None:
    heard = [{"role": "user", "parts": [{"type": "text", "content": QUESTION}]}]
    told = [{"role": "assistant", "finish_reason": "stop", "parts": [{"type": "text", "content": text}]}]
    whole = json.dumps(told, ensure_ascii=ascii_only)
    kept = whole[: max(len(whole) - cut, whole.index('"role"'))]
    attributes = {"gen_ai.input.messages": json.dumps(heard), "gen_ai.output.messages": kept}
    for event in read(request(span(1, "chat", MODEL | attributes))).events:
        assert text.startswith(event.answer) or text.strip().startswith(event.answer.strip())


ONES = "1" * 32
SPANS = "at most 20000 spans, scopes and resources"
PARTS = "at most 100000 attributes and events"
OBJECTS = "at most 250000 objects in JSON"


def _json(spans: str, form: str = '{"resourceSpans":[{"scopeSpans":[{"spans":[%s]}]}]}') -> bytes:
    return (form % spans).encode()


def _one(**fields: Any) -> bytes:
    return _json(json.dumps({"traceId": ONES, "spanId": "a", **fields}))


def _traces(fill: Callable[[Any], object]) -> bytes:
    request = Traces()
    span = request.resource_spans.add().scope_spans.add().spans.add()
    span.trace_id = b"1" * 16
    fill(span)
    return bytes(request.SerializeToString())


def _add(count: int, to: Any, **fields: Any) -> None:
    for _ in range(count):
        to.add(**fields)


def _logs() -> bytes:
    request = Logs()
    _add(20_001, request.resource_logs.add().scope_logs.add().log_records, trace_id=b"1" * 16)
    return bytes(request.SerializeToString())


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (_json("{}," * 20_000 + "{}"), SPANS),
        (_json("{}," * 20_000 + "{}", '{"resourceLogs":[{"scopeLogs":[{"logRecords":[%s]}]}]}'), SPANS),
        (_json("{}," * 299_999 + "{}"), OBJECTS),
        (b'{"resourceSpans":[%s{}]}' % (b"{}," * 300_000), OBJECTS),
        (b"\x0a\0" * 20_001, SPANS),  # 20,001 resources
        (b"\x0a" + b"\x80\xf1\x04" + b"\x12\0" * 40_000, SPANS),  # one of 40,000 scopes: 80,000 bytes
        (_logs(), SPANS),
        # Attributes and events are counted where they are read, not for the heads.
        (_one(attributes=[0] * 100_001), PARTS),
        (_one(events=[{}] * 25_001), PARTS),
        (_one(attributes=[{"key": "a", "value": {"arrayValue": {"values": [0] * 100_001}}}]), PARTS),
        (_one(attributes=[{"key": "a", "value": {"kvlistValue": {"values": [0] * 100_001}}}]), PARTS),
        (_traces(lambda span: _add(100_001, span.attributes)), PARTS),
        (_traces(lambda span: _add(25_001, span.events)), PARTS),
        (_traces(lambda span: _add(100_001, span.attributes.add().value.array_value.values)), PARTS),
    ],
)
def test_a_record_of_too_many_parts_is_refused_before_they_are_read(value: bytes, why: str) -> None:
    for read in (READER.heads, READER.parts):
        if (read, why) == (READER.heads, PARTS):
            read(value)
            continue
        with pytest.raises(DecodeError, match=why) as refused:
            read(value)
        assert refused.value.reason == "oversized"


def test_an_invalid_array_attribute_is_empty() -> None:
    value = _one(attributes=[{"key": "a", "value": {"arrayValue": {"values": "x" * 9}}}])
    (span,) = READER.parts(value)[ONES]
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


def test_a_conversation_is_read_up_to_its_bound() -> None:
    """The first 500 messages with text are read, in each form; blank ones do not count."""
    spoken = [f"{number}" if number % 2 else "" for number in range(2 * MAX_TURNS + 9)]
    messages = [{"role": "user", "content": text} for text in spoken]
    for value in (messages, [json.dumps(message) for message in messages]):
        assert [turn.text for turn in read_turns(value)] == spoken[1::2][:MAX_TURNS]
