"""Decoding of records to events: accepted, completed and refused records."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import orjson
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from schemas import QAEvent
from streams.errors import DecodeError
from streams.intake.reading.decode import JsonReader
from tests.places import SHARED_DATA

INGEST = JsonReader(max_event_bytes=4_194_304)
BODY: dict[str, Any] = {"event_id": "e-1", "question": "Q?", "answer": "A."}
TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
PARENT = f"00-{TRACE}-{SPAN}-01".encode()
BINARY = [("ce_specversion", b"1.0"), ("ce_id", b"ce-1"), ("ce_time", b"2025-01-02T03:04:05Z")]
STRUCTURED = {"specversion": "1.0", "type": "t", "source": "s", "id": "ce-1", "time": "2025-01-02T03:04:05Z"}
CE_TIME = datetime(2025, 1, 2, 3, 4, 5, tzinfo=UTC)


def encode(**fields: Any) -> bytes:
    return orjson.dumps(BODY | fields)


def refusal(value: bytes | None, headers: Any = (), ingest: JsonReader = INGEST) -> DecodeError:
    with pytest.raises(DecodeError) as caught:
        ingest.decode(value, headers)
    return caught.value


def test_a_plain_event() -> None:
    event = INGEST.decode(encode(labels={"app": "x"}, unknown={"a": [1]}, reference=None))
    assert event == QAEvent(event_id="e-1", question="Q?", answer="A.", labels={"app": "x"})


def test_blank_texts_are_accepted() -> None:
    event = INGEST.decode(encode(question="", answer=" ", reference="", context={}))
    assert (event.question, event.answer, event.reference, event.context) == ("", " ", "", {})


@pytest.mark.parametrize("value", [None, b""])
def test_a_tombstone_is_undecodable(value: bytes | None) -> None:
    error = refusal(value)
    detail = "value: is empty (a tombstone); send an event as JSON"
    assert (error.reason, error.detail) == ("undecodable", detail)


def test_an_event_of_5_mb_is_oversized() -> None:
    value = encode(answer="x" * 5_000_000)
    error = refusal(value)
    assert error.reason == "oversized"
    assert error.detail == (
        f"value: must have at most 4194304 bytes (got {len(value)}); send fewer pages or raise "
        "ingest.max_event_bytes"
    )


def test_the_limit_itself_fits() -> None:
    value = encode()
    assert JsonReader(max_event_bytes=len(value)).decode(value).event_id == "e-1"
    assert refusal(value, ingest=JsonReader(max_event_bytes=len(value) - 1)).reason == "oversized"


def test_a_context_of_2000_pages() -> None:
    pages = {f"Page-{number}": "text " * 100 for number in range(2_000)}
    assert INGEST.decode(encode(context=pages)).context == pages


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (b"not json", "value: is not valid JSON"),
        (b'{"event_id": "e"', "value: is not valid JSON"),
        (b"\xff\xfe{}", "value: is not valid JSON"),
        (b'{"event_id":"e","question":"\xff","answer":""}', "value: is not valid JSON"),
        (b'{"event_id":"e","question":"\\ud800","answer":""}', "value: is not valid JSON"),
        (b'{"event_id":"e","question":"\xed\xa0\x80","answer":""}', "value: is not valid JSON"),
        (b'{"event_id":"e","question":"q","answer":"a","n":NaN}', "value: is not valid JSON"),
        (b'{"event_id":"e","question":"q","answer":"a","n":1e999}', "value: is not valid JSON"),
        (b'{"a":' + b"[" * 10_000 + b"]" * 10_000 + b"}", "value: is not valid JSON"),
        (b"[" * 100_000, "value: is not valid JSON"),
        (b"[]", "value: must be a JSON object (got a list)"),
        (b"42", "value: must be a JSON object (got 42)"),
        (b"null", "value: must be a JSON object (got nothing)"),
        (b'"text"', "value: must be a JSON object (got 'text')"),
        (b"{}", "event_id: "),
        (b"\x00", "value: is not valid JSON"),
        (b"\x00\x00\x00\x00\x07\x02\x08avro", "value: is not valid JSON"),
    ],
)
def test_other_json_is_undecodable(value: bytes, words: str) -> None:
    error = refusal(value)
    assert error.reason == "undecodable"
    assert error.detail.startswith(words)
    assert len(error.detail) <= 1_000


@pytest.mark.parametrize(
    ("fields", "detail"),
    [
        ({"question": None}, "question: must be text (got nothing); write text"),
        ({"question": 5}, "question: must be text (got 5); write text"),
        ({"event_id": ""}, "event_id: must have at least 1 characters (got ''); lengthen it"),
        ({"event_id": 5}, "event_id: must be text (got 5); write text"),
        (
            {"event_id": "x" * 201},
            f"event_id: must have at most 200 characters (got '{'x' * 79}...); shorten it",
        ),
        ({"context": [5]}, "context.Page-1: must be text (got 5); write text"),
        ({"context": {"Page-1": 5}}, "context.Page-1: must be text (got 5); write text"),
        ({"trace_id": "abc"},
            "trace_id: must match ^[0-9a-f]{32}$ (got 'abc'); use only what the pattern allows"),
        ({"trace_id": 5}, "trace_id: must be text (got 5); send it in W3C format or omit it"),
        ({"labels": [1]}, "labels: must be a mapping of short texts (got a list); correct the producer"),
        (
            {"labels": {"a": [1]}},
            ("labels.a: must be text, a number or a truth value (got a list); correct the producer or map "
                "one value by ingest.mapping"),
        ),
        (
            {"labels": {str(number): "" for number in range(33)}},
            "labels: labels must have at most 32 entries, got 33 (got a mapping); drop some",
        ),
        ({"labels": {"x" * 65: ""}},
            f"labels.{'x' * 65}: must have at most 64 characters (got '{'x' * 65}'); shorten it"),
        (
            {"occurred_at": "yesterday"},
            ("occurred_at: must be a time as in RFC 3339 (got 'yesterday': Input should be a valid "
                    "datetime or date, "
             "input is too short); correct or omit it"),
        ),
    ],
)  # fmt: skip
def test_a_bad_field_is_named_with_limit_value_and_remedy(fields: dict[str, Any], detail: str) -> None:
    assert refusal(encode(**fields)).detail == detail


def test_many_bad_fields_are_listed_and_cut() -> None:
    detail = refusal(encode(context={f"Page-{number}": number for number in range(50)})).detail
    assert detail.splitlines()[0] == "context.Page-0: must be text (got 0); write text"
    assert detail.splitlines()[-1] == "and 45 more"


def test_of_a_key_given_twice_the_last_counts() -> None:
    assert INGEST.decode(b'{"event_id":"a","event_id":"b","question":"","answer":""}').event_id == "b"


def test_nul_and_large_numbers_are_accepted() -> None:
    value = encode(answer="a\0b")[:-1] + b',"n":123456789012345678901234567890,"m":-1.5e300}'
    assert INGEST.decode(value).answer == "a\0b"


@pytest.mark.parametrize("given", ["0001-01-01T00:00:00+12:00", "1811-01-01", "9999-12-31T23:59:59-12:00"])
def test_a_time_that_cannot_be_is_that_of_the_record(given: str) -> None:
    """One event of the year 9999 or 1811 would be the newest or oldest of its series for ever."""
    recorded = datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)
    assert INGEST.decode(encode(occurred_at=given), (), 1_700_000_000_000).occurred_at == recorded
    assert INGEST.decode(encode(occurred_at=given)).occurred_at is None


def test_labels_become_short_texts() -> None:
    """Label values become text as in JSON; nulls are dropped and values cut to 200 characters."""
    labels = {"a": 1, "b": 1.5, "c": True, "d": None, "e": "x" * 300, "f": False, "g": ""}
    texts = {"a": "1", "b": "1.5", "c": "true", "e": "x" * 200, "f": "false", "g": ""}
    assert INGEST.decode(encode(labels=labels)).labels == texts
    assert INGEST.decode(encode(labels=None)).labels == {}


@pytest.mark.parametrize(
    ("given_time", "expected"),
    [
        ("2025-01-02T03:04:05Z", CE_TIME),
        ("2025-01-02T03:04:05", CE_TIME),  # no offset means UTC
        ("2025-01-02T05:04:05+02:00", datetime(2025, 1, 2, 5, 4, 5, tzinfo=timezone(timedelta(hours=2)))),
        (1735787045, CE_TIME),  # Unix time in seconds ...
        (1735787045000, CE_TIME),  # ... and in milliseconds
        (None, datetime(2027, 1, 15, 8, 0, tzinfo=UTC)),  # the record's timestamp
        ("", datetime(2027, 1, 15, 8, 0, tzinfo=UTC)),
    ],
)
def test_times(given_time: Any, expected: datetime) -> None:
    """The event's time is in UTC, for any offset of the input."""
    moment = INGEST.decode(encode(occurred_at=given_time), (), 1_800_000_000_000).occurred_at
    assert moment == expected
    assert moment is not None
    assert moment.tzinfo is UTC


