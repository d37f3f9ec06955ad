"""Show how the settings treat some records, without judging: for `judgestream map`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import orjson

from schemas import QAEvent
from streams.errors import DecodeError
from streams.intake.reader import EventReader, GroupReader, RecordReader, open_reader, without_registry
from streams.intake.selector import Selector, metric_routes, sampling_policy
from streams.kafka.record import Record
from streams.settings.tree import Settings


class TrialOutcome(NamedTuple):
    """The outcome of one record or trace: its event, or the problem."""

    before: Any  # the input: the JSON of a record, or the id of a trace
    event: QAEvent | None = None
    problem: str | None = None
    kept: bool = False
    probability: float | None = None
    stratum: str | None = None
    metrics: tuple[str, ...] = ()
    probabilities: Mapping[str, float] = {}
    """With which each metric judges such events; those that never do are left out."""
    hints: tuple[str, ...] = ()  # how to have the content of traces recorded


def looks_like_otlp(value: bytes) -> bool:
    """Return whether a file or record holds OTLP rather than events."""
    start = value[:4096].lstrip()
    if start[:1] == b"{":
        return b'"resourceSpans"' in start or b'"resourceLogs"' in start
    return value[:1] == b"\n" and start[:1] not in {b"[", b"{", b'"'}


def whole_or_lines(content: bytes) -> list[Record]:
    """Return the file as one record, or one per line as the Collector's file exporter writes."""
    if content.lstrip()[:1] == b"{":
        try:
            orjson.loads(content)
        except orjson.JSONDecodeError:
            return [Record(value=line) for line in content.splitlines() if line.strip()]
    return [Record(value=content)]


async def unpack(records: Sequence[Record], reader: RecordReader) -> tuple[list[Record], list[TrialOutcome]]:
    """Decode records by their schemas, and return the outcomes of those that do not match theirs."""
    if not isinstance(reader, EventReader):
        return list(records), []
    found, unread = [], []
    for record in records:
        try:
            found.append(replace(record, value=await reader.unpack(record.value, record.headers)))
        except DecodeError as error:
            unread.append(TrialOutcome(_before(record.value), problem=error.detail))
    return found, unread


class SettingsTrial:
    """Reads unpacked records as a worker with these settings does; `format_` overrides their format."""

    def __init__(self, settings: Settings, *, format_: str | None = None) -> None:
        self._reader = open_reader(without_registry(settings), {}, format_=format_)
        self._has_conversations = bool(metric_routes(settings, "conversation"))
        self._selector = Selector(sampling_policy(settings.sampling), metric_routes(settings), {})

    def outcomes(self, records: Iterable[Record]) -> Iterator[TrialOutcome]:
        """Yield the outcomes of records, in the order of the topic; groups are joined over all."""
        if isinstance(self._reader, GroupReader):
            yield from self._groups(self._reader, records)
        elif isinstance(self._reader, EventReader):
            for record in records:
                before = _before(record.value)
                try:
                    event = self._reader.decode(record.value, record.headers, record.timestamp_ms)
                except DecodeError as error:
                    yield TrialOutcome(before, problem=error.detail)
                else:
                    yield self._sampled(before, event, record.key)

    def _groups(self, reader: GroupReader[Any], records: Iterable[Record]) -> Iterator[TrialOutcome]:
        groups: dict[str, list[Any]] = {}
        for record in records:
            try:
                for group, parts in reader.parts(record.value).items():
                    groups.setdefault(group, []).extend(parts)
            except DecodeError as error:
                yield TrialOutcome(None, problem=error.detail)
        for group, parts in groups.items():
            try:
                reading = reader.read(parts)
            except DecodeError as error:
                yield TrialOutcome(group, problem=error.detail)
                continue
            if reading.why_none is not None:
                problem = f"{reading.why_none}: {reading.problem}"
                yield TrialOutcome(group, problem=problem, hints=reading.hints)
            for event in reading.events:
                yield self._sampled(group, event, None)

    def _sampled(self, before: Any, event: QAEvent, key: bytes | None) -> TrialOutcome:
        selection = self._selector.select(event, key)
        decision = selection.decision
        in_conversation = event.conversation_id is not None and self._has_conversations
        unroutable = decision.rate and not selection.fitting and not in_conversation
        return TrialOutcome(
            before,
            event,
            problem="unroutable: no metric's conditions match; see metrics.*.when" if unroutable else None,
            kept=decision.keep,
            probability=float(decision.probability),
            stratum=decision.stratum,
            metrics=tuple(selection.assignments) if decision.keep else selection.fitting,
            probabilities={
                route.metric: float(route.decide(decision, decision).probability)
                for route in self._selector.routes
                if route.metric in selection.fitting and decision.rate and route.rate
            },
        )


def _before(value: bytes | None) -> Any:
    try:
        return orjson.loads(value or b"")
    except orjson.JSONDecodeError:
        return (value or b"")[:200].decode("utf-8", "backslashreplace")
