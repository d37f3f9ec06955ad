"""Read the event in a JSON record from its value, headers and timestamp, also by JMESPath expressions."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import jmespath
import orjson
from pydantic import TypeAdapter, ValidationError

from judge.metric import READ_AT_ONCE
from schemas import QAEvent
from streams.errors import DecodeError, undecodable
from streams.intake.reader import (
    EventReader,
    Headers,
    TraceContext,
    is_plausible,
    normal_id,
    normal_labels,
    normal_tracestate,
    parse_trace_context,
    trace_from_headers,
)
from streams.intake.reading.pushdown import WIRE_HEADER_BYTES, PushDown
from streams.intake.sampling import SamplingPolicy
from streams.kafka.record import moment
from streams.settings.intake import MAX_EXPRESSION_CHARS
from streams.settings.problems import describe, explain
from streams.settings.tree import Settings

if TYPE_CHECKING:
    from streams.intake.reading.registry.unpacking import Unpacking

MAX_DETAIL_CHARS = 1_000
MAX_DETAIL_PROBLEMS = 5
PROBABILITY_HEADER = "sampling-probability"
"""Record header with the producer's sampling probability; it takes precedence over the body's field."""
_EVENT_FIELDS = tuple(QAEvent.model_fields)
_NORMAL = {"trace_id": normal_id, "span_id": normal_id, "tracestate": normal_tracestate}
_DATETIME = TypeAdapter(datetime)


class JsonReader(EventReader):
    """Reads records of JSON, or with schemas in a registry, also in a CloudEvent (binary or structured mode).

    `event_id` is by default the CloudEvent's id, `occurred_at` its time, else the record's timestamp. A time
    without an offset is in UTC; a number is Unix time (seconds, or milliseconds if larger than 2e10).

    The whole trace context comes from one place: valid headers, else the attributes of a structured
    CloudEvent, else the body. So sampling can use headers without the body.
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
        trouble = None if self._unpacking is None else self._unpacking.client.trouble
        return None if trouble is None else f"the schema registry: {trouble}"

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
        """Count also the parts of JSON inside strings; 0 for a short value."""
        if value is None or len(value) <= READ_AT_ONCE:
            return 0
        if b'"data_base64"' in value:
            return len(value)
        return value.count(b",") + value.count(b"[") + value.count(b"{")

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
        if fields.setdefault("event_id") in (None, ""):
            fields["event_id"] = opened.event_id if opened.event_id is not None else fields["event_id"]
        fields["labels"] = normal_labels(fields.get("labels"))
        fields |= _trace(fields, opened, headers)
        stated = [value for name, value in headers if name == PROBABILITY_HEADER and value is not None]
        if stated:
            with suppress(ValueError):
                fields["sampling_probability"] = float(stated[0])
        fields["occurred_at"] = _occurred_at(fields.get("occurred_at"), opened, timestamp_ms)
        return event_of(fields)


def _trace(fields: Mapping[str, Any], opened: Opened, headers: Headers) -> dict[str, Any]:
    outside = (trace_from_headers(headers) if headers else None) or opened.trace
    if outside is not None:
        return outside._asdict()
    trace: dict[str, Any] = {}
    for name, normal in _NORMAL.items():
        value = fields.get(name)
        if value is not None and not isinstance(value, str):
            raise undecodable(
                f"{name}: must be text (got {describe(value)}); send it in W3C format or omit it"
            )
        trace[name] = normal(value)
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
        raise undecodable(
            f"occurred_at: must be a time as in RFC 3339 (got {describe(given)}: {why}); correct or omit it"
        ) from None
    at = at if at.tzinfo is not None else at.replace(tzinfo=UTC)
    return at.astimezone(UTC) if is_plausible(at, recorded) else recorded


def event_of(fields: Mapping[str, Any]) -> QAEvent:
    """Return the event of some fields, or raise DecodeError within the limits of a dead letter."""
    try:
        return QAEvent.model_validate(fields)
    except ValidationError as error:
        lines = explain(error, QAEvent)
    more = len(lines) - MAX_DETAIL_PROBLEMS
    text = "\n".join(lines[:MAX_DETAIL_PROBLEMS]) + (f"\nand {more} more" if more > 0 else "")
    raise undecodable(text[:MAX_DETAIL_CHARS].encode("utf-8", "backslashreplace").decode())


# Envelopes: Confluent's wire header, CloudEvents


class Opened(NamedTuple):
    """The JSON object in a record, and defaults from its envelope."""

    document: dict[str, Any]
    event_id: str | None = None
    occurred_at: str | None = None
    trace: TraceContext | None = None


def bounded(value: bytes | None, limit: int, *, send: str, remedy: str) -> bytes:
    """Refuse a value that is empty or too large."""
    if not value:
        raise undecodable(f"value: is empty (a tombstone); send {send}")
    if len(value) > limit:
        raise DecodeError(
            "oversized",
            f"value: must have at most {limit} bytes (got {len(value)}); {remedy} or raise "
            "ingest.max_event_bytes",
        )
    return value


