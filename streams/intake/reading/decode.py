"""Read the event in a JSON record from its value, headers and timestamp."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Self

from pydantic import TypeAdapter, ValidationError

from schemas import QAEvent
from streams.errors import DecodeError
from streams.intake.randomness import normal_id, normal_tracestate, trace_from_headers
from streams.intake.reader import EventReader, Headers, is_plausible
from streams.intake.reading.envelope import Opened, bounded, open_record, parts_of
from streams.intake.reading.mapping import Mapper, event_of, normal_labels
from streams.intake.reading.pushdown import PushDown
from streams.intake.sampling import SamplingPolicy
from streams.kafka.record import moment
from streams.settings import Settings
from streams.settings.problems import describe

if TYPE_CHECKING:
    from streams.intake.reading.registry.unpacking import Unpacking

PROBABILITY_HEADER = "sampling-probability"
"""Record header with the producer's sampling probability; it takes precedence over the body's field."""

_EVENT_FIELDS = tuple(QAEvent.model_fields)
_TRACE_FIELDS = ("trace_id", "span_id", "tracestate")
_NORMAL = {"trace_id": normal_id, "span_id": normal_id, "tracestate": normal_tracestate}
_DATETIME = TypeAdapter(datetime)


class JsonReader(EventReader):
    """Reads records of JSON, or with schemas in a registry.

    Steps: size; an empty value; Confluent's wire header; JSON; CloudEvents (binary mode by the header
    `ce_specversion`; structured mode by content type or by its required attributes); `ingest.mapping`;
    defaults from outside the body; the event's own checks.

    Defaults: `event_id` is the CloudEvent's id; `occurred_at` is the CloudEvent's time, else the record's
    timestamp, and always in UTC. A time without an offset is in UTC. A number as time is Unix time (seconds,
    or milliseconds if larger than 2e10).

    The whole trace context comes from one place: the header `traceparent` (with `tracestate`), else the
    header `ce_traceparent`, else the attributes of a structured CloudEvent, else the body. Headers take
    precedence so that sampling can use them without reading the body; a malformed header is ignored. A
    service that forwards events of others must forward their trace headers or send none.

    Args:
        max_event_bytes: Larger values are refused.
        mapping: `ingest.mapping`; empty if records have the fields of an event.
        unpacking: Decodes records by their schemas; None without a registry.

    Raises:
        SettingsError: The mapping is invalid.
    """

    def __init__(
        self,
        *,
        max_event_bytes: int,
        mapping: Mapping[str, str] | None = None,
        unpacking: Unpacking | None = None,
    ) -> None:
        self.max_event_bytes = max_event_bytes
        self._mapper = Mapper(mapping) if mapping else None
        self.is_plain = self._mapper is None
        self._unpacking = unpacking

    @classmethod
    def of(cls, settings: Settings, env: Mapping[str, str], *, patient: bool = True) -> Self:
        ingest, unpacking = settings.ingest, None
        if ingest.registry is not None:
            from streams.intake.reading.registry.unpacking import open_registry  # noqa: PLC0415 - an extra

            unpacking = open_registry(ingest.registry, env, patient=patient)
        return cls(
            max_event_bytes=ingest.max_event_bytes,
            mapping=None if ingest.format == "otlp" else ingest.mapping,  # over traces
            unpacking=unpacking,
        )

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_unpacking": None}  # a child process decodes JSON alone

    @property
    def trouble(self) -> str | None:
        return None if self._unpacking is None else self._unpacking.client.trouble

    def push_down(self, policy: SamplingPolicy) -> PushDown | None:
        # Earlier sampling needs the whole event, because its probability may be in the body.
        if policy.keeps_all or policy.upstream != "ignore":
            return None
        return PushDown(policy, self)

    async def check(self) -> str | None:
        if self._unpacking is None:
            return None
        return f"supports {', '.join(await self._unpacking.client.kinds())}"

    async def close(self) -> None:
        if self._unpacking is not None:
            await self._unpacking.close()

    def parts(self, value: bytes | None) -> int:
        return parts_of(value)

    async def unpack(self, value: bytes | None, headers: Headers) -> bytes | None:
        return value if self._unpacking is None else await self._unpacking.json(value, headers)

    def decode(
        self, value: bytes | None, headers: Headers | None = None, timestamp_ms: int | None = None
    ) -> QAEvent:
        headers = headers or ()
        found = bounded(value, self.max_event_bytes, send="an event as JSON", remedy="send fewer pages")
        opened = open_record(found, headers)
        document = opened.document
        fields = (
            {name: document[name] for name in _EVENT_FIELDS if name in document}
            if self._mapper is None
            else self._mapper.apply(document, _EVENT_FIELDS)
        )
        fields["event_id"] = _event_id(fields, opened)
        fields["labels"] = normal_labels(fields.get("labels"))
        fields |= _trace(fields, opened, headers)
        stated = _header(headers, PROBABILITY_HEADER) if headers else None
        if stated is not None:
            fields["sampling_probability"] = stated
        fields["occurred_at"] = _occurred_at(fields.get("occurred_at"), opened, timestamp_ms)
        return event_of(fields)


def _header(headers: Headers, wanted: str) -> float | None:
    for name, value in headers:
        if name == wanted and value is not None:
            try:
                return float(value)
            except ValueError:
                return None
    return None


def _event_id(fields: Mapping[str, Any], opened: Opened) -> Any:
    own = fields.get("event_id")
    return opened.event_id if opened.event_id is not None and (own is None or own == "") else own


def _trace(fields: Mapping[str, Any], opened: Opened, headers: Headers) -> dict[str, Any]:
    outside = (trace_from_headers(headers) if headers else None) or opened.trace
    if outside is not None:
        return {name: getattr(outside, name) for name in _TRACE_FIELDS}
    trace: dict[str, Any] = {}
    for name in _TRACE_FIELDS:
        value = fields.get(name)
        if value is not None and not isinstance(value, str):
            raise DecodeError(
                "undecodable",
                f"{name}: must be text (got {describe(value)}); send it in W3C format or omit it",
            )
        trace[name] = _NORMAL[name](value)
    return trace


def _occurred_at(own: Any, opened: Opened, timestamp_ms: int | None) -> Any:
    given = own if own is not None and own != "" else opened.occurred_at
    recorded = moment(None if timestamp_ms is None else timestamp_ms / 1000)
    if given is None:
        return recorded
    try:
        at = _DATETIME.validate_python(given)
    except ValidationError as error:
        why = error.errors()[0]["msg"]
        raise DecodeError(
            "undecodable",
            (
                f"occurred_at: must be a time as in RFC 3339 (got {describe(given)}: {why}); correct or "
                "omit it"
            ),
        ) from None
    at = at if at.tzinfo is not None else at.replace(tzinfo=UTC)
    return at.astimezone(UTC) if is_plausible(at, recorded) else recorded
