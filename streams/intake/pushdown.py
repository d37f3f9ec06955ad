"""Sample raw records before decoding: a predicate that skips what the policy does not keep.

For every record that `Ingest.decode` accepts, the predicate decides as `SamplingPolicy.decide_event` does for
the decoded event, with the same skip reason. It reads no more than needed: the record's key if the policy
samples by it, the trace headers if there are any, and otherwise, or if strata depend on labels, the needed
fields of the body.

A record that cannot be decoded is delivered and becomes a dead letter, unless the fields for sampling can be
read and decide to skip it. So at a rate of 1%, about one in a hundred such records becomes a dead letter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final, Protocol

import msgspec
from msgspec import UNSET, UnsetType

from judge.task import READ_AT_ONCE
from schemas.base import MAX_LABEL_VALUE_CHARS
from streams.errors import DecodeError
from streams.intake.decision import SkipReason
from streams.intake.randomness import (
    RANDOM_BITS,
    RANGE,
    event_randomness,
    hashed_randomness,
    trace_randomness,
)
from streams.intake.reading import Ingest
from streams.intake.reading.decode import normal_label
from streams.intake.reading.envelope import Headers, parts_of, strip_confluent
from streams.intake.reading.trace import normal_trace_id, normal_tracestate, trace_from_headers
from streams.intake.sampling import SamplingPolicy, Stratum

MAX_PLACES: Final = 1_000
"""Limit on cached strata by label values, whose combinations producers choose."""
_DIGEST_BYTES: Final = 32
_ABSENT: Final = msgspec.Raw()
_Needed = tuple[int, dict[str, str]]
"""R and the labels that determine the stratum."""


class Record(Protocol):
    """The used part of aiokafka's ConsumerRecord."""

    @property
    def key(self) -> bytes | None:
        """The encoded key."""

    @property
    def value(self) -> bytes | None:
        """The encoded value."""

    @property
    def headers(self) -> Headers:
        """Names and values, in order."""


