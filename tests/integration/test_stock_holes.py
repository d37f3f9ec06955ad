"""Delivery guarantees that stock Faust breaks, shown on its transport and on this project's.

Both run the same application on the same broker with another transport (and agent, if the defect is in
acknowledging or sending). A broken guarantee is an expected failure on the stock transport, so a later
version of Faust that fixes it fails the test. For `exactly_once` the remedy is not a transport but the
`result_id`, which is equal for every try.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import time
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import faust
import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition
from faust.transport.drivers import aiokafka as stock
from prometheus_client import CollectorRegistry

import streams.kafka.app
from schemas import result_id
from streams.errors import TooLargeError
from streams.kafka.app import App, Pipeline, add_agent, build_app
from streams.kafka.consumer import ConsumerOptions
from streams.kafka.delivery import BufferLimit
from streams.kafka.output import Output
from streams.settings.broker import TopicSettings
from streams.telemetry.instruments import Metrics
from tests.integration.bench import Bench, Hands
from tests.integration.conftest import RunningBroker
from tests.integration.deadlines import until

ROUNDS_OF_COMMITS_SECONDS = 1.5
"""Fifteen commit intervals: long enough for a wrong commit."""


class PromiseBrokenError(Exception):
    """A guarantee of the design is broken on this transport."""


def promise(kept: bool, what: str) -> None:
    """Raise unless a guarantee holds."""
    if not kept:
        raise PromiseBrokenError(what)


class Rig(Bench):
    """A source topic, a target topic with a small record limit, and an application on one transport."""

    def __init__(self, bootstrap_servers: str, source: str, target: str, *, is_stock: bool) -> None:
        super().__init__(bootstrap_servers, source, session_timeout_seconds=6)
        self.target = target
        self.is_stock = is_stock
        self.crashes: list[BaseException] = []

    def build(self) -> App:
        options = ConsumerOptions(default_limit=BufferLimit(records=8, bytes=1_000_000), finish_seconds=0.1)
        app = build_app(self.kafka, group_id=self.kafka.group_id, options=options)
        if self.is_stock:
            app.transport = app.producer_transport = stock.Transport(app.conf.broker, app)
            app.conf.consumer_auto_offset_reset = "earliest"
            app.conf.agent_supervisor = (
                "mode.OneForOneSupervisor"  # the default; a crash of every agent would hide the commit
            )
        return app

    @contextlib.asynccontextmanager
    async def running(self, app: App) -> AsyncIterator[None]:
        await asyncio.wait_for(app.start(), 30)
        try:
            yield
        finally:
            with contextlib.suppress(Exception):
                await asyncio.wait_for(app.stop(), 30)
            # Unread errors of failed sends warn when they are collected: collect them here (on Python 3.11
            # the warning can interrupt parsing).
            gc.collect()

    async def crash(self, error: BaseException) -> None:
        self.crashes.append(error)

    async def committed_after_a_while(self) -> int:
        """The committed offset after several commit intervals."""
        await passing(ROUNDS_OF_COMMITS_SECONDS)
        return await self.committed() or 0


async def passing(seconds: float) -> None:
    """Wait, so that a wrong action can happen."""
    began = time.monotonic()
    await until(lambda: time.monotonic() - began > seconds, "time to pass", deadline_seconds=seconds + 10)


@pytest.fixture(
    params=[
        pytest.param(
            "stock", marks=[pytest.mark.stock, pytest.mark.xfail(raises=PromiseBrokenError, strict=True)]
        ),
        "ours",
    ]
)
async def rig(request: pytest.FixtureRequest, broker: RunningBroker) -> Rig:
    source = await asyncio.to_thread(broker.new_topic, "source")
    target = await asyncio.to_thread(broker.new_topic, "target", max_message_bytes="1000")
    return Rig(broker.bootstrap_servers, source, target, is_stock=request.param == "stock")


async def test_a_new_group_does_not_commit_past_work_in_flight(rig: Rig) -> None:
    await rig.produce(5)
    app, hands = rig.build(), Hands()
    add_agent(app, rig.topic, "hands", hands.run)
    async with rig.running(app):
        await until(lambda: len(hands.taken) == 5, "five records")
        await hands.ack(0, 3)
        committed = await rig.committed_after_a_while()
    promise(committed == 0, f"offset {committed} was committed while 0 was in flight")


async def test_an_ack_out_of_order_does_not_commit_past_the_head(rig: Rig) -> None:
    """With 0 committed, 1 in flight and 2 done, the committed offset stays 1."""
    await rig.produce(5)
    app, hands = rig.build(), Hands()
    add_agent(app, rig.topic, "hands", hands.run)
    async with rig.running(app):
        await until(lambda: len(hands.taken) == 5, "five records")
        await hands.ack(0, 0)

        async def is_committed() -> bool:
            return await rig.committed() == 1

        await until(is_committed, "offset 1 committed")
        await hands.ack(0, 2)
        committed = await rig.committed_after_a_while()
    promise(committed == 1, f"offset {committed} was committed while 1 was in flight")


async def test_an_agent_that_raises_does_not_finish_its_record(rig: Rig) -> None:
    await rig.produce(1)
    app = rig.build()
    raised = asyncio.Event()

    async def handle(_: Any) -> None:
        raised.set()
        raise RuntimeError("unexpected")

    async def cannot_set_aside(_: Any, error: Exception) -> None:
        raise error

    async def stock_agent(stream: Any) -> None:
        async for event in stream.events():
            await handle(event)

    pipeline = Pipeline("ours", handle, on_unreadable=handle, on_surprise=cannot_set_aside, crash=rig.crash)
    add_agent(app, rig.topic, "agent", stock_agent if rig.is_stock else pipeline.run)
    async with rig.running(app):
        await until(raised.is_set, "the error")
        committed = await rig.committed_after_a_while()
    promise(committed == 0, "the record was committed and would never be seen again")
    assert [str(crash) for crash in rig.crashes] == ["unexpected"]


TOO_LARGE = b"x" * 5_000
_WAYS = ("send_soon", "sink")


def _add_stock_writer(rig: Rig, app: App, way: str, written: asyncio.Event) -> None:
    """An agent as in Faust's manual, which writes in one of three ways."""
    target = app.topic(rig.target, value_type=bytes, value_serializer="raw")

    async def writer(stream: Any) -> None:
        async for _ in stream.events():
            if way == "send":
                await target.send(value=TOO_LARGE)
            else:
                target.send_soon(value=TOO_LARGE)
            written.set()

    async def yielder(stream: Any) -> AsyncIterator[bytes]:
        async for _ in stream.events():
            yield TOO_LARGE
            written.set()

    source = app.topic(rig.topic, value_type=bytes, value_serializer="raw")
    if way == "sink":
        app.agent(source, sink=[target])(yielder)
    else:
        app.agent(source)(writer)