@pytest.mark.parametrize("timestamp", [None, -1, 10**18])
def test_no_time_anywhere(timestamp: int | None) -> None:
    assert INGEST.decode(encode(), (), timestamp).occurred_at is None


def test_trace_headers_count_before_the_body() -> None:
    value = encode(trace_id="1" * 32, span_id="2" * 16, tracestate="a=b")
    event = INGEST.decode(value, [("traceparent", PARENT)])
    assert (event.trace_id, event.span_id, event.tracestate) == (TRACE, SPAN, None)


@pytest.mark.parametrize("header", [b"", b"00-zz", b"\xff", None])
def test_a_malformed_trace_header_is_ignored(header: bytes | None) -> None:
    event = INGEST.decode(encode(trace_id="1" * 32), [("traceparent", header), ("tracestate", b"x=y")])
    assert (event.trace_id, event.span_id, event.tracestate) == ("1" * 32, None, None)


def test_the_body_s_trace_is_put_in_its_one_form() -> None:
    """The body's ids are lowercased; empty ids, ids of zeros and an overlong tracestate are dropped."""
    event = INGEST.decode(encode(trace_id=TRACE.upper(), span_id="", tracestate="x" * 513))
    assert (event.trace_id, event.span_id, event.tracestate) == (TRACE, None, None)
    assert INGEST.decode(encode(trace_id="0" * 32)).trace_id is None


