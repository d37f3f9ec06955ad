"""Intake of traces: records in, joined by trace id, one event a trace (or one a model's call) out.

A record is finished, and its offset may be committed, when all that follows from its sampled traces was
written: while one of them is open the offset is held. Kafka itself is the store: after a crash the records of
an open trace are read again. Those that were finished before lie behind the committed offset; they are read
back once, so that the rest of a trace is not taken for the whole of it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from typing import Any, Final, Protocol

import structlog

from streams.errors import DecodeError, SettingsError
from streams.intake.agent import Intake
from streams.intake.reading.otlp.join import Bounds, OpenTrace, TraceJoin
from streams.intake.reading.otlp.reader import OtlpReader
from streams.intake.reading.otlp.span import Span
from streams.intake.trace_sampling import TraceSampler
from streams.kafka.letters import Incoming
from streams.telemetry.instruments import Metrics
from streams.telemetry.traces import where

_log = structlog.stdlib.get_logger(__name__)

LONGEST_SLEEP_SECONDS: Final = 1.0
READ_BACK_SECONDS: Final = 120.0
"""Reading back takes no longer; what it does not come to is missing from traces that straddle the committed
offset."""


class Past(Protocol):
    """Reads what lies on a partition before an offset: `streams.kafka.past.TopicPast`, or a fake."""

    async def partitions(self, topic: str) -> int:
        """Count a topic's partitions."""

    def read(self, topic: str, partition: int, *, since: float, before: int) -> AsyncIterator[Any]:
        """Give the records from a moment on, up to an offset."""


