"""Each line of `cases/*.jsonl` has the spans or log records of a trace, and what is read of them.

families: content of each family of instrumentation, in current and older versions. content: questions,
answers and pages in further forms. traces: which step answers.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from streams.intake.reading.otlp.reader import OtlpReader
from tests.streams.intake.reading.otlp.building import log_record, log_request, request, span


def cases() -> Iterator[Any]:
    for file in sorted((Path(__file__).parent / "cases").glob("*.jsonl")):
        for line in file.read_text("utf-8").splitlines():
            case = json.loads(line)
            yield pytest.param(case, id=f"{file.stem}: {case['name']}")


@pytest.mark.parametrize("case", list(cases()))
def test_a_trace_is_read(case: dict[str, Any]) -> None:
    reader = OtlpReader(
        unit=case.get("unit", "trace"), max_event_bytes=1_000_000, mapping=case.get("mapping")
    )
    scope = case.get("scope", "test")
    if "spans" in case:
        spans = (span(**one) for one in case["spans"])
        value = request(*spans, scope=scope, resource=case.get("resource"))
    else:
        value = log_request(*(log_record(**one) for one in case["logs"]), scope=scope)
    (of_trace,) = reader.parts(value).values()
    reading = reader.read(of_trace)
    events = [event.model_dump(mode="json", exclude_none=True) for event in reading.events]
    assert events == case.get("events", [])
    assert (reading.why_none, list(reading.silent)) == (case.get("why_none"), case.get("silent", []))