def test_confluents_wire_header_is_skipped() -> None:
    assert INGEST.decode(b"\x00\x00\x00\x00\x07" + encode()).event_id == "e-1"


class TestCloudEvents:
    """Binary and structured CloudEvents."""

    def test_binary(self) -> None:
        """Id and time of the headers fill in missing fields of the body."""
        event = INGEST.decode(orjson.dumps({"question": "q", "answer": "a"}), BINARY)
        assert (event.event_id, event.occurred_at) == ("ce-1", CE_TIME)
        own = INGEST.decode(encode(occurred_at="2020-01-01T00:00:00Z"), BINARY)
        assert own.event_id == "e-1"
        assert own.occurred_at == datetime(2020, 1, 1, tzinfo=UTC)

    @pytest.mark.parametrize(
        "data",
        [
            {"data": {"question": "q", "answer": "a"}},
            {"data": '{"question": "q", "answer": "a"}'},
            {"data_base64": base64.b64encode(b'{"question": "q", "answer": "a"}').decode()},
        ],
    )
    @pytest.mark.parametrize(
        "headers", [[], [("content-type", b"application/cloudevents+json; charset=UTF-8")]]
    )
    def test_structured(self, data: dict[str, Any], headers: list[tuple[str, bytes]]) -> None:
        """Structured events are recognized by content type or attributes; data is object, text or base64."""
        event = INGEST.decode(orjson.dumps(STRUCTURED | data), headers)
        assert (event.event_id, event.question, event.occurred_at) == ("ce-1", "q", CE_TIME)

    def test_trace_attributes(self) -> None:
        """Trace attributes of the envelope override the data, and headers override both."""
        value = orjson.dumps(
            STRUCTURED
            | {"traceparent": PARENT.decode(), "tracestate": "a=b", "data": BODY | {"trace_id": "1" * 32}}
        )
        event = INGEST.decode(value)
        assert (event.trace_id, event.span_id, event.tracestate) == (TRACE, SPAN, "a=b")
        header = f"00-{'3' * 32}-{SPAN}-01".encode()
        assert INGEST.decode(value, [("traceparent", header)]).trace_id == "3" * 32

    def test_an_event_that_has_such_a_field_is_no_cloud_event(self) -> None:
        assert INGEST.decode(encode(specversion="1.0", data={"a": 1})).event_id == "e-1"

    @pytest.mark.parametrize(
        ("envelope", "words"),
        [
            (STRUCTURED, "data: must be a JSON object in a structured CloudEvent (got nothing)"),
            (STRUCTURED | {"data": [1]},
                "data: must be a JSON object in a structured CloudEvent (got a list)"),
            (STRUCTURED | {"data": "<xml/>"}, "data: is not valid JSON"),
            (STRUCTURED | {"data_base64": "***"}, "data_base64: is not standard base64"),
            (STRUCTURED | {"data_base64": "\u00e9"}, "data_base64: is not standard base64"),
            (BODY, "specversion: is required in a structured CloudEvent"),
        ],
    )  # fmt: skip
    def test_broken_envelopes(self, envelope: dict[str, Any], words: str) -> None:
        error = refusal(orjson.dumps(envelope), [("content-type", b"application/cloudevents+json")])
        assert error.detail.startswith(words)

    def test_a_batch_is_refused(self) -> None:
        error = refusal(b"[]", [("content-type", b"application/cloudevents-batch+json")])
        assert error.detail.startswith("content-type: must not be a batch of CloudEvents")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=10,
)
ENVELOPE = ("specversion", "type", "source", "id", "data", "data_base64", "time", "traceparent")
NAMES = [*QAEvent.model_fields, *ENVELOPE]
HEADERS = st.lists(
    st.tuples(
        st.sampled_from(["content-type", "ce_specversion", "ce_id", "ce_time", "traceparent", "tracestate",
            "x"]),
        st.none() | st.binary(max_size=20) | st.sampled_from([b"application/cloudevents+json", b"1.0",
            PARENT]),
    ),
    max_size=4,
)  # fmt: skip