class TraceIntake:
    """Decides what becomes of traces.

    Args:
        reader: Reads requests.
        sampler: Decides by trace id.
        intake: Takes the events.
        counts: Where outcomes are counted.
        bounds: When traces are closed.
        past: Reads back what lies before the offset that is begun with.
        clock: Tells the time in seconds, from any beginning.
    """

    def __init__(
        self,
        *,
        reader: OtlpReader,
        sampler: TraceSampler,
        intake: Intake,
        counts: Metrics,
        bounds: Bounds,
        past: Past,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._reader = reader
        self._sampler = sampler
        self._intake = intake
        self._counts = counts
        self._bounds = bounds
        self._past = past
        self._clock = clock
        self._join = TraceJoin(bounds)
        self._waiting: dict[OpenTrace, list[tuple[Incoming, asyncio.Future[None]]]] = {}
        self._closing: asyncio.Task[None] | None = None
        self._finishing: dict[str, asyncio.Task[None]] = {}
        self._read_back: dict[tuple[str, int], tuple[int, asyncio.Task[None]]] = {}
        self._keyed: dict[str, bool] = {}
        counts.watch_traces(lambda: len(self._join), lambda: self._join.late)

    async def handle(self, record: Incoming) -> None:
        """Take one record; return when all that follows from its traces was written.

        Raises:
            SettingsError: The topic's records are not keyed by trace id, so that a trace cannot be joined.
        """
        try:
            split = self._sampler.split(self._reader.heads(record.value), record.key)
            traces = self._reader.spans(record.value, split.kept.__contains__)
        except ValueError:
            await self._intake.refuse(
                record, DecodeError("undecodable", "traceId: is not hexadecimal; mend the producer")
            )
            return
        except DecodeError as error:
            await self._intake.refuse(record, error)
            return
        for _ in range(split.skipped):
            self._counts.count_event("skipped", self._sampler.skip_reason)
        if self._reader.unit == "span":
            for spans in traces.values():
                await self._become(record, spans)
        elif traces:
            await self._gather(record, traces)

    async def on_surprise(self, record: Incoming, error: Exception) -> None:
        """Set a record aside that met an error nobody foresaw."""
        await self._intake.on_surprise(record, error)

    def release(self) -> None:
        """Let go of all open traces: partitions are given away, their next reader begins with the records."""
        if self._closing is not None:
            self._closing.cancel()
        for _, task in self._read_back.values():
            task.cancel()
        self._read_back.clear()
        for trace, waiting in list(self._waiting.items()):
            if trace.closed is None:
                self._join.abandon(trace)
                del self._waiting[trace]
                for _, future in waiting:
                    future.cancel()

    # Joining

    async def _gather(self, record: Incoming, traces: dict[str, list[Span]]) -> None:
        if any(not _is_key_of(record.key, trace_id) for trace_id in traces):
            await self._check_keys(record)
        await self._know_the_past(record)
        futures: list[asyncio.Future[None]] = []
        now = self._clock()
        size = len(record.value or b"") // len(traces)
        for trace_id, spans in traces.items():
            trace = self._join.add(trace_id, spans, size=size, now=now)
            if trace is not None:
                future = asyncio.get_running_loop().create_future()
                self._waiting.setdefault(trace, []).append((record, future))
                futures.append(future)
            elif trace_id in self._finishing:
                # Late, or read again after a rebalance: not finished before what the trace becomes was
                # written.
                futures.append(asyncio.shield(self._finishing[trace_id]))
        self._close_due()
        if self._closing is None or self._closing.done():
            self._closing = asyncio.create_task(self._keep_closing())
        await asyncio.gather(*futures)

    async def _check_keys(self, record: Incoming) -> None:
        keyed = self._keyed.get(record.topic)
        if keyed is None:
            # On one partition a trace cannot be spread over several.
            keyed = self._keyed[record.topic] = await self._past.partitions(record.topic) <= 1
        if not keyed:
            got = "no key" if record.key is None else f"the key {record.key[:40]!r}"
            place = f"{record.topic}[{record.partition}]@{record.offset}"
            problem = (
                "ingest.otlp.unit: trace needs records keyed by trace id, or a trace is spread over "
                "partitions "
                f"(got {got} at {place}); set partition_traces_by_id: true (for log records "
                "partition_logs_by_trace_id: true) in the Collector's Kafka exporter, or ingest.otlp.unit: "
                "span"
            )
            raise SettingsError([problem])

    async def _keep_closing(self) -> None:
        while (due := self._join.next_due) is not None:
            await asyncio.sleep(min(max(due - self._clock(), 0.01), LONGEST_SLEEP_SECONDS))
            self._close_due()

    def _close_due(self) -> None:
        now = self._clock()
        self._join.forget_past(now - self._bounds.longest)
        for trace in self._join.due(now):
            self._counts.count_closed_trace(str(trace.closed))
            self._finishing[trace.trace_id] = asyncio.create_task(
                self._finish(trace, self._waiting.pop(trace))
            )

    async def _finish(self, trace: OpenTrace, waiting: list[tuple[Incoming, asyncio.Future[None]]]) -> None:
        """Write what follows from a trace, then let its records go."""
        first = waiting[0][0]
        try:
            try:
                await self._become(first, trace.spans)
            except Exception as error:  # noqa: BLE001 - one trace must not stop the others
                _log.error(
                    "unexpected error, the trace is set aside",
                    trace_id=trace.trace_id,
                    error=type(error).__name__,
                    where=where(error),
                )
                await self._intake.on_surprise(first, error)
        except Exception as error:  # noqa: BLE001 - it goes to those who wait for it
            for _, future in waiting:
                if not future.done():
                    future.set_exception(error)
        else:
            for _, future in waiting:
                if not future.done():
                    future.set_result(None)
        finally:
            del self._finishing[trace.trace_id]

    async def _become(self, record: Incoming, spans: list[Span]) -> None:
        """Make events of the spans of one trace, and hand them on."""
        try:
            reading = self._reader.read(spans)
        except DecodeError as error:
            await self._intake.refuse(record, error)
            return
        for family in reading.silent:
            self._counts.count_silent_trace(family)
        if reading.why_none is not None:
            self._counts.count_event("skipped", reading.why_none)
        for event in reading.events:
            await self._intake.take(record, event)
        await asyncio.sleep(0)  # a record may hold hundreds of traces

    # What lies before the first offset

    async def _know_the_past(self, record: Incoming) -> None:
        """Read back, once an assignment, what a trace of this partition may have before the first record."""
        place = (record.topic, record.partition)
        generation = getattr(record, "generation_id", 0)
        known = self._read_back.get(place)
        if known is None or known[0] != generation:
            known = self._read_back[place] = (generation, asyncio.create_task(self._read_past(record)))
        await asyncio.shield(known[1])

    async def _read_past(self, record: Incoming) -> None:
        if record.offset == 0 or record.timestamp is None:
            return
        since = record.timestamp - self._bounds.longest
        try:
            async with asyncio.timeout(READ_BACK_SECONDS):
                records = self._past.read(record.topic, record.partition, since=since, before=record.offset)
                async for one in records:
                    self._recall(one)
        except Exception as error:  # noqa: BLE001 - without it traces that straddle the offset are poorer, and no more
            _log.warning(
                "reading back failed: traces that began before this offset may lack spans",
                topic=record.topic,
                partition=record.partition,
                offset=record.offset,
                error=repr(error),
            )

    def _recall(self, record: Any) -> None:
        try:
            split = self._sampler.split(self._reader.heads(record.value), record.key)
            traces = self._reader.spans(record.value, split.kept.__contains__) if split.kept else {}
        except (DecodeError, ValueError):
            return
        for trace_id, spans in traces.items():
            self._join.recall(trace_id, spans, size=len(record.value) // len(traces), now=self._clock())


def _is_key_of(key: bytes | None, trace_id: str) -> bool:
    """Whether a record's key is the trace id, in hexadecimal or as it is."""
    return key is not None and (key.lower() == trace_id.encode() or key.hex() == trace_id)
