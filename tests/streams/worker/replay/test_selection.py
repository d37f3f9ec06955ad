"""Which tasks the records of the past become."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

from schemas import JudgeTask
from streams.intake.from_settings import event_policy
from streams.judging.metrics import build_metrics
from streams.kafka.stretch import PastRecord
from streams.settings import Settings
from streams.worker.replay.selection import Selection, Tally
from tests.streams.intake.reading.otlp.building import request, span

ASK = {"openinference.span.kind": "CHAIN", "input.value": "How long?", "output.value": "12 hours"}
CALL = {"openinference.span.kind": "LLM", "llm.output_messages.0.message.content": "a draft"}
TRACES = ["f" * 32, "e" * 32]


def settings(**changes: Any) -> Settings:
    document = {
        "metrics": {"relevance": {}},
        "judge": {"endpoints": [{"name": "j", "model": "m"}]},
        **changes,
    }
    return Settings.model_validate(document)


async def selected(
    settings: Settings, records: Sequence[PastRecord], *, first: int = 0, end: int = 1_000, **options: Any
) -> tuple[list[JudgeTask], Tally]:
    async def given() -> AsyncIterator[PastRecord]:
        for record in records:
            yield record

    selection = Selection(settings, build_metrics(settings), "replay-1", **options)
    tally = Tally()
    inside = lambda record: first <= record.offset < end  # noqa: E731 - the shortest form
    return [task async for task in selection.tasks(given(), tally, inside)], tally


def event(number: int, **fields: Any) -> PastRecord:
    value = {"event_id": f"e{number}", "question": "How?", "answer": "So.", **fields}
    return PastRecord("qa.events", 0, number, 1.0, None, json.dumps(value).encode())


async def test_the_events_are_those_that_the_live_stream_sampled() -> None:
    """With the live probability; those of a file are all taken.

    Every record is accounted for.
    """
    half = settings(sampling={"default_rate": 0.5})
    records = [*map(event, range(100)), PastRecord("qa.events", 0, 100, 1.0, None, b"nonsense")]
    policy = event_policy(half, otlp=False)
    kept = [f"e{n}" for n in range(100) if policy.decide(event_id=f"e{n}", labels={}).keep]

    tasks, tally = await selected(half, records)
    assert [task.event_id for task in tasks] == kept
    assert {task.sampling.probability for task in tasks} == {0.5}
    assert {task.replay_id for task in tasks} == {"replay-1"}
    assert (tally.records, tally.sampled) == (101, len(kept))
    assert tally.passed == {"not_sampled": 100 - len(kept), "undecodable": 1}

    tasks, _ = await selected(half, records, whole=True)
    assert len(tasks) == 100


async def test_only_the_parts_that_fell_are_judged() -> None:
    """An event belongs to a part that has all its labels."""
    records = [
        event(0, labels={"app": "a", "model": "m"}),
        event(1, labels={"app": "a"}),
        event(2, labels={"app": "b"}),
    ]
    tasks, tally = await selected(settings(), records, parts=[{"app": "a", "model": "m"}, {"app": "b"}])
    assert [task.event_id for task in tasks] == ["e0", "e2"]
    assert tally.passed == {"other_part": 1}


CONVERSATIONS = {
    "metrics": {"refusal": {}, "tone": {"unit": "conversation"}},
    "sampling": {"key": "record_key"},
    "ingest": {"conversations": {"idle_seconds": 10, "max_seconds": 60}},
}


def turn(number: int, conversation: str, timestamp: float | None) -> PastRecord:
    one = event(number, conversation_id=conversation)
    return PastRecord("qa.events", 0, number, timestamp, conversation.encode(), one.value)


async def test_conversations_are_joined_by_the_time_of_their_records() -> None:
    """As the live stream closes them: what comes after a conversation was idle changes nothing of it.

    c-1 began before the stretch and is another one's; c-2 ends after it and is whole.
    """
    found = settings(**CONVERSATIONS)
    records = [
        turn(0, "c-1", 1.0),
        turn(1, "c-1", 5.0),
        turn(2, "c-2", 6.0),
        turn(3, "c-2", 9.0),
        turn(4, "c-2", 30.0),
    ]
    tasks, tally = await selected(found, records, first=1, end=3)
    assert [(task.metric, task.event_id) for task in tasks] == [
        ("refusal", "e1"),
        ("refusal", "e2"),
        ("tone", "c-2"),
    ]
    assert tasks[-1].source.offset == 2
    assert (tally.records, tally.sampled) == (2, 3)


async def test_a_file_has_whole_conversations() -> None:
    """Its lines have no time of their own."""
    lines = [turn(0, "c-1", None), turn(1, "c-2", None), turn(2, "c-1", None)]
    tasks, _ = await selected(settings(**CONVERSATIONS), lines, whole=True)
    assert [task.event_id for task in tasks if task.metric == "tone"] == ["c-1", "c-2"]


async def test_traces_are_joined_by_the_time_of_their_records() -> None:
    """A trace is of the stretch where its first record is, with what came later.

    The first trace began before the stretch (offset 0); the second one begins in it and ends behind it.
    """

    def record(offset: int, trace_id: str, **of_span: Any) -> PastRecord:
        value = request(span(offset + 1, "s", trace_id=trace_id, **of_span))
        return PastRecord("otlp", 0, offset, 100.0 + offset, trace_id.encode(), value)

    records = [
        record(0, TRACES[0], attributes=CALL, parent=2),
        record(1, TRACES[0], attributes=ASK),
        record(2, TRACES[1], attributes=CALL, parent=4),
        record(3, TRACES[1], attributes=ASK),
    ]
    tasks, _ = await selected(settings(ingest={"format": "otlp"}), records, first=1, end=3)
    assert [(task.event_id, task.answer) for task in tasks] == [(TRACES[1], "12 hours")]
