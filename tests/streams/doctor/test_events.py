"""The doctor's checks of the newest records."""

from __future__ import annotations

import json
from typing import Any

import pytest

from streams.doctor.events import check_events
from streams.intake.trial import RawRecord
from streams.settings import Settings
from tests.streams.intake.reading.otlp.building import TRACE, request, span

OTLP = {"format": "otlp"}
CALL = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}
SAID = CALL | {"gen_ai.output.messages": "12 hours"}


def told(ingest: dict[str, Any], *records: RawRecord, partitions: int = 4) -> list[tuple[str, str, str]]:
    settings = Settings.model_validate({"ingest": ingest})
    return [(one.outcome, one.detail, one.remedy) for one in check_events(settings, records, partitions)]


def test_a_topic_of_readable_records_is_ok() -> None:
    """Readable records of JSON and of traces are counted; an empty topic is ok."""
    event = RawRecord(b'{"event_id": "e", "question": "?", "answer": "!"}')
    assert told({}, event, event) == [("ok", "2 of the 2 newest records become events", "")]
    trace = RawRecord(request(span(1, "chat", SAID)), key=TRACE.encode())
    assert told(OTLP, trace) == [("ok", "1 of the 1 newest traces become events", "")]
    assert told({}) == [("ok", "has no records", "")]


def test_records_that_cannot_be_read_are_counted_with_the_first_problem() -> None:
    """Unreadable records are counted, with the first problem and `judgestream map` as remedy."""
    _, (outcome, detail, remedy) = told({}, RawRecord(b"{}"), RawRecord(b"x"))
    assert outcome == "warning"
    assert detail.startswith("2 of them cannot be read; the first one: event_id: must be text")
    assert "judgestream map" in remedy


@pytest.mark.parametrize("key", [None, b"shop"])
def test_traces_that_are_not_keyed_by_trace_id_are_a_failure(key: bytes | None) -> None:
    """Traces not keyed by trace id fail, if they are joined and the topic has several partitions."""
    trace = RawRecord(request(span(1, "chat", SAID)), key=key)
    assert told(OTLP, trace)[1][0] == "failed"
    assert "partition_traces_by_id: true" in told(OTLP, trace)[1][2]
    assert len(told(OTLP, trace, partitions=1)) == 1
    assert len(told(OTLP | {"otlp": {"unit": "span"}}, trace)) == 1


def test_traces_without_content_name_the_switch() -> None:
    """Traces without content give a warning with the capture setting of their instrumentation."""
    _, (outcome, detail, remedy) = told(OTLP, RawRecord(request(span(1, "chat", CALL)), key=TRACE.encode()))
    assert (outcome, detail) == (
        "warning",
        "1 of 1 traces have model calls without recorded content (otel-genai)",
    )
    assert "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT" in remedy


def test_unrecognized_citations_give_a_warning() -> None:
    """Unrecognized citations give a warning with an example; a matching citation_pattern removes it."""
    event = {"event_id": "e", "question": "?", "answer": "It is tall {{ref 1}}.", "context": ["It is tall."]}
    record = RawRecord(json.dumps(event).encode())
    _, (outcome, detail, remedy) = told({}, record, record)
    assert outcome == "warning"
    assert detail.startswith("2 of 2 answers have no")
    assert "{{ref 1}}" in detail
    assert "citation_pattern" in remedy
    metrics = {"relevance": {"citation_pattern": r"\{\{ref (\d+)\}\}"}}
    assert len(check_events(Settings.model_validate({"metrics": metrics}), [record], 1)) == 1
