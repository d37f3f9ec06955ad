"""The intake of traces: one event per trace, offsets held meanwhile, late and repeated records."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from functools import partial
from typing import Any, cast

import pytest
from prometheus_client import CollectorRegistry

from judge.metrics.coverage import Coverage
from streams.errors import SettingsError
from streams.intake.joining.intakes import GroupIntake, Joining
from streams.intake.joining.join import JoinBounds
from streams.intake.reader import GroupReader, GroupSampler
from streams.intake.reading.otlp.reader import OtlpReader
from streams.intake.sampling import Head, SamplingPolicy, event_randomness, threshold
from streams.intake.selector import Intake, Route, Selector
from streams.kafka.record import Record
from streams.telemetry.instruments import Metrics
from tests.integration.deadlines import until
from tests.streams.intake.reading.otlp.building import log_record, log_request, request, span
from tests.streams.records import FakePast, Outbox, make_record

LONG = JoinBounds(grace=0.02, idle=0.1, longest=1, groups=100, size=1_000_000)
ASK = {"openinference.span.kind": "CHAIN", "input.value": "How long?", "output.value": "12 hours"}
CALL = {"openinference.span.kind": "LLM", "llm.output_messages.0.message.content": "a draft"}
TRACES = {"unit": "trace"}
KEPT, DROPPED = "f" * 32, "0" * 31 + "1"


otlp_record = partial(make_record, key=KEPT.encode(), topic="otlp_spans", timestamp=1_795_291_000.0)


class Stage:
    def __init__(
        self, *, unit: Any = "trace", rate: float = 1.0, past: Any = None, bounds: JoinBounds = LONG
    ) -> None:
        self.outbox = cast("Any", Outbox())
        self.metrics = Metrics(CollectorRegistry())
        self.past = cast("Any", past or FakePast())
        policy = SamplingPolicy(default_rate=rate, upstream="equalize")
        joins = bounds if unit == "trace" else None
        self.reader = OtlpReader(unit=unit, max_event_bytes=1_000_000, bounds=joins)
        self.push_down = GroupSampler(policy, self.reader)
        selector = Selector(policy, (Route("coverage"),), {"coverage": Coverage()})
        intake = Intake(selector=selector, output=self.outbox, counts=self.metrics)
        joining = Joining(counts=self.metrics, bounds=bounds, past=self.past)
        self.intake = GroupIntake(sampler=self.push_down, intake=intake, joining=joining)

    async def handle(self, *records: Record) -> None:
        async with asyncio.timeout(5):
            await asyncio.gather(*(self.intake.handle(record) for record in records))

    def counts(self) -> dict[tuple[str, str], int]:
        return dict(self.metrics.event_counts())


def children(trace_id: str = KEPT, **fields: Any) -> Record:
    return otlp_record(request(span(2, "call", CALL, parent=1, trace_id=trace_id)), **fields)


def root(trace_id: str = KEPT, **fields: Any) -> Record:
    return otlp_record(request(span(1, "ask", ASK, trace_id=trace_id)), **fields)


@pytest.mark.parametrize("order", [(children, root), (root, children), (children, children, root, root)])
async def test_a_trace_in_several_records_becomes_one_event(order: Iterable[Any]) -> None:
    stage = Stage()
    await stage.handle(*(make(offset=index) for index, make in enumerate(order)))
    (task,) = stage.outbox.tasks
    assert (task.event_id, task.question, task.answer) == (KEPT, "How long?", "12 hours")
    assert stage.counts() == {("sampled", ""): 1}


async def test_records_are_held_until_what_follows_was_written() -> None:
    """So is a record that is read again meanwhile."""
    stage = Stage()
    stage.outbox.gate = asyncio.Event()
    held = asyncio.create_task(stage.handle(children(), root(offset=1)))
    await asyncio.wait({held}, timeout=0.1)
    again = asyncio.create_task(stage.handle(root(offset=1, generation_id=2)))
    await asyncio.wait({held, again}, timeout=0.1)
    assert [held.done(), again.done()] == [False, False]
    stage.outbox.gate.set()
    await asyncio.gather(held, again)
    assert len(stage.outbox.tasks) == 1


async def test_a_late_record_changes_nothing() -> None:
    stage = Stage()
    await stage.handle(root())
    await stage.handle(children(offset=9))
    assert [task.answer for task in stage.outbox.tasks] == ["12 hours"]
    assert stage.counts() == {("sampled", ""): 1}
    assert stage.metrics.registry.get_sample_value("judgestream_joins_late_records", TRACES) == 1


async def test_revoked_partitions_cancel_their_traces() -> None:
    stage = Stage(bounds=JoinBounds(grace=0.05, idle=60, longest=60, groups=100, size=1_000_000))
    held = asyncio.create_task(stage.handle(children()))
    registry = stage.metrics.registry
    await until(lambda: registry.get_sample_value("judgestream_joins_open", TRACES) == 1, "an open trace")
    stage.intake.release()
    with pytest.raises(asyncio.CancelledError):
        await held
    assert registry.get_sample_value("judgestream_joins_open", TRACES) == 0
    assert stage.outbox.tasks == []
    await stage.handle(children(generation_id=2), root(offset=1, generation_id=2))
    assert [task.answer for task in stage.outbox.tasks] == ["12 hours"]


async def test_a_restart_reads_spans_before_the_offset() -> None:
    retrieved = {"openinference.span.kind": "RETRIEVER", "retrieval.documents.0.document.content": "a page"}
    before = otlp_record(request(span(3, "find", retrieved, parent=1, trace_id=KEPT)), offset=3)
    stage = Stage(past=FakePast((before, otlp_record(b"nonsense", offset=4))))
    await stage.handle(root(offset=7), root(trace_id="e" * 32, key=b"e" * 32, offset=8))
    found = {task.event_id: task.labels.get("context_from") for task in stage.outbox.tasks}
    assert found == {KEPT: "retrieval", "e" * 32: None}
    # Once per partition and assignment: from 1 s (`longest`) before the first record, up to its offset.
    assert stage.past.asked == [(0, 1_795_290_999.0, 7)]


async def test_records_without_the_trace_id_as_key_are_refused() -> None:
    for key in (None, b"shop"):
        with pytest.raises(SettingsError, match=r"partition_traces_by_id: true.*ingest\.otlp\.unit: span"):
            await Stage().handle(root(key=key))
    one_partition = Stage(past=FakePast(count=1))
    await one_partition.handle(root(key=None))
    assert len(one_partition.outbox.tasks) == 1


async def test_unit_span_needs_no_keys_and_joins_nothing() -> None:
    stage = Stage(unit="span")
    await stage.handle(children(key=None), root(key=None))
    assert [(task.event_id, task.answer) for task in stage.outbox.tasks] == [(f"{KEPT}:{2:016x}", "a draft")]


async def test_traces_out_of_the_sample_finish_at_once_and_count_where_their_root_is() -> None:
    """At rate 0.5: R of the one trace is 2^56 - 1, of the other 1. The tracestate's lower 25% applies."""
    stage = Stage(rate=0.5)
    dropped = [make(DROPPED, key=DROPPED.encode()) for make in (children, root)]
    records = [children(), root(), *dropped]
    delivered: list[Any] = [record for record in records if stage.push_down(record)]
    assert delivered == records[:2]
    assert stage.push_down.skipped == {"filtered": 0, "not_sampled": 1}
    await stage.handle(otlp_record(request(*(span(1, "ask", ASK, trace_id=one) for one in (KEPT, DROPPED)))))
    thinned = span(1, "ask", ASK, trace_id="e" * 32, tracestate="ot=th:c")
    await stage.handle(otlp_record(request(thinned), key=b"e" * 32, offset=1))
    assert [task.sampling.probability for task in stage.outbox.tasks] == [0.5, 0.25]
    assert stage.counts() == {("sampled", ""): 2, ("skipped", "not_sampled"): 1}