def open_record(value: bytes, headers: Headers) -> Opened:
    named = dict(headers)
    content_type = _text(named.get("content-type")).partition(";")[0].strip().lower()
    if content_type.startswith("application/cloudevents-batch"):
        raise undecodable(
            f"content-type: must not be a batch of CloudEvents (got {content_type[:80]!r}); send one "
            "event per record"
        )
    document = _json_object(value if value[0] else value[WIRE_HEADER_BYTES:], "value")
    if "ce_specversion" in named:
        return Opened(document, _text(named.get("ce_id")) or None, _text(named.get("ce_time")) or None)
    is_structured = content_type.startswith("application/cloudevents") or (
        "specversion" in document
        and ("data" in document or "data_base64" in document)
        and all(isinstance(document.get(name), str) for name in ("specversion", "type", "source", "id"))
    )
    return _open_structured(document) if is_structured else Opened(document)


def _open_structured(envelope: dict[str, Any]) -> Opened:
    if not isinstance(envelope.get("specversion"), str):
        raise undecodable(
            "specversion: is required in a structured CloudEvent; correct the producer or the content type"
        )
    data = envelope.get("data")
    if data is None and isinstance(envelope.get("data_base64"), str):
        try:
            raw = base64.b64decode(envelope["data_base64"], validate=True)
        except (binascii.Error, ValueError):
            raise undecodable("data_base64: is not standard base64; correct the producer") from None
        data = _json_object(raw, "data_base64")
    elif isinstance(data, str):
        data = _json_object(data.encode(), "data")
    if not isinstance(data, dict):
        raise undecodable(
            f"data: must be a JSON object in a structured CloudEvent (got {describe(data)}); put "
            "the event there"
        )
    names = ("id", "time", "traceparent", "tracestate")
    texts = {name: envelope[name] or None for name in names if isinstance(envelope.get(name), str)}
    event_id, occurred_at, parent, state = map(texts.get, names)
    trace = None if parent is None else parse_trace_context(parent, state)
    return Opened(data, event_id, occurred_at, trace)


def _json_object(raw: bytes, field: str) -> dict[str, Any]:
    try:
        document = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        start = bytes(raw[:40])
        raise undecodable(
            f"{field}: is not valid JSON, {error} (got {start!r}...); send JSON in UTF-8 (Avro and "
            "Protobuf need ingest.registry)"
        ) from None
    if not isinstance(document, dict):
        raise undecodable(
            f"{field}: must be a JSON object (got {describe(document)}); send one event per record"
        )
    return document


def _text(value: bytes | None) -> str:
    try:
        return (value or b"").decode()
    except UnicodeDecodeError:
        return ""


# Mapping


class Mapper:
    """The expressions of `ingest.mapping`, which the settings have checked.

    A field without an expression is taken from the document by its name. Expressions for `labels.<name>` and
    `fields.<name>` add to those of `labels` and `fields`, or to the document's own.
    """

    def __init__(self, expressions: Mapping[str, str]) -> None:
        # Whole fields first, to which those of single labels and texts add.
        targets = sorted(expressions, key=lambda target: "." in target)
        self._searches = [
            (target, expressions[target], jmespath.compile(expressions[target]).search) for target in targets
        ]
        self.targets = {target.partition(".")[0] for target in expressions}

    def apply(self, document: dict[str, Any], fields: Collection[str]) -> dict[str, Any]:
        found = {name: document[name] for name in fields if name in document}
        for target, expression, search in self._searches:
            name, _, part = target.partition(".")
            if name not in fields:
                continue
            value = _search(target, expression, search, document)
            if not part:
                is_number = isinstance(value, int | float) and not isinstance(value, bool)
                # Ids are numbers in many databases.
                found[name] = str(value) if name == "event_id" and is_number else value
                continue
            if name == "fields" and not isinstance(value, str | None):
                value = orjson.dumps(value).decode()
            # Labels of another shape than a mapping are replaced.
            base = found[name] if isinstance(found.get(name), dict) else {}
            found[name] = base if name == "fields" and value is None else {**base, part: value}
        return found


def _search(target: str, expression: str, search: Callable[[Any], Any], document: dict[str, Any]) -> Any:
    try:
        found = search(document)
        # Literals and expression references can produce values outside JSON, such as lone surrogates.
        orjson.dumps(found)
    except Exception as error:  # noqa: BLE001 - any failure of an expression concerns only this event
        why = " ".join(str(error).split())[:200] or type(error).__name__
        raise undecodable(
            f"ingest.mapping.{target}: {expression[:MAX_EXPRESSION_CHARS]!r} fails on this event, "
            f"{why}; correct the expression or the event"
        ) from None
    return found