def _add_our_writer(rig: Rig, app: App, written: asyncio.Event) -> None:
    output = Output(lambda: app.producer, Metrics(CollectorRegistry(), labels=()), TopicSettings())

    async def handle(_: Any) -> None:
        await output.write(rig.target, key=None, value=TOO_LARGE)
        written.set()

    async def cannot_set_aside(_: Any, error: Exception) -> None:
        raise error

    pipeline = Pipeline("ours", handle, on_unreadable=handle, on_surprise=cannot_set_aside, crash=rig.crash)
    add_agent(app, rig.topic, "agent", pipeline.run)


# The ways differ on the stock transport alone.
@pytest.mark.parametrize("way", ["send", *(pytest.param(one, marks=pytest.mark.stock) for one in _WAYS)])
async def test_a_write_that_fails_is_no_success(rig: Rig, way: str) -> None:
    """A refused write raises in its agent, and the record is not committed."""
    await rig.produce(1)
    app, written = rig.build(), asyncio.Event()
    if rig.is_stock:
        _add_stock_writer(rig, app, way, written)
    else:
        _add_our_writer(rig, app, written)
    async with rig.running(app):
        await until(lambda: written.is_set() or bool(rig.crashes), "the write")
        committed = await rig.committed_after_a_while()
    promise(committed == 0, "the record was committed and its output is nowhere")
    assert not written.is_set()
    assert [type(crash) for crash in rig.crashes] == [TooLargeError]


