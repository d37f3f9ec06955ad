"""The number of objects in one request is limited."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from opentelemetry.proto.logs.v1.logs_pb2 import LogsData as Logs
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData as Traces

from streams.errors import DecodeError
from streams.intake.reading.otlp.conversation import MAX_TURNS, read_turns
from streams.intake.reading.otlp.reader import OtlpReader
from streams.intake.reading.otlp.span import Span, SpanEvent
from streams.intake.reading.otlp.trace import merge

READER = OtlpReader(unit="trace", max_event_bytes=4_194_304)
TRACE = "1" * 32
SPANS = "at most 20000 spans, scopes and resources"
PARTS = "at most 100000 attributes and events"
OBJECTS = "at most 250000 objects in JSON"


def _json(*spans: str, logs: bool = False) -> bytes:
    inner = '{"resourceLogs":[{"scopeLogs":[{"logRecords":[%s]}]}]}' if logs else (
        '{"resourceSpans":[{"scopeSpans":[{"spans":[%s]}]}]}'
    )  # fmt: skip
    return (inner % ",".join(spans)).encode()


def _one(**fields: Any) -> bytes:
    return _json(json.dumps({"traceId": TRACE, "spanId": "a", **fields}))


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
        (
            b"\x0a" + b"\x80\xf1\x04" + b"\x12\0" * 40_000,
            SPANS,
        ),  # one of 40,000 scopes: 80,000 bytes
        (_logs(), SPANS),
    ],
)
def test_too_many_spans_are_refused_before_they_are_read(value: bytes, why: str) -> None:
    for read in (READER.heads, READER.parts):
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
    """Requests with too many attributes are refused before they are parsed; an event counts as four."""
    READER.heads(value)
    with pytest.raises(DecodeError, match=PARTS) as refused:
        READER.parts(value)
    assert refused.value.reason == "oversized"


def test_an_invalid_array_attribute_is_empty() -> None:
    (span,) = READER.parts(_one(attributes=[{"key": "a", "value": {"arrayValue": {"values": "x" * 9}}}]))[
        TRACE
    ]
    assert span.attributes == {"a": []}


def test_log_records_of_a_span_are_its_events_each_once() -> None:
    """Log records become events of their span, each once, in any order.

    Of a span that arrived twice, the one with more attributes is kept.
    """

    def log(name: str, end: int) -> Span:
        return Span(TRACE, "a", "", "", name, "", {}, {"n": name}, end=end, is_log=True)

    thin, full = (Span(TRACE, "a", "", "", "s", "", {}, attributes, end=5) for attributes in ({}, {"x": 1}))
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
