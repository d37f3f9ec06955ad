"""Real payloads give the expected events; see samples/README.md."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from streams.intake.reading.otlp.reader import OtlpReader
from tests.streams.intake.reading.otlp.building import log_record, log_request, request, span
from tests.streams.intake.reading.otlp.golden_files import GOLDEN, SAMPLES, events_of, lines_of, names, topic

QUESTION = "How long does the lamp's battery last?"
ANSWER = "The battery lasts 12 hours. Evidence: [Page 2]"
PAGES = {"Page-1": "The lamp weighs 340 g.", "Page-2": "A full charge lasts 12 hours."}

WITHOUT = {
    "pydantic-ai-2.62.0-without-content": "no_content",
    "pydantic-evals-2.62.0-evaluation-logs": "no_model",  # another tool's evaluation
    "th-classic-TraceIdRatioBased": "no_model",  # spans without a model call
    "th-composite": "no_model",
    "verdict-after-collector-v1-logs": "ours",
    "verdict-gen_ai.evaluation.result-logs": "ours",
}


@pytest.mark.parametrize("name", names())
def test_a_sample_becomes_its_golden_events(name: str) -> None:
    for path in SAMPLES.glob(f"{name}.*"):  # in Protobuf, in JSON or in both
        assert lines_of(events_of([path.read_bytes()])) == (GOLDEN / f"{name}.jsonl").read_text()


@pytest.mark.parametrize("name", [name for name in names() if name not in WITHOUT])
def test_the_golden_events_are_what_a_person_reads(name: str) -> None:
    record = next(SAMPLES.glob(f"{name}.*")).read_bytes()
    traces = OtlpReader(unit="trace", max_event_bytes=1_000_000).parts(record)
    events = events_of([record])
    assert {(event.question, event.answer) for event in events} == {(QUESTION, ANSWER)}
    # Calls of the Responses API, and agents without a tool, had no pages; one tool found page 2 alone.
    for event in events:
        recorded = repr(traces[event.event_id])
        assert sorted((event.context or {}).values(), reverse=True) == [
            text for text in PAGES.values() if text in recorded
        ]


@pytest.mark.parametrize(("name", "reason"), WITHOUT.items())
def test_a_trace_without_an_answer_says_why(name: str, reason: str) -> None:
    reader = OtlpReader(unit="trace", max_event_bytes=1_000_000)
    spans = reader.parts(next(SAMPLES.glob(f"{name}.*")).read_bytes())
    assert {reader.read(of_trace).why_none for of_trace in spans.values()} == {reason}


def test_the_records_of_all_topics_tell_the_same() -> None:
    unkeyed, keyed, as_json = (events_of(topic(f"otlp_spans{kind}")) for kind in ("", "_keyed", "_json"))
    assert len(unkeyed) == 10
    assert lines_of(unkeyed) == lines_of(keyed) == lines_of(as_json)


def test_unit_span_makes_an_event_of_each_call() -> None:
    """Langfuse recorded one of the ten calls in two layers, of which the outer one is used."""
    events = events_of(topic("otlp_spans"), "span")
    assert len(events) == 10
    assert {event.answer for event in events} == {ANSWER}
    assert all(event.event_id == f"{event.trace_id}:{event.span_id}" for event in events)


FILES = sorted((Path(__file__).parent / "cases").glob("*.jsonl"))
CASES = [json.loads(line) for file in FILES for line in file.read_text("utf-8").splitlines()]


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_a_trace_is_read(case: dict[str, Any]) -> None:
    unit, scope = case.get("unit", "trace"), case.get("scope", "test")
    reader = OtlpReader(unit=unit, max_event_bytes=1_000_000, mapping=case.get("mapping"))
    spans = (span(**one) for one in case.get("spans", ()))
    value = request(*spans, scope=scope, resource=case.get("resource"))
    if "logs" in case:
        value = log_request(*(log_record(**one) for one in case["logs"]), scope=scope)
    (of_trace,) = reader.parts(value).values()
    reading = reader.read(of_trace)
    events = [event.model_dump(mode="json", exclude_none=True) for event in reading.events]
    assert events == case.get("events", [])
    assert (reading.why_none, list(reading.silent)) == (case.get("why_none"), case.get("silent", []))
