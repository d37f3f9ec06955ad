"""Sample raw JSON records before they are delivered: the intake's decision, on a cheap view of the record.

The views are its key, its trace headers, the needed fields of a plain JSON body, else the decoded event.
Unreadable records are delivered and become dead letters, unless these fields decide to skip them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from hashlib import sha256
from typing import Any, Final

import msgspec
from msgspec import UNSET, UnsetType

from judge.metric import READ_AT_ONCE
from streams.errors import DecodeError
from streams.intake.reader import EventReader, normal_id, normal_labels, normal_tracestate, trace_from_headers
from streams.intake.sampling import RANDOM_BITS, SamplingPolicy, SamplingStratum, SkipReason, trace_randomness
from streams.kafka.record import Record

WIRE_HEADER_BYTES: Final = 5
"""Confluent's: a zero byte, with which no JSON begins, then the schema's id in four bytes."""
CACHED_LABELS: Final = 512
"""Limit on cached strata by labels, which producers choose; only those of short records are cached."""
_ABSENT: Final = msgspec.Raw()
_Text = str | UnsetType | None


def _decoder(label_names: Sequence[str]) -> msgspec.json.Decoder[Any] | None:
    # Of the wanted labels only: a dictionary of all costs a third of the whole decision.
    fields: list[tuple[str, Any, Any]] = [("specversion", msgspec.Raw, _ABSENT)]
    fields += [(name, _Text, UNSET) for name in ("event_id", "trace_id", "tracestate")]
    if label_names:
        names = {f"label_{index}": name for index, name in enumerate(label_names)}
        wanted = [(name, str | bool | UnsetType | None, UNSET) for name in names]
        try:
            labels = msgspec.defstruct("Labels", wanted, rename=names, frozen=True, gc=False)
        except ValueError:
            return None  # a quote or a control character
        fields.append(("labels", labels | UnsetType | None, UNSET))
    return msgspec.json.Decoder(msgspec.defstruct("Body", fields, gc=False))


class PushDown:
    """Decides whether a raw record is delivered. Not thread-safe: `skipped` holds plain integers."""

    def __init__(self, policy: SamplingPolicy, reader: EventReader) -> None:
        self.skipped: dict[SkipReason, int] = {"filtered": 0, "not_sampled": 0}
        self._policy = policy
        self._by_key = policy.key == "record_key"
        self._reader = reader
        self._surely_read = min(reader.max_event_bytes, READ_AT_ONCE)
        self._only_stratum = None if policy.label_names else policy.stratum({})
        self._labels = tuple((f"label_{index}", name) for index, name in enumerate(policy.label_names))
        self._decoder = _decoder(policy.label_names) if reader.is_plain else None
        self._cached_stratum = lru_cache(maxsize=CACHED_LABELS)(self._stratum)

    def __call__(self, record: Record) -> bool:
        # R as bytes: a digest is compared as it is.
        randomness = sha256(record.key).digest() if self._by_key and record.key else None
        if randomness is None and record.headers:
            context = trace_from_headers(record.headers)
            if context is not None:
                randomness = _as_bytes(trace_randomness(context.trace_id, context.tracestate))
        stratum = self._only_stratum
        if randomness is None or stratum is None:
            reason = self._reason(record, randomness)
        else:
            reason = None if randomness >= stratum.least else stratum.skip_reason
        if reason is None:
            return True
        self.skipped[reason] += 1
        return False

    def _reason(self, record: Record, randomness: bytes | None) -> SkipReason | None:
        """Decide by the body; None to deliver the record, also if it is not read here."""
        value = record.value
        if not value:
            return None
        is_short, reader = len(value) <= self._surely_read, self._reader
        if not is_short and (len(value) > reader.max_event_bytes or reader.parts(value) > READ_AT_ONCE):
            return None
        body: Any = None
        if self._decoder is not None:
            try:
                body = self._decoder.decode(value if value[0] else value[WIRE_HEADER_BYTES:])
            except (msgspec.MsgspecError, ValueError, RecursionError):
                body = None  # another type, or not JSON
        try:
            if body is None or not body.event_id or body.specversion is not _ABSENT:
                # An envelope or a mapping has the fields elsewhere.
                event = reader.decode(value, record.headers)
                return self._policy.decide_event(event, record.key).skip_reason
            if randomness is None and body.trace_id:
                tracestate = normal_tracestate(body.tracestate or None)
                randomness = _as_bytes(trace_randomness(normal_id(body.trace_id), tracestate))
            if randomness is None:
                randomness = sha256(body.event_id.encode()).digest()
        except (DecodeError, ValueError):
            return None  # ValueError: text that UTF-8 cannot encode, from an expression of the mapping
        stratum = self._only_stratum
        if stratum is None:
            stratum = (self._cached_stratum if is_short else self._stratum)(body.labels)
        return None if randomness >= stratum.least else stratum.skip_reason

    def _stratum(self, found: Any) -> SamplingStratum:
        labels = {name: getattr(found, attribute) for attribute, name in self._labels} if found else {}
        given = {name: label for name, label in labels.items() if label is not UNSET}
        return self._policy.stratum(normal_labels(given))


def _as_bytes(randomness: int | None) -> bytes | None:
    return None if randomness is None else randomness.to_bytes(RANDOM_BITS // 8)
