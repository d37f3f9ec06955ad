"""Sample the traces of a record by their ids, before the rest of them is parsed.

With rates by label, the stratum is known only for a whole trace: until then the highest rate of all strata
applies, and traces of other strata are skipped when they are closed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from streams.errors import DecodeError
from streams.intake.decision import SkipReason
from streams.intake.pushdown import Record
from streams.intake.randomness import RANGE, hashed_randomness
from streams.intake.reading.otlp.reader import OtlpReader
from streams.intake.reading.otlp.requests.outline import trace_id_of
from streams.intake.reading.otlp.span import Head
from streams.intake.sampling import SamplingPolicy
from streams.intake.tracestate import random_value


class Split(NamedTuple):
    """The traces of one record.

    Args:
        kept: Ids of sampled traces.
        skipped: Number of roots of the others: a trace is counted with its root.
    """

    kept: frozenset[str]
    skipped: int


class TraceSampler:
    """Samples traces by their ids.

    Args:
        policy: The sampling policy.
    """

    def __init__(self, policy: SamplingPolicy) -> None:
        self._least = policy.least_threshold
        self._by_key = policy.key == "record_key"
        self.skip_reason: SkipReason = "filtered" if self._least == RANGE else "not_sampled"

    def split(self, heads: Iterable[Head], record_key: bytes | None) -> Split:
        """Split the traces of a record by the decision.

        Args:
            heads: Its traces, parsed as far as needed.
            record_key: Its key.
        """
        kept = []
        skipped = 0
        for head in heads:
            if self.keeps(head, record_key):
                kept.append(head.trace_id)
            else:
                skipped += head.roots
        return Split(frozenset(kept), skipped)

    def keeps(self, head: Head, record_key: bytes | None) -> bool:
        """Return whether one trace is kept."""
        if self._by_key and record_key:
            return hashed_randomness(record_key) >= self._least
        trace_id, tracestate, _ = head
        stated = random_value(tracestate) if tracestate else None
        if stated is not None:
            return stated >= self._least
        return len(trace_id) == 32 and int(trace_id[-14:], 16) >= self._least

    def keeps_id(self, trace_id: bytes, record_key: bytes) -> bool:
        """As `keeps`, for a trace without tracestate, by the 16 bytes of its id."""
        if self._by_key:
            return hashed_randomness(record_key) >= self._least
        return int.from_bytes(trace_id[-7:], "big") >= self._least


class TracePushDown:
    """Decides whether a raw record is delivered: it has a sampled trace, or cannot be read.

    Args:
        policy: The sampling policy.
        reader: Reads records.
    """

    def __init__(self, policy: SamplingPolicy, reader: OtlpReader) -> None:
        self._sampler = TraceSampler(policy)
        self._reader = reader
        self.skipped: dict[SkipReason, int] = {"filtered": 0, "not_sampled": 0}
        """Traces skipped so far, by reason."""

    def __call__(self, record: Record) -> bool:
        """Decide, and count the record's traces if it is skipped."""
        key, value = record.key, record.value
        roots = None
        if key and (trace_id := trace_id_of(key)):
            if self._sampler.keeps_id(trace_id, key):
                return True
            roots = self._reader.roots(value, trace_id)
        if roots is None:
            roots = 0
            try:
                for head in self._reader.heads(value, key):
                    if self._sampler.keeps(head, key):
                        return True
                    roots += head.roots
            except (DecodeError, ValueError):
                return True  # it becomes a dead letter; ValueError: a trace id that is not hexadecimal
        self.skipped[self._sampler.skip_reason] += roots
        return False
