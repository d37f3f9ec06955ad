"""The intake of traces: joins spans by trace id, and builds one event per trace (or per model call)."""

from __future__ import annotations

import asyncio
from typing import Any

from judge.verdict import aside
from streams.errors import DecodeError
from streams.intake.agent import Intake
from streams.intake.joining.gathering import Gathering, Joining, Kind
from streams.intake.reading.beside import read_beside
from streams.intake.reading.otlp.families.judgestream import RESULT_ID
from streams.intake.reading.otlp.reader import OtlpReader, parts_of
from streams.intake.reading.otlp.span import Span, has_root
from streams.intake.trace_sampling import TraceSampler
from streams.kafka.letters import Incoming


class TraceIntake:
    """Decides the outcome of traces.

    Args:
        seconds: Limit on the time to read a trace of many parts; above 0.
    """

    def __init__(
        self,
        *,
        reader: OtlpReader,
        sampler: TraceSampler,
        intake: Intake,
        joining: Joining,
        seconds: float = aside.DEFAULT_SECONDS,
    ) -> None:
        self._reader = reader
        self._sampler = sampler
        self._intake = intake
        self._counts = joining.counts
        self._seconds = seconds
        kind = Kind(
            noun="trace",
            become=self._become,
            surprise=intake.on_surprise,
            read=self._kept,
            is_key=_is_key_of,
            key_problem=_key_problem,
            is_complete=has_root,
        )
        self._gathering = Gathering[Span](kind, joining)

    async def handle(self, record: Incoming) -> None:
        """Take one record; return when the output of its traces is written.

        Raises:
            SettingsError: The topic's records are not keyed by trace id, so traces cannot be joined.
        """
        try:
            split = self._sampler.split(self._reader.heads(record.value, record.key), record.key)
            traces = self._without_verdicts(record.value, split.kept)
        except ValueError:
            await self._intake.refuse(
                record, DecodeError("undecodable", "traceId: is not hexadecimal; correct the producer")
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
            await self._gathering.add(record, traces)

    async def on_surprise(self, record: Incoming, error: Exception) -> None:
        """Write a dead letter for a record after an unexpected error."""
        await self._intake.on_surprise(record, error)

    def release(self) -> None:
        """Abandon all open traces on a revocation; the next owner reads their records again."""
        self._gathering.release()

    async def _kept(self, record: Any) -> dict[str, list[Span]]:
        split = self._sampler.split(self._reader.heads(record.value, record.key), record.key)
        return self._without_verdicts(record.value, split.kept) if split.kept else {}

    def _without_verdicts(self, value: bytes | None, kept: frozenset[str]) -> dict[str, list[Span]]:
        """Read the spans of traces, without our own verdicts.

        A Collector may send those back as log records of the judged trace. They come after it, and after a
        start they would have it read back and judged again.
        """
        traces = {}
        for trace_id, spans in self._reader.spans(value, kept.__contains__).items():
            own = [span for span in spans if not (span.is_log and RESULT_ID in span.attributes)]
            if own:
                traces[trace_id] = own
        return traces

    async def _become(self, record: Incoming, spans: list[Span]) -> None:
        """Build the events of one trace's spans, and pass them to the intake."""
        try:
            reading = await read_beside(parts_of(spans), self._reader.read, spans, seconds=self._seconds)
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


def _key_problem(got: str) -> str:
    return (
        "ingest.otlp.unit: trace needs records keyed by trace id, otherwise a trace is spread over "
        f"partitions {got}; set partition_traces_by_id: true (for log records "
        "partition_logs_by_trace_id: true) in the Collector's Kafka exporter and write to a new "
        "topic, or set ingest.otlp.unit: span"
    )


def _is_key_of(key: bytes | None, trace_id: str) -> bool:
    """Return whether a record's key is the trace id, in hexadecimal or in bytes."""
    return key is not None and (key.lower() == trace_id.encode() or key.hex() == trace_id)