async def test_undecodable_traces_become_dead_letters() -> None:
    stage = Stage(rate=0.5)
    odd_id = request(span(1, "x", trace_id="not hexadecimal, but 32 long ...."[:32]))
    for value in (b"nonsense", None, b'{"resourceSpans": 3}', odd_id):
        record = otlp_record(value)
        assert stage.push_down(record)
        await stage.handle(record)
    assert [reason for reason, _ in stage.outbox.letters] == ["undecodable"] * 4
    assert stage.counts() == {("undecodable", "undecodable"): 4}


async def test_a_trace_without_an_answer_is_skipped_with_the_reason() -> None:
    stage = Stage()
    await stage.handle(otlp_record(request(span(1, "x", {"gen_ai.request.model": "m"}, trace_id=KEPT))))
    assert stage.counts() == {("skipped", "no_content"): 1}


async def test_an_unexpected_error_sets_one_trace_aside() -> None:
    stage = Stage()
    stage.outbox.task = None  # calling it raises TypeError
    await stage.handle(children(), root(offset=1))
    assert [reason for reason, _ in stage.outbox.letters] == ["undecodable"]
    assert stage.counts() == {("undecodable", "internal_error"): 1}


@pytest.mark.parametrize("unit", ["trace", "span"])
async def test_a_verdict_that_a_collector_sends_back_is_no_part_of_its_trace(unit: str) -> None:
    stage = Stage(unit=unit, past=FakePast((children(), root(offset=1))))
    verdict = log_record("gen_ai.evaluation.result", {"judgestream.result_id": "r"}, trace_id=KEPT)
    await stage.handle(otlp_record(log_request(verdict), offset=5))
    assert stage.outbox.tasks == []
    assert stage.counts() == {}


def test_groups_of_another_reader_are_sampled_as_the_events_of_their_ids() -> None:
    """Ids that are no trace ids, as a package of its own may have them."""

    class Orders(OtlpReader):
        randomness = GroupReader.randomness

        def heads(self, value: bytes | None) -> list[Head]:
            return [Head((value or b"").decode(), "", 1)]

    sampler = GroupSampler(SamplingPolicy(default_rate=0.5), Orders(unit="trace", max_event_bytes=100))
    ids = [f"order-{number}" for number in range(200)]
    kept = [one for one in ids if sampler(make_record(one.encode()))]
    assert kept == [one for one in ids if event_randomness(one, None, None) >= threshold(0.5)]
    assert 60 < len(kept) < 140
