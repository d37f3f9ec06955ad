"""Sample raw records before they are delivered: the intake's decision, on a cheap view of the record.

Each view is a step of the same decision: the record's key, the trace headers, the needed fields of a plain
JSON body, and else the decoded event. What cannot be read is delivered and becomes a dead letter, unless
these fields can be read and decide to skip it: at a rate of 1%, one in a hundred such records becomes one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import UNSET, UnsetType

from judge.metric import READ_AT_ONCE
from streams.errors import DecodeError
from streams.intake.randomness import (
    RANGE,
    event_randomness,
    random_value,
    trace_randomness,
)
from streams.intake.reading import Ingest
from streams.intake.reading.decode import normal_label
from streams.intake.reading.envelope import parts_of, strip_confluent
from streams.intake.reading.otlp.reader import OtlpReader
from streams.intake.reading.otlp.span import Head
from streams.intake.reading.trace import normal_id, normal_tracestate, trace_from_headers
from streams.intake.sampling import SamplingPolicy, SkipReason, Stratum
from streams.kafka.record import Record

_ABSENT: Final = msgspec.Raw()
_Text = str | UnsetType | None


def _decoder(label_names: Sequence[str]) -> msgspec.json.Decoder[Any] | None:
    """Build a decoder for the fields of a plain event that sampling needs; None if a label's name forbids it.

    It reads only the wanted labels: a dictionary of all costs a third of the whole decision.
    """
    fields: list[tuple[str, Any, Any]] = [("specversion", msgspec.Raw, _ABSENT)]
    fields += [(name, _Text, UNSET) for name in ("event_id", "trace_id", "tracestate")]
    if label_names:
        names = {f"label_{index}": name for index, name in enumerate(label_names)}
        wanted = [(name, str | bool | UnsetType | None, UNSET) for name in names]
        try:
            labels = msgspec.defstruct("Labels", wanted, rename=names, gc=False)
        except ValueError:
            return None  # a quote or a control character
        fields.append(("labels", labels | UnsetType | None, UNSET))
    return msgspec.json.Decoder(msgspec.defstruct("Body", fields, gc=False))


def push_down(policy: SamplingPolicy, ingest: Ingest) -> PushDown | None:
    """Build the predicate; None if it cannot decide: all events are kept, or the whole event is needed.

    Earlier sampling needs the whole event, because its probability may be in the body.
    """
    return None if policy.keeps_all or policy.upstream != "ignore" else PushDown(policy, ingest)


class PushDown:
    """Decides whether a raw record is delivered. Not thread-safe: `skipped` holds plain integers."""

    def __init__(self, policy: SamplingPolicy, ingest: Ingest) -> None:
        self.skipped: dict[SkipReason, int] = {"filtered": 0, "not_sampled": 0}
        """Records skipped so far, by reason."""
        self._policy = policy
        self._ingest = ingest
        self._surely_read = min(ingest.max_event_bytes, READ_AT_ONCE)
        self._only_stratum = None if policy.label_names else policy.stratum({})
        self._labels = tuple((f"label_{index}", name) for index, name in enumerate(policy.label_names))
        self._decoder = None if ingest.maps else _decoder(policy.label_names)

    def __call__(self, record: Record) -> bool:
        """Return whether to deliver a record; count it if not."""
        randomness = self._policy.key_randomness(record.key)
        if randomness is None and record.headers:
            context = trace_from_headers(record.headers)
            if context is not None:
                randomness = trace_randomness(context.trace_id, context.tracestate)
        stratum = self._only_stratum
        if randomness is None or stratum is None:
            found = self._read(record, randomness)
            if found is None:
                return True
            randomness, stratum = found
        if randomness >= stratum.threshold:
            return True
        self.skipped[stratum.skip_reason] += 1
        return False

    def _read(self, record: Record, randomness: int | None) -> tuple[int, Stratum] | None:
        """Return R and stratum by the body; None if it cannot be read, or not here because of its size."""
        value = record.value
        if not value or (len(value) > self._surely_read and self._is_large(value)):
            return None
        try:
            body = self._view(value)
            if body is None:
                return self._decode(record, randomness)
            if randomness is None:
                trace_id = normal_id(body.trace_id) if body.trace_id else None
                tracestate = normal_tracestate(body.tracestate) if trace_id and body.tracestate else None
                randomness = event_randomness(body.event_id, trace_id, tracestate)
            return randomness, self._only_stratum or self._stratum(body.labels)
        except (DecodeError, ValueError):
            return None  # ValueError: text that UTF-8 cannot encode, from an expression of the mapping

    def _is_large(self, value: bytes) -> bool:
        return len(value) > self._ingest.max_event_bytes or parts_of(value) > READ_AT_ONCE

    def _view(self, value: bytes) -> Any:
        """Return the needed fields of a plain event; None if an envelope or a mapping has them elsewhere."""
        if self._decoder is None:
            return None
        try:
            body: Any = self._decoder.decode(value if value[0] else strip_confluent(value))
        except (msgspec.MsgspecError, ValueError, RecursionError):
            return None  # another type, or not JSON
        return body if body.event_id and body.specversion is _ABSENT else None

    def _stratum(self, found: Any) -> Stratum:
        labels: dict[str, str] = {}
        if found:
            for attribute, name in self._labels:
                label = getattr(found, attribute)
                if label is True or label is False:
                    labels[name] = "true" if label else "false"
                elif label is not None and label is not UNSET:
                    labels[name] = normal_label(label)
        return self._policy.stratum(labels)

    def _decode(self, record: Record, randomness: int | None) -> tuple[int, Stratum]:
        event = self._ingest.decode(record.value, record.headers)
        if randomness is None:
            randomness = event_randomness(event.event_id, event.trace_id, event.tracestate)
        return randomness, self._policy.stratum(event.labels)


class Split(NamedTuple):
    """The traces of one record: ids of the sampled ones, and the number of roots of the others."""

    kept: frozenset[str]
    skipped: int


class TraceSampler:
    """Samples the traces of a record by their ids, before the rest of them is parsed.

    With rates by label, the stratum is known only for a whole trace: until then the highest rate of all
    strata applies, and traces of other strata are skipped when they are closed.
    """

    def __init__(self, policy: SamplingPolicy) -> None:
        self._policy = policy
        self._least = policy.least_threshold
        self.skip_reason: SkipReason = "filtered" if self._least == RANGE else "not_sampled"

    def split(self, heads: Iterable[Head], record_key: bytes | None) -> Split:
        """Split the traces of a record by the decision; a trace is counted with its root."""
        kept = []
        skipped = 0
        for head in heads:
            if self.keeps(head, record_key):
                kept.append(head.trace_id)
            else:
                skipped += head.roots
        return Split(frozenset(kept), skipped)

    def keeps(self, head: Head, record_key: bytes | None) -> bool:
        randomness = self._policy.key_randomness(record_key)
        if randomness is None:
            trace_id, tracestate, _ = head
            randomness = random_value(tracestate) if tracestate else None
            if randomness is None:
                randomness = int(trace_id[-14:], 16) if len(trace_id) == 32 else -1
        return randomness >= self._least


class TracePushDown:
    """Decides whether a raw record is delivered: it has a sampled trace, or cannot be read."""

    def __init__(self, policy: SamplingPolicy, reader: OtlpReader) -> None:
        self._sampler = TraceSampler(policy)
        self._reader = reader
        self.skipped: dict[SkipReason, int] = {"filtered": 0, "not_sampled": 0}
        """Traces skipped so far, by reason."""

    def __call__(self, record: Record) -> bool:
        """Return whether to deliver a record; count its traces if not."""
        try:
            split = self._sampler.split(self._reader.heads(record.value), record.key)
        except (DecodeError, ValueError):
            return True  # it becomes a dead letter; ValueError: a trace id that is not hexadecimal
        if split.kept:
            return True
        self.skipped[self._sampler.skip_reason] += split.skipped
        return False
