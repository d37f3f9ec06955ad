"""The intake of conversations: events are judged at once, the conversation when it is idle."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from judge.metrics.packs.pack import parse_pack
from judge.metrics.registry import build_metric
from schemas import QAEvent
from streams.errors import SettingsError
from streams.intake.joining import intakes
from streams.intake.joining.intakes import ConversationIntake, Joining
from streams.intake.joining.join import JoinBounds, joined
from streams.intake.reading.decode import JsonReader
from streams.intake.sampling import SamplingPolicy
from streams.intake.selector import Intake, Route, Selector
from streams.kafka.record import Record
from streams.telemetry.instruments import Metrics
from tests.integration.deadlines import until
from tests.streams.records import FakePast, Outbox, make_record

BOUNDS = JoinBounds(grace=0, idle=0.05, longest=600, groups=100, size=1_000_000)
START = datetime(2026, 11, 21, 9, tzinfo=UTC)
PACK = b'{"score_range": [1, 5], "messages": [{"role": "user", "content": "{messages} {answer}"}]}'
METRICS = {
    "whole": build_metric("whole", pack=parse_pack(PACK, dialect="yaml", origin="p")),
    "tone": build_metric("tone"),
}


def event(number: int, **fields: Any) -> QAEvent:
    texts = {"question": f"q{number}", "answer": f"a{number}", "conversation_id": "c-1"}
    at = START + timedelta(seconds=number)
    return QAEvent.model_validate({"event_id": f"e-{number}", "occurred_at": at} | texts | fields)


def record(number: int, *, key: bytes | None = b"c-1", **fields: Any) -> Record:
    value = event(number, **fields).model_dump_json().encode()
    return make_record(value, key=key, offset=number, timestamp=START.timestamp())


class Stage:
    def __init__(
        self,
        *,
        rate: float = 1.0,
        single: tuple[str, ...] = ("tone",),
        past: Any = None,
        bounds: Any = BOUNDS,
    ) -> None:
        self.outbox: Any = Outbox()
        self.metrics = Metrics(CollectorRegistry())
        self.quiet = False  # whether everything is read
        seconds = count()
        policy = SamplingPolicy(default_rate=rate, key="record_key")

        def polled(*_: Any) -> float | None:
            return next(seconds) if self.quiet else None

        def intake(*names: str) -> Intake:
            selector = Selector(policy, tuple(Route(name) for name in names), METRICS)
            read = JsonReader(max_event_bytes=1_000_000).read
            return Intake(read=read, selector=selector, output=self.outbox, counts=self.metrics)

        joining = Joining(
            counts=self.metrics, bounds=bounds, past=past or cast("Any", FakePast()), polled=polled
        )
        self.intake = ConversationIntake(events=intake(*single), whole=intake("whole"), joining=joining)

    def started(self, *records: Record) -> list[asyncio.Task[None]]:
        return [asyncio.create_task(self.intake.handle(one)) for one in records]

    async def holds(self, events: int) -> None:
        await until(lambda: sum(len(one.parts) for one in self.intake._open) == events, f"{events} held")

    def tasks(self, metric: str) -> list[Any]:
        return [task for task in self.outbox.tasks if task.metric == metric]

    def counts(self) -> dict[tuple[str, str], int]:
        return dict(self.metrics.event_counts())


async def ended(*tasks: asyncio.Task[None]) -> None:
    await asyncio.wait_for(asyncio.gather(*tasks), 30)


def _texts(*events: QAEvent) -> list[str]:
    return [message.content for message in joined(events).messages or ()]


def _said(*texts: str) -> list[dict[str, str]]:
    return [{"role": "user" if text[0] == "q" else "assistant", "content": text} for text in texts]


def test_a_window_of_the_latest_messages_adds_what_is_new_in_it() -> None:
    """A repeated question stays twice; an event without messages adds its question and answer."""
    windows = [
        event(1, messages=_said("q1")),
        event(2, messages=_said("q1", "a1", "q2", "a2")),
        event(3, messages=_said("a1", "q2", "a2", "q3", "a3")),
        event(4, messages=_said("a3", "q4")),
        event(5, messages=_said("q9", "a9")),
    ]
    assert _texts(*windows) == ["q1", "a1", "q2", "a2", "q3", "a3", "q4", "a4", "q9", "a9"]
    assert _texts(event(1, question="q", answer="a"), event(2, question="q", answer="a")) == ["q", "a"] * 2
    history = event(2, messages=_said("q1", "a1", "q2", "a2"))
    assert _texts(event(1), history, event(3)) == ["q1", "a1", "q2", "a2", "q3", "a3"]


@given(st.lists(st.sampled_from("qrs"), min_size=1, max_size=30), st.integers(1, 8))
def test_windows_of_one_conversation_give_it_back(letters: list[str], size: int) -> None:
    said = _said(*(f"{'qa'[place % 2]}{place}{letter}" for place, letter in enumerate(letters * 2)))
    events = [
        event(end, answer=said[end]["content"], messages=said[max(0, end + 1 - size - 2) : end + 1])
        for end in range(1, len(said), 2)
    ]
    assert _texts(*events) == [one["content"] for one in said]


def test_ten_thousand_events_are_joined_in_linear_time() -> None:
    """The latest 200 turns are kept in order, for any order of arrival; a repeated event counts once."""
    events = [event(number) for number in range(10_000)]
    assert _texts(*events[::-1], *events[:5]) == [
        text for number in range(9_900, 10_000) for text in (f"q{number}", f"a{number}")
    ]


async def test_each_event_is_judged_at_once_and_the_whole_when_it_is_idle() -> None:
    """Until then its records are held."""
    stage = Stage()
    held = stage.started(record(1), record(2))
    await stage.holds(2)
    await until(lambda: len(stage.tasks("tone")) == 2, "two tasks")
    assert stage.tasks("whole") == []
    assert not any(task.done() for task in held)
    stage.quiet = True
    await ended(*held)
    (whole,) = stage.tasks("whole")
    assert (whole.event_id, whole.answer) == ("c-1", "a2")
    messages = [one.model_dump(include={"role", "content"}) for one in whole.messages]
    assert messages == _said("q1", "a1", "q2", "a2")
    assert stage.counts() == {("sampled", ""): 3}


async def test_an_event_of_a_conversation_needs_no_metric_of_its_own() -> None:
    """Without a conversation it is unroutable."""
    stage = Stage(single=())
    held = stage.started(record(1), record(2, conversation_id=None))
    await ended(held[1])
    assert [reason for reason, _ in stage.outbox.letters] == ["unroutable"]
    await stage.holds(1)
    stage.quiet = True
    await ended(held[0])
    assert len(stage.tasks("whole")) == 1
    assert stage.counts() == {("skipped", "in_conversation"): 1, ("unroutable", ""): 1, ("sampled", ""): 1}


async def test_a_conversation_is_sampled_as_a_whole() -> None:
    stage = Stage(rate=0.0)
    await ended(*stage.started(record(1), record(2)))
    assert stage.outbox.tasks == []


async def test_a_restart_reads_events_before_the_offset() -> None:
    """A repeated event counts once."""
    stage = Stage(past=FakePast(records=(record(1), record(2))))
    held = stage.started(record(3), record(3))
    await stage.holds(4)
    stage.quiet = True
    await ended(*held)
    (whole,) = stage.tasks("whole")
    assert [one.content for one in whole.messages] == ["q1", "a1", "q2", "a2", "q3", "a3"]


async def test_a_group_beyond_the_bound_is_closed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intakes, "LONGEST_SLEEP_SECONDS", 3_600.0)
    stage = Stage(bounds=replace(BOUNDS, idle=3_600, longest=3_600, groups=1))
    first, _ = stage.started(record(1), record(2, key=b"c-2", conversation_id="c-2"))
    await ended(first)
    assert [task.event_id for task in stage.tasks("whole")] == ["c-1"]
    stage.intake.release()


async def test_records_have_to_be_keyed_by_conversation() -> None:
    with pytest.raises(SettingsError, match="needs records keyed by conversation_id"):
        await Stage().intake.handle(record(1, key=b"other"))


async def test_a_record_that_is_no_event_is_set_aside() -> None:
    stage = Stage()
    await ended(*stage.started(make_record(b"no", key=b"c-1", timestamp=START.timestamp())))
    assert [reason for reason, _ in stage.outbox.letters] == ["undecodable"]