@dataclass(frozen=True, slots=True)
class _Place:
    """A stratum in a form that is fast to compare.

    Args:
        limit: Lowest SHA-256 digest that is kept; digests are ordered like the numbers in their first bytes.
        skip_reason: The reason to skip the others.
    """

    limit: bytes
    skip_reason: SkipReason

    @classmethod
    def of(cls, stratum: Stratum) -> _Place:
        if stratum.threshold == RANGE:  # no digest reaches it
            return cls(b"\xff" * (_DIGEST_BYTES + 1), stratum.skip_reason)
        return cls(stratum.threshold.to_bytes(RANDOM_BITS // 8, "big"), stratum.skip_reason)


def push_down(policy: SamplingPolicy, ingest: Ingest) -> PushDown | None:
    """Build the predicate; None if it cannot decide: all events are kept, or the whole event is needed.

    Earlier sampling needs the whole event, because its probability may be in the body.
    """
    return None if policy.keeps_all or policy.upstream != "ignore" else PushDown(policy, ingest)


class PushDown:
    """Decides whether a raw record is delivered. Not thread-safe: `skipped` holds plain integers.

    Args:
        policy: The sampling policy.
        ingest: Reads records.
    """

    def __init__(self, policy: SamplingPolicy, ingest: Ingest) -> None:
        self.skipped: dict[SkipReason, int] = {"filtered": 0, "not_sampled": 0}
        """Records skipped so far, by reason."""
        self._policy = policy
        self._ingest = ingest
        self._surely_read = min(ingest.max_event_bytes, READ_AT_ONCE)
        self._by_key = policy.key == "record_key"
        self._label_names = policy.label_names
        self._label_attributes = tuple(
            (f"label_{index}", name) for index, name in enumerate(policy.label_names)
        )
        self._only_stratum = None if policy.label_names else policy.stratum({})
        self._only_place = None if self._only_stratum is None else _Place.of(self._only_stratum)
        self._places: dict[Any, _Place] = {}
        self._whole = _decoder(ingest, policy.label_names, identity=True)
        self._labels_alone = _decoder(ingest, policy.label_names, identity=False)

    def __call__(self, record: Record) -> bool:
        """Decide, and count the record if it is skipped.

        Args:
            record: A raw record.

        Returns:
            Whether it is delivered.
        """
        # Two fast paths of the decision below, for most records: this runs for every record.
        key = record.key if self._by_key else None
        place = self._only_place
        if key and place is not None:
            if sha256(key).digest() >= place.limit:
                return True
            self.skipped[place.skip_reason] += 1
            return False
        if self._whole is not None and not key and not record.headers:
            kept = self._decide_by_body(record.value)
            if kept is not None:
                return kept
        if key:
            randomness: int | None = hashed_randomness(key)
        else:
            randomness = _header_randomness(record.headers) if record.headers else None
        stratum = self._only_stratum
        if randomness is None or stratum is None:
            needed = self._read(record, randomness)
            if needed is None:
                return True
            randomness, labels = needed
            stratum = stratum or self._policy.stratum(labels)
        if randomness >= stratum.threshold:
            return True
        self.skipped[stratum.skip_reason] += 1
        return False

    def _decide_by_body(self, value: bytes | None) -> bool | None:
        """Decide by id and labels in the body; None if they do not suffice."""
        decoder = self._whole
        if decoder is None or not value or (len(value) > self._surely_read and self._is_large(value)):
            return None
        try:
            found = decoder.decode(value if value[0] else strip_confluent(value))
        except (msgspec.MsgspecError, ValueError, RecursionError):
            return None
        if not found.event_id or found.trace_id or found.specversion is not _ABSENT:
            return None
        place = self._only_place or self._places.get(found.labels) or self._find_place(found.labels)
        if sha256(found.event_id.encode()).digest() >= place.limit:
            return True
        self.skipped[place.skip_reason] += 1
        return False

    def _is_large(self, value: bytes) -> bool:
        """Return whether a body is not read here, because of its size or its number of parts."""
        return len(value) > self._ingest.max_event_bytes or parts_of(value) > READ_AT_ONCE

    def _find_place(self, found: Any) -> _Place:
        labels = self._labels_of(found)
        place = _Place.of(self._policy.stratum(labels))
        if len(self._places) < MAX_PLACES and all(
            len(label) < MAX_LABEL_VALUE_CHARS for label in labels.values()
        ):
            self._places[found] = place
        return place

    def _labels_of(self, found: Any) -> dict[str, str]:
        """Return the labels that determine the stratum, as `normal_labels` does."""
        labels: dict[str, str] = {}
        if found:
            for attribute, name in self._label_attributes:
                label = getattr(found, attribute)
                if label is True or label is False:
                    labels[name] = "true" if label else "false"
                elif label is not None and label is not UNSET:
                    labels[name] = normal_label(label)
        return labels

    def _read(self, record: Record, randomness: int | None) -> _Needed | None:
        """Read the needed fields; None if they cannot be read, so that the record is delivered."""
        value = record.value
        if not value or self._is_large(value):
            return None
        quick = self._read_quickly(value, randomness)
        return self._read_exactly(record, randomness) if quick is None else quick

    def _read_quickly(self, value: bytes, randomness: int | None) -> _Needed | None:
        """Parse only the needed fields of the JSON; None if their meaning needs the full path."""
        decoder = self._whole if randomness is None else self._labels_alone
        if decoder is None:
            return None
        try:
            found = decoder.decode(strip_confluent(value))
        except (msgspec.MsgspecError, ValueError, RecursionError):
            return None  # not JSON, nested too deeply, or a type that `normal_labels` converts
        if found.specversion is not _ABSENT:
            return None  # possibly a structured CloudEvent, with the fields in `data`
        labels = self._labels_of(found.labels) if self._label_names else {}
        if randomness is None:
            if not found.event_id:
                return None  # a CloudEvent in binary mode has its id in a header
            trace_id = normal_trace_id(found.trace_id or None)
            randomness = event_randomness(
                found.event_id, trace_id, normal_tracestate(found.tracestate or None)
            )
        return randomness, labels

    def _read_exactly(self, record: Record, randomness: int | None) -> _Needed | None:
        """Read the fields by the full path."""
        try:
            found = self._ingest.sampling_fields(record.value, record.headers, self._label_names)
            if randomness is None:
                randomness = event_randomness(found.event_id, found.trace_id, found.tracestate)
        except (DecodeError, ValueError):
            return None  # ValueError: text that UTF-8 cannot encode, from an expression of the mapping
        return randomness, found.labels


def _header_randomness(headers: Headers) -> int | None:
    context = trace_from_headers(headers)
    return None if context is None else trace_randomness(context.trace_id, context.tracestate)


def _decoder(
    ingest: Ingest, label_names: Sequence[str], *, identity: bool
) -> msgspec.json.Decoder[Any] | None:
    """Build a decoder for the needed fields; None with a mapping, which may take them from elsewhere."""
    if ingest.maps:
        return None
    text = str | UnsetType | None
    fields: list[tuple[str, Any, Any]] = [("specversion", msgspec.Raw, _ABSENT)]
    if identity:
        fields += [(name, text, UNSET) for name in ("event_id", "trace_id", "tracestate")]
    if label_names:
        names = {f"label_{index}": name for index, name in enumerate(label_names)}
        try:
            labels = msgspec.defstruct(
                "Labels",
                [(field, str | bool | UnsetType | None, UNSET) for field in names],
                rename=names,
                frozen=True,  # so that it is hashable
                gc=False,
            )
        except ValueError:
            return None  # a label name with a quote or a control character
        fields.append(("labels", labels | UnsetType | None, UNSET))
    return msgspec.json.Decoder(msgspec.defstruct("Needed", fields, gc=False))
