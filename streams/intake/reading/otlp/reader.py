"""Reads the bytes of OTLP requests into events, by the settings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from pydantic import ValidationError

from schemas import QAEvent
from streams.errors import DecodeError
from streams.intake.reading.decode import normal_labels, problem_detail
from streams.intake.reading.envelope import bounded
from streams.intake.reading.mapping import Mapper
from streams.intake.reading.otlp.qa import event_fields
from streams.intake.reading.otlp.requests import wire
from streams.intake.reading.otlp.requests.bounds import EVENT_PARTS
from streams.intake.reading.otlp.requests.json_spans import Keep
from streams.intake.reading.otlp.requests.outline import count_roots, trace_id_of
from streams.intake.reading.otlp.span import Head, Span
from streams.intake.reading.otlp.steps.step import Step
from streams.intake.reading.otlp.trace import NoAnswer, Trace, normalised
from streams.intake.reading.trace import normal_tracestate

_SPAN_PARTS: Final = 8
_LONG_CHARS: Final = 1_000
"""From this length on an attribute is searched for JSON."""
Unit = Literal["trace", "span"]
"""trace: one event for each trace, whose spans are joined; span: one event for each model call, no join."""


@dataclass(frozen=True, slots=True)
class Reading:
    """The events of a trace, or of its part in one record.

    Args:
        events: The events; at most one for unit trace.
        why_none: Reason where there is no event.
        silent: Families whose model calls have no recorded content.
    """

    events: tuple[QAEvent, ...] = ()
    why_none: NoAnswer | None = None
    silent: tuple[str, ...] = ()


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

    def heads(self, value: bytes | None, key: bytes | None = None) -> list[Head]:
        """Read the ids, tracestates and roots that sampling needs.

        Args:
            value: The record's value.
            key: The record's key; if it is the trace id, the record is searched and not parsed.

        Raises:
            DecodeError: The record is not an OTLP request.
        """
        value = self._checked(value)
        trace_id = trace_id_of(key)
        roots = None if trace_id is None else count_roots(value, trace_id)
        return wire.heads(value) if trace_id is None or roots is None else [Head(trace_id.hex(), "", roots)]

    def roots(self, value: bytes | None, trace_id: bytes) -> int | None:
        """Count the roots of a keyed record's trace; None where only `heads` can count them.

        Args:
            value: The record's value.
            trace_id: 16 bytes.
        """
        return count_roots(value, trace_id) if value and len(value) <= self._max_event_bytes else None

    def spans(self, value: bytes | None, keep: Keep = lambda _: True) -> dict[str, list[Span]]:
        """Read a record's spans by trace id; spans without a trace id are omitted.

        Args:
            value: The record's value.
            keep: Says of a trace id whether its spans are wanted.

        Raises:
            DecodeError: The record is no OTLP request.
        """
        traces: dict[str, list[Span]] = {}
        try:
            for span in wire.spans(self._checked(value), keep):
                if span.trace_id.strip("0"):
                    traces.setdefault(span.trace_id, []).append(span)
        except RecursionError:
            raise DecodeError(
                "undecodable", "value: is nested too deeply; correct the instrumentation"
            ) from None
        return traces

    def read(self, spans: Iterable[Span]) -> Reading:
        """Make events of the spans of one trace.

        Raises:
            DecodeError: The fields are not a valid event, or an expression of the mapping fails.
        """
        try:
            trace = Trace(spans)
            answers = self._answers(trace)
            if not answers:
                return Reading((), trace.why_no_answer, trace.silent_families)
            return Reading(
                tuple(self._event(trace, answer) for answer in answers), None, trace.silent_families
            )
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
            and not any(
                one.kind == "model" and one.answer is not None for one in trace.around(step)
            )  # two instrumentations recorded the same call
        ]

    def _event(self, trace: Trace, answer: Step) -> QAEvent:
        span = answer.span
        if self.unit == "span":
            trace = Trace([span])
            event_id = f"{span.trace_id}:{span.span_id}"
        else:
            event_id = span.trace_id
        fields = event_fields(trace, answer, event_id=event_id, joined=self.unit == "trace")
        fields["tracestate"] = normal_tracestate(fields["tracestate"])
        if self._mapper is not None:
            fields |= self._mapped(trace, answer, fields)
        try:
            return QAEvent.model_validate(fields)
        except ValidationError as error:
            raise DecodeError("undecodable", problem_detail(error)) from None

    def _mapped(self, trace: Trace, answer: Step, fields: Mapping[str, Any]) -> dict[str, Any]:
        assert self._mapper is not None  # noqa: S101 - for the type checker
        document = {**normalised(trace, answer), "labels": fields["labels"]}
        found = self._mapper.apply(document, self._mapper.targets)
        found = {
            name: value for name, value in found.items() if value is not None
        }  # a null keeps the value that `qa` found
        if "labels" in found:
            found["labels"] = normal_labels(found["labels"])
        return found
