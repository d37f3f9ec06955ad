"""Each line of `cases/records.jsonl` has a record, and its event or refusal."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas import QAEvent
from streams.errors import DecodeError
from streams.intake.reader import read_beside
from streams.intake.reading.decode import JsonReader
from tests.places import SHARED_DATA

INGEST = JsonReader(max_event_bytes=4_194_304)
PARENT = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
LINES = (Path(__file__).parent / "cases" / "records.jsonl").read_text("utf-8").splitlines()
CASES = [json.loads(line) for line in LINES]


def in_bytes(text: str | dict[str, str] | None) -> bytes | None:
    """`{"base64": ...}` stands for what is no text."""
    if isinstance(text, dict):
        return base64.b64decode(text["base64"])
    return None if text is None else text.encode()


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_a_record_is_read_or_refused(case: dict[str, Any]) -> None:
    reader = JsonReader(max_event_bytes=4_194_304, mapping=case.get("mapping"))
    headers = [(name, in_bytes(value)) for name, value in case.get("headers", ())]
    arguments = in_bytes(case["value"]), headers, case.get("timestamp_ms")
    if "refused" in case:
        with pytest.raises(DecodeError) as refused:
            reader.decode(*arguments)
        assert [refused.value.reason, refused.value.detail] == case["refused"]
        return
    assert reader.decode(*arguments).model_dump(mode="json", exclude_defaults=True) == case["event"]


def test_a_record_over_the_limit_is_oversized() -> None:
    value = orjson.dumps({"event_id": "e-1", "question": "Q?", "answer": "A."})
    assert JsonReader(max_event_bytes=len(value)).decode(value).event_id == "e-1"
    with pytest.raises(DecodeError, match=f"at most {len(value) - 1} bytes .got {len(value)}") as refused:
        JsonReader(max_event_bytes=len(value) - 1).decode(value)
    assert refused.value.reason == "oversized"


def test_json_without_end_is_refused() -> None:
    for value in (b'{"a":' + b"[" * 10_000 + b"]" * 10_000 + b"}", b"[" * 100_000):
        with pytest.raises(DecodeError, match="value: is not valid JSON"):
            INGEST.decode(value)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=10,
)
ENVELOPE = ("specversion", "type", "source", "id", "data", "data_base64", "time", "traceparent")
NAMES = [*QAEvent.model_fields, *ENVELOPE]
HEADER_NAMES = ["content-type", "ce_specversion", "ce_id", "ce_time", "traceparent", "tracestate", "x"]
HEADER_VALUES = st.sampled_from([b"application/cloudevents+json", b"1.0", PARENT])
HEADERS = st.lists(
    st.tuples(st.sampled_from(HEADER_NAMES), st.none() | st.binary(max_size=20) | HEADER_VALUES), max_size=4
)


@given(
    st.dictionaries(st.sampled_from(NAMES), JSON | st.text(max_size=5)), HEADERS, st.integers() | st.none()
)
def test_any_json_is_accepted_or_refused(document: Any, headers: Any, timestamp: int | None) -> None:
    try:
        event = INGEST.decode(json.dumps(document).encode(), headers, timestamp)
    except DecodeError as error:
        error.detail.encode()  # raises if the detail is not valid Unicode
    else:
        event.model_dump_json()


@pytest.mark.parametrize("name", ["expertqa_events.jsonl", "nq_events.jsonl"])
def test_real_events(name: str) -> None:
    file = SHARED_DATA / name
    if not file.exists():
        pytest.skip(f"{name} is not here")
    lines = file.read_bytes().splitlines()
    assert len([INGEST.decode(line) for line in lines]) == len(lines) > 100


OF_PARTS = JsonReader(max_event_bytes=4_194_304, mapping={"answer": "join(' ', said[*].text)"})


def _record(**fields: Any) -> Any:
    value = json.dumps({"event_id": "e", "question": "q", **fields}).encode()
    return SimpleNamespace(value=value, headers=[("traceparent", b"x")], timestamp=1.0)


@pytest.mark.parametrize(
    ("value", "parts"),
    [
        (None, 0),
        (b"[{}]", 0),  # short, so not counted
        (b"[" + b"{}," * 10_000 + b"{}]", 1 + 10_001 + 10_000),
        (b'{"answer": "' + b"a" * 20_000 + b'"}', 1),
        (b'{"data_base64": "' + b"a" * 20_000 + b'"}', 20_019),  # base64 content counts as its bytes
    ],
)
def test_parts_are_counted(value: bytes | None, parts: int) -> None:
    """Parts are commas and opening brackets, also inside texts."""
    assert JsonReader(max_event_bytes=1).parts(value) == parts


async def test_a_record_of_many_parts_is_read_as_any_other() -> None:
    said = [{"text": f"w{number}"} for number in range(10_000)]
    event = await OF_PARTS.read(_record(said=said))
    assert event.answer.split() == [one["text"] for one in said]
    with pytest.raises(DecodeError, match=r"context\.Page-1: must be text") as refused:
        await OF_PARTS.read(_record(said=said, context=[1] * 9_999))
    assert refused.value.reason == "undecodable"


async def test_what_takes_too_long_or_too_much_is_refused() -> None:
    value = _record(said=[{}] * 100_000).value
    with pytest.raises(DecodeError, match=r"too many parts to be read within 0\.001 s") as refused:
        await read_beside(200_000, OF_PARTS.decode, value, seconds=0.001)
    assert refused.value.reason == "oversized"