async def test_a_consumer_that_waits_stays_in_its_group(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a pause above the poll interval reading continues."""
    monkeypatch.setattr(streams.kafka.app, "MAX_POLL_INTERVAL_SECONDS", 1.0)
    # A full stream buffer pauses partitions on the stock transport, a full room on ours.
    monkeypatch.setattr(streams.kafka.app, "STREAM_BUFFER_RECORDS", 4 if rig.is_stock else 1_000)
    await rig.produce(60)
    app = rig.build()
    go_on = asyncio.Event()
    seen: set[int] = set()

    async def agent(stream: Any) -> None:
        manual = stream.noack()
        async for event in manual.events():
            await go_on.wait()
            await manual.ack(event)
            seen.add(event.message.offset)

    add_agent(app, rig.topic, "agent", agent)
    async with rig.running(app):
        await passing(2)
        go_on.set()
        with contextlib.suppress(AssertionError):
            await until(lambda: len(seen) == 60, "everything read", deadline_seconds=10)
    promise(len(seen) == 60, f"{len(seen)} of 60 records were read")


class _Twice:
    """Writes each record's output; acknowledges only if `finishes`."""

    def __init__(self, app: faust.App, rig: Rig) -> None:
        self.written = asyncio.Event()
        self.finishes = False
        self._app = app
        self._rig = rig

    async def run(self, stream: Any) -> None:
        manual = stream.noack()
        async for event in manual.events():
            message = event.message
            name = result_id(
                topic=message.topic, event_id=f"event-{message.offset}", metric="tone", replay_id=None
            )
            # A stock Faust output has no id that is equal for a second try.
            value = uuid.uuid4().hex if self._rig.is_stock else name
            sender = await self._app.maybe_start_producer()
            await (await sender.send(self._rig.target, b"k", value.encode(), None, None, None))
            if self.finishes:
                await manual.ack(event)
            self.written.set()


def _exactly_once_app(rig: Rig, directory: Path) -> faust.App:
    """Stock Faust with `exactly_once`, and a table, without which it fails at the first assignment."""
    app = faust.App(
        rig.kafka.group_id,
        broker=f"kafka://{rig.kafka.bootstrap_servers}",
        broker_commit_interval=0.1,
        processing_guarantee="exactly_once",
        consumer_auto_offset_reset="earliest",
        topic_partitions=1,
        topic_disable_leader=True,
        stream_wait_empty=False,
        stream_recovery_delay=0.0,
        store="memory://",
        datadir=str(directory),
        web_enabled=False,
    )
    app.in_worker = True
    app.Table("counts", default=int)
    return app


async def _outputs(rig: Rig) -> list[bytes]:
    target = TopicPartition(rig.target, 0)
    async with AIOKafkaConsumer(
        bootstrap_servers=rig.kafka.bootstrap_servers,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    ) as consumer:
        consumer.assign([target])
        end = (await consumer.end_offsets([target]))[target]
        outputs: list[bytes] = []
        while await consumer.position(target) < end:
            records = (await consumer.getmany(target, timeout_ms=200)).get(target, [])
            outputs += [record.value for record in records]
        return outputs


# The embedded broker has no transactions.
@pytest.mark.parametrize("broker", [pytest.param("apache", marks=pytest.mark.kafka)], indirect=True)
async def test_repeated_work_counts_once(rig: Rig, tmp_path: Path) -> None:
    """A worker ends between write and commit and another repeats the work: readers count one output.

    With stock Faust they read committed records, as for `exactly_once`, but the target is not a topic that
    the application reads. With ours they drop outputs with a known id.
    """
    await rig.produce(1)
    for finishes in (False, True):
        app = _exactly_once_app(rig, tmp_path) if rig.is_stock else rig.build()
        worker = _Twice(app, rig)
        worker.finishes = finishes
        add_agent(app, rig.topic, "worker", worker.run)
        async with rig.running(app):
            await until(worker.written.is_set, "the output")
            await passing(ROUNDS_OF_COMMITS_SECONDS)
    outputs = set(await _outputs(rig))
    promise(len(outputs) == 1, f"{len(outputs)} outputs for one record")