def accepted_or_refused(value: bytes | None, headers: Any, timestamp: int | None) -> None:
    try:
        event = INGEST.decode(value, headers, timestamp)
    except DecodeError as error:
        error.detail.encode()  # raises if the detail is not valid Unicode
    else:
        event.model_dump_json()


@settings(deadline=None)
@given(st.none() | st.binary(max_size=200), HEADERS, st.none() | st.integers())
@example(b"\x00", [], None)
@example(b"\x00\x00\x00\x00\x00", [], None)
def test_any_bytes_are_accepted_or_refused(value: bytes | None, headers: Any, timestamp: int | None) -> None:
    accepted_or_refused(value, headers, timestamp)


@settings(deadline=None)
@given(
    st.dictionaries(st.sampled_from(NAMES), JSON | st.text(max_size=5)), HEADERS, st.none() | st.integers()
)
def test_any_json_is_accepted_or_refused(
    document: dict[str, Any], headers: Any, timestamp: int | None
) -> None:
    try:
        value = orjson.dumps(document)
    except (TypeError, orjson.JSONEncodeError):
        return  # a number that orjson does not write
    accepted_or_refused(value, headers, timestamp)


@pytest.mark.parametrize("name", ["expertqa_events.jsonl", "nq_events.jsonl"])
def test_real_events(name: str) -> None:
    """Real answers in this form are decoded without a refusal."""
    file = SHARED_DATA / name
    if not file.exists():
        pytest.skip(f"{name} is not here")
    lines = file.read_bytes().splitlines()
    assert len([INGEST.decode(line) for line in lines]) == len(lines) > 100


@pytest.mark.parametrize(
    ("header", "field", "expected"),
    [
        (None, None, None),
        (None, 0.25, 0.25),
        (b"0.5", 0.25, 0.5),  # the header overrides the body
        (b"often", 0.25, 0.25),
        (None, "often", None),  # a field with another meaning
        (None, 0, None),
    ],
)
def test_a_stated_sampling_probability_comes_from_header_or_body(
    header: bytes | None, field: object, expected: float | None
) -> None:
    body = {"event_id": "e", "question": "q", "answer": "a", "sampling_probability": field}
    headers = [] if header is None else [("sampling-probability", header)]
    event = JsonReader(max_event_bytes=10_000).decode(orjson.dumps(body), headers)
    assert event.sampling_probability == expected
