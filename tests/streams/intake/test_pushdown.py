"""Push-down makes the same decisions as decoding and sampling each event."""

from __future__ import annotations

import json
import operator
from collections.abc import Sequence
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streams.errors import DecodeError
from streams.intake.reading.decode import JsonReader
from streams.intake.reading.pushdown import PushDown
from streams.intake.sampling import LabelsCondition, Rule, SamplingPolicy, hashed_randomness, threshold
from streams.kafka.record import Record
from tests.streams.records import make_record

INGEST = JsonReader(max_event_bytes=1_000)
MAPPED = JsonReader(
    max_event_bytes=1_000,
    mapping={"event_id": "id", "question": "q", "answer": "a", "labels.tenant": "who.tenant"},
)
SPAN = "b7ad6b7169203331"
LOW = f"{'1' * 18}{'0' * 13}1"  # R = 1: kept only at rate 1
HIGH = f"{'1' * 18}{'f' * 14}"  # R = 2^56 - 1: kept at each rate above 0
GOLD = Rule("gold", LabelsCondition.of({"tenant": ["gold", "1", "true", "x" * 200]}), 1.0)
NEVER = Rule("never", LabelsCondition.of({"tenant": ["none"], "app": ["a"]}), 0.0)


class Untouchable(Record):
    """A record whose body must not be read."""

    def __init__(self, key: bytes | None, headers: Sequence[tuple[str, bytes | None]] = ()) -> None:
        self.key, self.headers = key, tuple(headers)

    @property
    def value(self) -> bytes | None:  # type: ignore[override]  # raises on access
        raise AssertionError("the body was read")


def body(**fields: Any) -> bytes:
    return orjson.dumps({"event_id": "e", "question": "q", "answer": "a"} | fields)


def traceparent(trace_id: str) -> tuple[str, bytes]:
    return ("traceparent", f"00-{trace_id}-{SPAN}-01".encode())


@pytest.mark.parametrize("rules", [[], [GOLD]])
def test_nothing_to_decide_needs_no_predicate(rules: list[Rule]) -> None:
    assert INGEST.push_down(SamplingPolicy(rules=rules)) is None
    assert INGEST.push_down(SamplingPolicy(default_rate=0.999, rules=rules)) is not None


def test_key_or_trace_header_alone_decide_without_the_body() -> None:
    predicate = PushDown(SamplingPolicy(default_rate=0.5, key="record_key"), INGEST)
    kept = [predicate(Untouchable(str(number).encode())) for number in range(100)]
    assert kept == [hashed_randomness(str(number).encode()) >= threshold(0.5) for number in range(100)]
    assert 0 < sum(kept) < 100
    assert predicate.skipped == {"filtered": 0, "not_sampled": 100 - sum(kept)}
    traced = PushDown(SamplingPolicy(default_rate=0.01), INGEST)
    kept = [traced(Untouchable(b"k", [traceparent(trace_id)])) for trace_id in (LOW, HIGH)]
    assert kept == [False, True]


@pytest.mark.parametrize(
    "value",
    [None, b"", b"not json", b"[]", b"\x00", b"\xff", body(event_id=5), body(trace_id=5), body(labels=[1]),
     body(labels={"tenant": [1]}), b"[" * 500, b" " * 1_001, b'{"question":"q","answer":"a"}'],
)  # fmt: skip
def test_what_cannot_be_read_is_delivered(value: bytes | None) -> None:
    """They become dead letters, even at rate 0 and with label rules."""
    predicate = PushDown(SamplingPolicy(default_rate=0, rules=[NEVER]), INGEST)
    assert predicate(make_record(value))
    assert sum(predicate.skipped.values()) == 0


def test_a_broken_event_whose_sampling_fields_say_skip_is_skipped() -> None:
    """Question and answer are not read."""
    predicate = PushDown(SamplingPolicy(default_rate=0.01), INGEST)
    assert not predicate(make_record(orjson.dumps({"event_id": "e", "trace_id": LOW})))


def test_a_label_name_that_no_struct_can_have() -> None:
    policy = SamplingPolicy(default_rate=0, rules=[Rule("odd", LabelsCondition.of({'a"\n': ["x"]}), 1.0)])
    predicate = PushDown(policy, INGEST)
    assert predicate(make_record(body(labels={'a"\n': "x"})))
    assert not predicate(make_record(body(labels={'a"\n': "y"})))


def test_a_mapped_lone_surrogate_is_delivered() -> None:
    ingest = JsonReader(max_event_bytes=1_000, mapping={"event_id": '`"\\ud800"`'})
    assert PushDown(SamplingPolicy(default_rate=0), ingest)(make_record(body()))


