"""Reads the bytes of OTLP requests into events, by the settings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal, Self

from schemas import QAEvent
from schemas.result import RESULT_ATTRIBUTE
from streams.errors import undecodable
from streams.intake.joining.join import JoinBounds
from streams.intake.reader import GroupReader, GroupReading, normal_labels, normal_tracestate
from streams.intake.reading.decode import Mapper, bounded, event_of
from streams.intake.reading.otlp import request
from streams.intake.reading.otlp.event import event_fields
from streams.intake.reading.otlp.families import FAMILIES
from streams.intake.reading.otlp.span import EVENT_PARTS, Keep, Span
from streams.intake.reading.otlp.step import Step
from streams.intake.reading.otlp.trace import WHY_NO_ANSWER, Trace, normalised
from streams.intake.sampling import Head
from streams.settings.tree import Settings

GRACE_SECONDS: Final = 5.0
"""Time from a trace's root span until the trace is closed."""
IDLE_SECONDS: Final = 60.0
Unit = Literal["trace", "span"]
"""trace: one event for each trace, whose spans are joined; span: one event for each model call, no join."""


class OtlpReader(GroupReader[Span]):
    """Reads OTLP requests of spans and log records; `mapping` is over the normalised trace."""

    noun = "trace"

    def __init__(
        self,
        *,
        unit: Unit,
        max_event_bytes: int,
        mapping: Mapping[str, str] | None = None,
        bounds: JoinBounds | None = None,
    ) -> None:
        self.bounds = bounds
        self._unit = unit
        self._max_event_bytes = max_event_bytes
        self._mapper = Mapper(mapping) if mapping else None

    @classmethod
    def of(cls, settings: Settings, env: Mapping[str, str], *, patient: bool = True) -> Self:
        del env, patient
        ingest, unit = settings.ingest, settings.ingest.otlp.unit
        bounds = JoinBounds.of(ingest, grace=GRACE_SECONDS, idle=IDLE_SECONDS)
        return cls(
            unit=unit,
            max_event_bytes=ingest.max_event_bytes,
            mapping=ingest.mapping,
            bounds=bounds if unit == "trace" else None,
        )

    def heads(self, value: bytes | None) -> list[Head]:
        return request.heads(self._checked(value))

    def randomness(self, group: str) -> int:
        """Return R of a trace id; of another length it is below every threshold."""
        try:
            return int(group[-14:], 16) if len(group) == 32 else -1
        except ValueError:
            raise undecodable("traceId: is not hexadecimal; correct the producer") from None

    def parts(self, value: bytes | None, keep: Keep = lambda _: True) -> dict[str, list[Span]]:
        traces: dict[str, list[Span]] = {}
        try:
            for span in request.spans(self._checked(value), keep):
                if span.trace_id.strip("0"):
                    traces.setdefault(span.trace_id, []).append(span)
        except RecursionError:
            raise undecodable("value: is nested too deeply; correct the instrumentation") from None
        return traces

    def opening(self, parts: Sequence[Span]) -> list[Span]:
        """Omit our own verdicts, which a Collector may send back: they would have a trace judged again."""
        return [span for span in parts if not (span.is_log and RESULT_ATTRIBUTE in span.attributes)]

    def is_complete(self, parts: Iterable[Span]) -> bool:
        """Whether the root span is among them; a log record is not a root."""
        return any(not span.parent_id and not span.is_log for span in parts)

    def is_key(self, key: bytes | None, group: str) -> bool:
        """Whether a key is the trace id, in hexadecimal or in bytes."""
        return key is not None and (key.lower() == group.encode() or key.hex() == group)

    def key_problem(self, got: str) -> str:
        return (
            "ingest.otlp.unit: trace needs records keyed by trace id, otherwise a trace is spread over "
            f"partitions {got}; set partition_traces_by_id: true (for log records "
            "partition_logs_by_trace_id: true) in the Collector's Kafka exporter and write to a new "
            "topic, or set ingest.otlp.unit: span"
        )

    def size(self, parts: Iterable[Span]) -> int:
        count = 0
        for span in parts:
            count += 8 + len(span.attributes) + EVENT_PARTS * len(span.events)
            for value in span.attributes.values():
                if isinstance(value, str) and len(value) > 1_000:  # may be JSON
                    count += value.count(",") + value.count("[") + value.count("{")
        return count

    def read(self, parts: Iterable[Span]) -> GroupReading:
        try:
            trace = Trace(parts)
            events = tuple(self._event(trace, answer) for answer in self._answers(trace))
            silent = {step.family: 1 for step in trace.models if step.lacks_content and step.family}
            if events:
                return GroupReading(events, silent=(*silent,))
            why = trace.why_no_answer
            hinted = FAMILIES if why == "no_content" else ()
            hints = tuple(
                f"{one.name}: {one.capture}" for one in hinted if one.name in silent and one.capture
            )
            return GroupReading(why_none=why, problem=WHY_NO_ANSWER[why], silent=(*silent,), hints=hints)
        except RecursionError:
            raise undecodable("attributes: are nested too deeply; correct the instrumentation") from None

    def _checked(self, value: bytes | None) -> bytes:
        remedy = "lower send_batch_size and send_batch_max_size of the Collector's batch processor"
        return bounded(value, self._max_event_bytes, send="OTLP requests", remedy=remedy)

    def _answers(self, trace: Trace) -> list[Step]:
        if self._unit == "trace":
            return [] if trace.answer is None else [trace.answer]
        return [
            step
            for step in trace.judged
            if step.answer is not None
            and (step.kind == "model" or step.attributes.get("judgestream.answer"))
            # Two instrumentations may have recorded the same call.
            and not any(one.kind == "model" and one.answer is not None for one in trace.around(step))
        ]

    def _event(self, trace: Trace, answer: Step) -> QAEvent:
        event_id = answer.span.trace_id
        if self._unit == "span":
            trace = Trace([answer.span])
            event_id = f"{event_id}:{answer.span.span_id}"
        fields = event_fields(trace, answer, event_id=event_id, joined=self._unit == "trace")
        fields["tracestate"] = normal_tracestate(fields["tracestate"])
        if self._mapper is not None:
            document = {**normalised(trace, answer), "labels": fields["labels"]}
            mapped = self._mapper.apply(document, self._mapper.targets)
            if mapped.get("labels") is not None:
                mapped["labels"] = normal_labels(mapped["labels"])
            fields |= {name: value for name, value in mapped.items() if value is not None}
        return event_of(fields)
