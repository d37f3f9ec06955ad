"""Reads the bytes of OTLP requests into events, by the settings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from pydantic import ValidationError

from schemas import QAEvent
from streams.errors import DecodeError
from streams.intake.reading.decode import normal_labels, problem_detail
from streams.intake.reading.envelope import bounded
from streams.intake.reading.mapping import Mapper
from streams.intake.reading.otlp import request
from streams.intake.reading.otlp.event import event_fields
from streams.intake.reading.otlp.span import EVENT_PARTS, Head, Keep, Span
from streams.intake.reading.otlp.step import Step
from streams.intake.reading.otlp.trace import NoAnswer, Trace, normalised
from streams.intake.reading.trace import normal_tracestate

_SPAN_PARTS: Final = 8
_LONG_CHARS: Final = 1_000
"""From this length on an attribute is searched for JSON."""
Unit = Literal["trace", "span"]
"""trace: one event for each trace, whose spans are joined; span: one event for each model call, no join."""


@dataclass(frozen=True, slots=True)
class Reading:
    """The events of a trace, or of its part in one record; at most one for unit trace."""

    events: tuple[QAEvent, ...] = ()
    why_none: NoAnswer | None = None
    silent: tuple[str, ...] = ()
    """Families whose model calls have no recorded content."""


def parts_of(spans: Iterable[Span]) -> int:
    """Count the parts of a joined trace, as `beside.parts_of` counts those of a record."""
    parts = 0
    for span in spans:
        parts += _SPAN_PARTS + len(span.attributes) + EVENT_PARTS * len(span.events)
        for value in span.attributes.values():
            if isinstance(value, str) and len(value) > _LONG_CHARS:
                parts += value.count(",") + value.count("[") + value.count("{")
    return parts


class OtlpReader:
    """Reads OTLP requests as the section `ingest` of the settings says.

    Args:
        unit: One event for each trace or each model call.
        max_event_bytes: Larger records are refused.
        mapping: `ingest.mapping` over the normalised trace (`trace.normalised`); `qa` finds the other fields.

    Raises:
        SettingsError: The mapping is invalid.
    """

    def __init__(self, *, unit: Unit, max_event_bytes: int, mapping: Mapping[str, str] | None = None) -> None:
        self.unit: Unit = unit
        self._max_event_bytes = max_event_bytes
        self._mapper = Mapper(mapping) if mapping else None

    def heads(self, value: bytes | None) -> list[Head]:
        return request.heads(self._checked(value))

    def spans(self, value: bytes | None, keep: Keep = lambda _: True) -> dict[str, list[Span]]:
        """Read a record's spans of the wanted traces by trace id; those without a trace id are omitted."""
        traces: dict[str, list[Span]] = {}
        try:
            for span in request.spans(self._checked(value), keep):
                if span.trace_id.strip("0"):
                    traces.setdefault(span.trace_id, []).append(span)
        except RecursionError:
            raise DecodeError(
                "undecodable", "value: is nested too deeply; correct the instrumentation"
            ) from None
        return traces

    def read(self, spans: Iterable[Span]) -> Reading:
        try:
            trace = Trace(spans)
            events = tuple(self._event(trace, answer) for answer in self._answers(trace))
            return Reading(events, None if events else trace.why_no_answer, trace.silent_families)
        except RecursionError:
            raise DecodeError(
                "undecodable", "attributes: are nested too deeply; correct the instrumentation"
            ) from None

    def _checked(self, value: bytes | None) -> bytes:
        remedy = "lower send_batch_size and send_batch_max_size of the Collector's batch processor"
        return bounded(value, self._max_event_bytes, send="OTLP requests", remedy=remedy)

    def _answers(self, trace: Trace) -> list[Step]:
        if self.unit == "trace":
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
        if self.unit == "span":
            trace = Trace([answer.span])
            event_id = f"{event_id}:{answer.span.span_id}"
        fields = event_fields(trace, answer, event_id=event_id, joined=self.unit == "trace")
        fields["tracestate"] = normal_tracestate(fields["tracestate"])
        if self._mapper is not None:
            document = {**normalised(trace, answer), "labels": fields["labels"]}
            mapped = self._mapper.apply(document, self._mapper.targets)
            if mapped.get("labels") is not None:
                mapped["labels"] = normal_labels(mapped["labels"])
            fields |= {name: value for name, value in mapped.items() if value is not None}
        try:
            return QAEvent.model_validate(fields)
        except ValidationError as error:
            raise DecodeError("undecodable", problem_detail(error)) from None