TRACE_IDS = st.sampled_from([LOW, HIGH, HIGH.upper(), "0" * 32, "", None]) | st.text(
    "0123456789abcdef", min_size=32, max_size=32
)
STATES = st.sampled_from(["ot=rv:ffffffffffffff", "ot=rv:00000000000000", "a=b", "x" * 600, "", None])
LABELS = st.dictionaries(
    st.sampled_from(["tenant", "app", "other"]),
    st.sampled_from(["gold", "none", "a", "x" * 200, "x" * 201, 1, 1.0, -0.0, 10**20, 1e22, True, None, ""]),
)
# The field names of both shapes, so that both readers find an event.
TEXTS = {"question": "q", "answer": "a", "q": "q", "a": "a"}
EVENTS = st.fixed_dictionaries(
    {name: st.just(text) for name, text in TEXTS.items()}
    | {"event_id": st.text(min_size=1, max_size=3), "id": st.text(min_size=1, max_size=3) | st.integers()},
    optional={"trace_id": TRACE_IDS, "tracestate": STATES, "labels": LABELS | st.none(), "who": LABELS},
)
ATTRIBUTES = {"specversion": "1.0", "type": "t", "source": "s", "id": "ce"}
ENVELOPES = st.fixed_dictionaries(
    {name: st.just(text) for name, text in ATTRIBUTES.items()} | {"data": EVENTS},
    optional={
        "traceparent": st.sampled_from([f"00-{LOW}-{SPAN}-01", f"00-{HIGH}-{SPAN}-01", "bad"]),
        "tracestate": STATES,
        # Fields of the envelope must not be read as the event's.
        "event_id": st.just("outer"),
        "trace_id": TRACE_IDS,
        "labels": LABELS,
    },
)
ODD = ["event_id", "trace_id", "tracestate", "labels", "specversion", "question", "data", "id"]
ODDITY: st.SearchStrategy[Any] = st.sampled_from(["", None, 5, "bad", [], {}, {"tenant": [1]}, {"app": [1]}])
ODDITIES = st.dictionaries(st.sampled_from(ODD), ODDITY, min_size=1, max_size=2)
DOCUMENTS = st.one_of(
    EVENTS, EVENTS, ENVELOPES, st.builds(lambda document, odd: document | odd, EVENTS | ENVELOPES, ODDITIES)
)
TRACE_HEADERS: list[list[tuple[str, bytes | None]]] = [
    [],
    [],
    [traceparent(LOW)],
    [traceparent(HIGH)],
    [traceparent(HIGH), ("tracestate", b"ot=rv:00000000000000")],
    [("tracestate", b"ot=rv:ffffffffffffff")],
    [("traceparent", b"bad"), ("ce_traceparent", traceparent(HIGH)[1])],
    [traceparent(LOW), traceparent(LOW)],
]
OTHER_HEADERS: list[list[tuple[str, bytes | None]]] = [
    [],
    [],
    [("content-type", b"application/json"), ("x", None)],
    [("content-type", b"application/cloudevents+json")],
    [("ce_specversion", b"1.0"), ("ce_id", b"ce-1")],
]
HEADERS = st.builds(operator.add, st.sampled_from(OTHER_HEADERS), st.sampled_from(TRACE_HEADERS))
POLICIES = [
    SamplingPolicy(default_rate=rate, rules=rules, key=key)
    for rate in (0.0, 0.01, 0.5)
    for rules in ((), (GOLD,), (NEVER, GOLD))
    for key in ("auto", "record_key")
]

CASES = [(policy, ingest, PushDown(policy, ingest)) for policy in POLICIES for ingest in (INGEST, MAPPED)]


@pytest.mark.slow
@settings(max_examples=500)
@given(
    DOCUMENTS,
    HEADERS,
    st.sampled_from([None, b"", b"k", b"key-2"]),
    st.sampled_from([b"", b"", b"\x00\x00\x00\x00\x01"]),
)
def test_push_down_says_what_the_full_path_says(
    document: dict[str, Any], headers: Any, key: bytes | None, prefix: bytes
) -> None:
    # json writes integers of any size; orjson does not.
    value = prefix + json.dumps(document, ensure_ascii=False).encode()
    record = make_record(value, key=key, headers=headers)
    for policy, ingest, predicate in CASES:
        try:
            decision = policy.decide_event(ingest.decode(value, headers, 0), key)
        except DecodeError:
            continue
        expected = dict(predicate.skipped)
        if decision.skip_reason is not None:
            expected[decision.skip_reason] += 1
        assert (predicate(record), predicate.skipped) == (decision.keep, expected)


@given(st.none() | st.binary(max_size=60), HEADERS)
def test_any_bytes_get_an_answer(value: bytes | None, headers: Any) -> None:
    record = make_record(value, headers=headers)
    for _, _, predicate in CASES:
        assert predicate(record) in {True, False}
