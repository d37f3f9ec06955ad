"""What a replay judges again, by which plan, and what it costs."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from judge.evaluate.evaluator import request_tokens
from schemas import FirstPhase, JudgeTask, QAEvent
from streams.batch.plan import Estimate, Plan, begun_at, new_id, request_of, settings_of
from streams.batch.replay import Replay
from streams.batch.selection import PastSelection, RecordCounts
from streams.errors import SettingsError
from streams.intake.reader import open_reader
from streams.intake.selector import sampling_policy
from streams.judging.endpoints import judge_endpoints
from streams.judging.metrics import build_metrics
from streams.kafka.record import Record
from streams.settings.tree import Settings
from tests.judge.tasks import task_for
from tests.streams.intake.reading.otlp.building import request, span
from tests.streams.results import scored

ASK = {"openinference.span.kind": "CHAIN", "input.value": "How long?", "output.value": "12 hours"}
CALL = {"openinference.span.kind": "LLM", "llm.output_messages.0.message.content": "a draft"}
TRACES = ["f" * 32, "e" * 32]


def settings(**changes: Any) -> Settings:
    judge = {"endpoints": [{"name": "j", "model": "m"}]}
    return Settings.model_validate({"metrics": {"relevance": {}}, "judge": judge, **changes})


async def selected(
    settings: Settings, records: Sequence[Record], *, first: int = 0, end: int = 1_000, **options: Any
) -> tuple[list[JudgeTask], RecordCounts]:
    async def given() -> AsyncGenerator[Record, None]:
        for record in records:
            yield record

    metrics, reader = build_metrics(settings), open_reader(settings, {})
    selection = PastSelection(settings, metrics, "replay-1", reader=reader, **options)
    tally = RecordCounts()
    inside = lambda record: first <= record.offset < end  # noqa: E731 - shorter than a function
    return [task async for task in selection.tasks(given(), tally, inside)], tally


def event(number: int, **fields: Any) -> Record:
    value = {"event_id": f"e{number}", "question": "How?", "answer": "So.", **fields}
    return Record("qa.events", 0, number, 1.0, None, json.dumps(value).encode())


async def test_the_events_are_those_that_the_live_stream_sampled() -> None:
    half = settings(sampling={"default_rate": 0.5})
    records = [*map(event, range(100)), Record("qa.events", 0, 100, 1.0, None, b"nonsense")]
    policy = sampling_policy(half.sampling)
    events = [QAEvent.model_construct(event_id=f"e{number}", question="", answer="") for number in range(100)]
    kept = [one.event_id for one in events if policy.decide_event(one, None).keep]

    tasks, tally = await selected(half, records)
    assert [task.event_id for task in tasks] == kept
    assert {task.sampling.probability for task in tasks} == {0.5}
    assert {task.replay_id for task in tasks} == {"replay-1"}
    assert (tally.records, tally.sampled) == (101, len(kept))
    assert tally.passed == {"not_sampled": 100 - len(kept), "undecodable": 1}


async def test_only_the_parts_that_fell_are_judged() -> None:
    labels = ({"app": "a", "model": "m"}, {"app": "a"}, {"app": "b"})
    records = [event(number, labels=one) for number, one in enumerate(labels)]
    tasks, tally = await selected(settings(), records, parts=[{"app": "a", "model": "m"}, {"app": "b"}])
    assert [task.event_id for task in tasks] == ["e0", "e2"]
    assert tally.passed == {"other_part": 1}


async def test_conversations_are_joined_by_the_time_of_their_records() -> None:
    """c-1 started before the range and is skipped; c-2 starts in it and is complete, though it ends later."""
    metrics = {"refusal": {}, "tone": {"unit": "conversation"}}
    found = settings(sampling={"key": "record_key"}, ingest={"idle_seconds": 10}, metrics=metrics)
    turns = (("c-1", 1.0), ("c-1", 5.0), ("c-2", 6.0), ("c-2", 9.0), ("c-2", 30.0))
    records = [
        replace(event(number, conversation_id=name), timestamp=timestamp, key=name.encode())
        for number, (name, timestamp) in enumerate(turns)
    ]
    tasks, tally = await selected(found, records, first=1, end=3)
    judged = [(task.metric, task.event_id) for task in tasks]
    assert judged == [("refusal", "e1"), ("refusal", "e2"), ("tone", "c-2")]
    assert tasks[-1].source.offset == 2
    assert (tally.records, tally.sampled) == (2, 3)


async def test_traces_are_joined_by_the_time_of_their_records() -> None:
    """The first trace starts before the range (offset 0); the second starts in it and ends after it."""

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


NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
ENDPOINTS = [
    {"name": "first", "base_url": "http://127.0.0.1/v1", "model": "m", "requests_per_minute": 100},
    {"name": "second", "base_url": "http://127.0.0.1/v1", "model": "n", "max_in_flight": 3},
]


def of_two_endpoints() -> Settings:
    metrics = {"coverage": {"endpoints": ["first"]}, "relevance": {}}
    return Settings.model_validate({"metrics": metrics, "judge": {"endpoints": ENDPOINTS}})


def test_an_id_leads_back_to_its_beginning_and_its_options() -> None:
    plan = Plan(since=NOON, metrics=("coverage",))
    name = new_id(plan, NOON)
    assert begun_at(name, Plan(since=NOON, metrics=("coverage",), max_usd=3, per_second=1)) == NOON
    for other in (Plan(since=NOON), Plan(since=NOON + timedelta(1), metrics=("coverage",))):
        with pytest.raises(SettingsError, match="has other options"):
            begun_at(name, other)
    with pytest.raises(SettingsError, match="must be the id of a replay"):
        begun_at("yesterday", plan)


def test_the_named_endpoint_judges_with_a_share_of_its_limits() -> None:
    """A fifth of its limits: 12 of 64 calls, and at least one of 3; a metric's own choice is ignored."""
    found = settings_of(Plan(endpoint="second", metrics=("coverage",)), of_two_endpoints())
    assert [one.name for one in found.judge.endpoints] == ["second"]
    assert (found.judge.max_in_flight, found.judge.endpoints[0].max_in_flight) == (12, 1)
    assert found.metrics["coverage"].endpoints == ()
    assert list(found.metrics) == ["coverage"]
    first = settings_of(Plan(endpoint="first"), of_two_endpoints())
    assert first.judge.endpoints[0].requests_per_minute == pytest.approx(20)


