"""Records with many parts are decoded in a child process."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from streams.errors import DecodeError
from streams.intake.reader import read_beside
from streams.intake.reading.decode import JsonReader, parts_of

INGEST = JsonReader(max_event_bytes=4_194_304, mapping={"answer": "join(' ', said[*].text)"})


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
    assert parts_of(value) == parts


async def test_a_record_of_many_parts_is_read_as_any_other() -> None:
    """A record of 10,000 objects is decoded, and its errors are reported, as in the worker's process."""
    said = [{"text": f"w{number}"} for number in range(10_000)]
    event = await INGEST.read(_record(said=said))
    assert event.answer.split() == [one["text"] for one in said]
    with pytest.raises(DecodeError, match=r"context\.Page-1: must be text") as refused:
        await INGEST.read(_record(said=said, context=[1] * 9_999))
    assert refused.value.reason == "undecodable"


async def test_what_takes_too_long_or_too_much_is_refused() -> None:
    value = _record(said=[{}] * 100_000).value
    with pytest.raises(DecodeError, match=r"too many parts to be read within 0\.001 s") as refused:
        await read_beside(200_000, INGEST.decode, value, seconds=0.001)
    assert refused.value.reason == "oversized"
