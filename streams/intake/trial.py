"""Show how the settings treat some records, without judging: for `judgestream map`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import orjson

from schemas import QAEvent
from streams.errors import DecodeError
from streams.intake.from_settings import json_reader, metric_routes, sampling_policy, trace_reader
from streams.intake.reading.otlp.families import capture_hints
from streams.intake.reading.otlp.reader import OtlpReader
from streams.intake.reading.otlp.span import Span
from streams.intake.reading.registry.unpacking import Unpacking
from streams.intake.selector import Selector
from streams.settings import Settings

WHY_NONE: Final = {
    "ours": "spans of a judgestream worker are not judged",
    "no_model": "it has no model call",
    "no_content": "the model's answer was not recorded",
    "no_answer": "no model call has an answer text",
}
"""Why a trace becomes no event, as a message."""


@dataclass(frozen=True, slots=True)
class RawRecord:
    """The fields of a record that reading needs."""

    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of one record or trace: its event, or the problem."""

    before: Any
    """The input: the JSON of a record, or the id of a trace."""
    event: QAEvent | None = None
    problem: str | None = None
    kept: bool = False
    probability: float | None = None
    stratum: str | None = None
    metrics: tuple[str, ...] = ()
    hints: tuple[str, ...] = ()
    """For traces without content: how to enable its recording."""


def looks_like_otlp(value: bytes) -> bool:
    """Return whether a file or record holds OTLP rather than events."""
    start = value[:4096].lstrip()
    if start[:1] == b"{":
        return b'"resourceSpans"' in start or b'"resourceLogs"' in start
    return value[:1] == b"\n" and start[:1] not in {b"[", b"{", b'"'}


async def unpack(
    records: Sequence[RawRecord], unpacking: Unpacking | None
) -> tuple[list[RawRecord], list[Outcome]]:
    """Decode records by their schemas; also return the outcomes of those that do not match theirs.

    Raises:
        RegistryDownError: The registry does not answer.
    """
    if unpacking is None:
        return list(records), []
    found, unread = [], []
    for record in records:
        try:
            found.append(replace(record, value=await unpacking.json(record.value, record.headers)))
        except DecodeError as error:
            unread.append(Outcome(_before(record.value), problem=error.detail))
    return found, unread


class Trial:
    """Reads records as a worker with these settings does; `otlp` overrides their format.

    Raises:
        SettingsError: The mapping is invalid.
    """

    def __init__(self, settings: Settings, *, otlp: bool | None = None) -> None:
        ingest = settings.ingest
        self.otlp = ingest.format == "otlp" if otlp is None else otlp
        self._json = None if self.otlp else json_reader(ingest)
        self._reader = trace_reader(ingest) if self.otlp else None
        self._selector = Selector(sampling_policy(settings.sampling), metric_routes(settings), {})

    def outcomes(self, records: Iterable[RawRecord]) -> Iterator[Outcome]:
        """Yield the outcomes of records, in the order of the topic; traces are joined over all."""
        if self._reader is not None:
            yield from self._traces(self._reader, records)
            return
        assert self._json is not None  # noqa: S101 - set if there is no reader
        for record in records:
            before = _before(record.value)
            try:
                event = self._json.decode(record.value, record.headers, record.timestamp_ms)
            except DecodeError as error:
                yield Outcome(before, problem=error.detail)
            else:
                yield self._sampled(before, event, record.key)

    def _traces(self, reader: OtlpReader, records: Iterable[RawRecord]) -> Iterator[Outcome]:
        traces: dict[str, list[Span]] = {}
        for record in records:
            try:
                for trace_id, spans in reader.spans(record.value).items():
                    traces.setdefault(trace_id, []).extend(spans)
            except DecodeError as error:
                yield Outcome(None, problem=error.detail)
        for trace_id, spans in traces.items():
            try:
                reading = reader.read(spans)
            except DecodeError as error:
                yield Outcome(trace_id, problem=error.detail)
                continue
            if reading.why_none is not None:
                hints = capture_hints(reading.silent) if reading.why_none == "no_content" else {}
                yield Outcome(
                    trace_id,
                    problem=f"{reading.why_none}: {WHY_NONE[reading.why_none]}",
                    hints=tuple(f"{family}: {hint}" for family, hint in hints.items()),
                )
            for event in reading.events:
                yield self._sampled(trace_id, event, None)

    def _sampled(self, before: Any, event: QAEvent, key: bytes | None) -> Outcome:
        selection = self._selector.select(event, key)
        decision, unroutable = selection.decision, not selection.fitting
        return Outcome(
            before,
            event,
            problem="unroutable: no metric's conditions match; see metrics.*.when" if unroutable else None,
            kept=decision.keep,
            probability=float(decision.probability),
            stratum=decision.stratum,
            metrics=tuple(metric for metric, _ in selection.assignments)
            if decision.keep
            else selection.fitting,
        )


def _before(value: bytes | None) -> Any:
    try:
        return orjson.loads(value or b"")
    except orjson.JSONDecodeError:
        return (value or b"")[:200].decode("utf-8", "backslashreplace")
