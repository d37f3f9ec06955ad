"""The tasks that a replay makes of past records."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

from schemas import JudgeTask
from streams.batch.selection import PastSelection, RecordCounts
from streams.intake.reader import open_reader
from streams.intake.selector import sampling_policy
from streams.judging.metrics import build_metrics
from streams.kafka.record import Record
from streams.settings.tree import Settings
from tests.streams.intake.reading.otlp.building import request, span

ASK = {"openinference.span.kind": "CHAIN", "input.value": "How long?", "output.value": "12 hours"}
CALL = {"openinference.span.kind": "LLM", "llm.output_messages.0.message.content": "a draft"}
TRACES = ["f" * 32, "e" * 32]


def settings(**changes: Any) -> Settings:
    judge = {"endpoints": [{"name": "j", "model": "m"}]}
    return Settings.model_validate({"metrics": {"relevance": {}}, "judge": judge, **changes})


async def selected(
    settings: Settings, records: Sequence[Record], *, first: int = 0, end: int = 1_000, **options: Any
) -> tuple[list[JudgeTask], RecordCounts]:
    async def given() -> AsyncIterator[Record]:
        for record in records:
            yield record

    selection = PastSelection(
        settings, build_metrics(settings), "replay-1", reader=open_reader(settings, {}), **options
    )
    tally = RecordCounts()
    inside = lambda record: first <= record.offset < end  # noqa: E731 - shorter than a function
    return [task async for task in selection.tasks(given(), tally, inside)], tally


def event(number: int, **fields: Any) -> Record:
    value = {"event_id": f"e{number}", "question": "How?", "answer": "So.", **fields}
    return Record("qa.events", 0, number, 1.0, None, json.dumps(value).encode())


async def test_the_events_are_those_that_the_live_stream_sampled() -> None:
    """Events are sampled as in the live stream; each record is counted."""
    half = settings(sampling={"default_rate": 0.5})
    records = [*map(event, range(100)), Record("qa.events", 0, 100, 1.0, None, b"nonsense")]
    policy = sampling_policy(half.sampling)
    kept = [f"e{n}" for n in range(100) if policy.decide(event_id=f"e{n}", labels={}).keep]

    tasks, tally = await selected(half, records)
    assert [task.event_id for task in tasks] == kept
    assert {task.sampling.probability for task in tasks} == {0.5}
    assert {task.replay_id for task in tasks} == {"replay-1"}
    assert (tally.records, tally.sampled) == (101, len(kept))
    assert tally.passed == {"not_sampled": 100 - len(kept), "undecodable": 1}


async def test_only_the_parts_that_fell_are_judged() -> None:
    """With `parts` only events with all labels of a part are judged."""
    labels = ({"app": "a", "model": "m"}, {"app": "a"}, {"app": "b"})
    records = [event(number, labels=one) for number, one in enumerate(labels)]
    tasks, tally = await selected(settings(), records, parts=[{"app": "a", "model": "m"}, {"app": "b"}])
    assert [task.event_id for task in tasks] == ["e0", "e2"]
    assert tally.passed == {"other_part": 1}


CONVERSATIONS = {
    "metrics": {"refusal": {}, "tone": {"unit": "conversation"}},
    "sampling": {"key": "record_key"},
    "ingest": {"idle_seconds": 10},
}


def turn(number: int, conversation: str, timestamp: float | None) -> Record:
    one = event(number, conversation_id=conversation)
    return Record("qa.events", 0, number, timestamp, conversation.encode(), one.value)


async def test_conversations_are_joined_by_the_time_of_their_records() -> None:
    """Conversations are joined by record time, as in the live stream.

    c-1 started before the range and is skipped; c-2 starts in it and is complete, although it ends after it.
    """
    found = settings(**CONVERSATIONS)
    turns = (("c-1", 1.0), ("c-1", 5.0), ("c-2", 6.0), ("c-2", 9.0), ("c-2", 30.0))
    records = [turn(number, *one) for number, one in enumerate(turns)]
    tasks, tally = await selected(found, records, first=1, end=3)
    judged = [(task.metric, task.event_id) for task in tasks]
    assert judged == [("refusal", "e1"), ("refusal", "e2"), ("tone", "c-2")]
    assert tasks[-1].source.offset == 2
    assert (tally.records, tally.sampled) == (2, 3)


async def test_traces_are_joined_by_the_time_of_their_records() -> None:
    """A trace belongs to the range of its first record, with all later records.

    The first trace starts before the range (offset 0); the second starts in it and ends after it.
    """

    def record(offset: int, trace_id: str, **of_span: Any) -> Record:
        value = request(span(offset + 1, "s", trace_id=trace_id, **of_span))
        return Record("otlp", 0, offset, 100.0 + offset, trace_id.encode(), value)

    records = [
        record(0, TRACES[0], attributes=CALL, parent=2),
        record(1, TRACES[0], attributes=ASK),
        record(2, TRACES[1], attributes=CALL, parent=4),
        record(3, TRACES[1], attributes=ASK),
    ]
    tasks, _ = await selected(settings(ingest={"format": "otlp"}), records, first=1, end=3)
    assert [(task.event_id, task.answer) for task in tasks] == [(TRACES[1], "12 hours")]