def test_a_pack_replaces_the_prompts_of_its_metric(tmp_path: Path) -> None:
    pack = tmp_path / "tone.md"
    pack.write_text("Score {{ item.output_text }}", encoding="utf-8")
    found = settings_of(Plan(metrics=("tone",), pack=pack), of_two_endpoints())
    assert found.metrics["tone"].prompt_pack == pack
    for plan, problem in (
        (Plan(metrics=("tone",)), "--metric: must be one of coverage, relevance, got 'tone'"),
        (Plan(pack=pack), "--pack: needs exactly one metric, got 2"),
        (Plan(endpoint="third"), "--endpoint: must be one of first, second, got 'third'"),
    ):
        with pytest.raises(SettingsError, match=problem):
            settings_of(plan, of_two_endpoints())


PRICED = {"name": "a", "model": "m", "usd_per_million_tokens": {"input": 1.0, "output": 10.0}}


@pytest.mark.parametrize(
    ("metric", "endpoint", "calls", "written", "prices"),
    [
        ({}, {}, 10, 4_000, (1, 10)),
        ({"panel": {"samples": 3}}, {}, 30, 12_000, (1, 10)),
        # The price in the settings is of another model; 0.4 and 1.6 USD a million tokens are published.
        ({"model": "gpt-4.1-mini"}, {}, 10, 4_000, (0.4, 1.6)),
        ({"code": "latency"}, {}, 0, 0, (0, 0)),
        ({"code": {"similarity": "embeddings"}, "endpoints": ["a"]}, {}, 10, 0, (1, 0)),
        ({}, {"base_url": "http://127.0.0.1:1/v1", "usd_per_million_tokens": None}, 10, 4_000, None),
    ],
    ids=["one call each", "votes", "a model of its own", "code", "vectors", "no price"],
)
def test_calls_of_many_tasks_add_up(
    metric: dict[str, Any],
    endpoint: dict[str, Any],
    calls: int,
    written: int,
    prices: tuple[float, float] | None,
) -> None:
    """Ten tasks with replies of 400 tokens."""
    name = "own" if "code" in metric else "tone"
    judge = {"endpoints": [PRICED | endpoint], "budget": "none"}
    settings = Settings.model_validate({"metrics": {name: metric}, "judge": judge})
    metrics = build_metrics(settings)
    found = Estimate(metrics, settings.metrics, judge_endpoints(settings.judge, {}, settings.metrics))
    task = task_for(metrics[name], reference="Since 1889.")
    for _ in range(10):
        found.add(task)
    request = request_of(metrics[name], task)
    read = 0 if request is None else calls * request_tokens(request)
    assert (found.calls, found.total.input_tokens, found.total.output_tokens) == (calls, read, written)
    cost = None if prices is None else pytest.approx((read * prices[0] + written * prices[1]) / 1e6)
    assert found.total.cost_usd == cost


async def test_a_replay_is_compared_with_the_strong_judge_of_two() -> None:
    """A replay is by the metric's own judge alone: the cheap one's live scores are no earlier ones of it."""
    phase = FirstPhase(fingerprint="cheap", model="small", score=2, probability=0.1, strong="f1")

    async def live() -> AsyncIterator[Record]:
        for number, name in enumerate(["f1", "cheap", "f1"]):
            result = scored(number, 2, fingerprint=name).model_copy(update={"first_phase": phase})
            yield Record(value=result.model_dump_json().encode())

    plan = Plan(since=NOON)
    replay = Replay(plan, "replay-1", NOON, settings(), None, lines=list, tell=print, agrees=bool)
    await replay.take_results(live(), lambda _: True)
    assert [one.fingerprint for one in replay.live["relevance"].values()] == ["f1", "f1"]
