"""Which traces of a record are in the sample, decided by their ids before anything else of them is read.

With rates by label the stratum shows only in the whole trace: until then the highest rate of all strata
counts, and what the others turn down is skipped when the trace is closed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from streams.errors import DecodeError
from streams.intake.decision import SkipReason
from streams.intake.pushdown import Record
from streams.intake.randomness import RANGE, hashed_randomness
from streams.intake.reading.otlp.reader import OtlpReader
from streams.intake.reading.otlp.span import Head
from streams.intake.sampling import SamplingPolicy
from streams.intake.tracestate import random_value


class Split(NamedTuple):
    """The traces of one record.

    Args:
        kept: Those in the sample.
        skipped: Roots of those that are not: a trace counts where its root is.
    """

    kept: frozenset[str]
    skipped: int


class TraceSampler:
    """Decides by trace id.

    Args:
        policy: What decides.
    """

    def __init__(self, policy: SamplingPolicy) -> None:
        self._least = policy.least_threshold
        self._by_key = policy.key == "record_key"
        self.skip_reason: SkipReason = "filtered" if self._least == RANGE else "not_sampled"

    def split(self, heads: Iterable[Head], record_key: bytes | None) -> Split:
        """Sort the traces of a record.

        Args:
            heads: Its traces, as far as this needs them.
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
        """Decide on one trace."""
        if self._by_key and record_key:
            return hashed_randomness(record_key) >= self._least
        trace_id, tracestate, _ = head
        stated = random_value(tracestate) if tracestate else None
        if stated is not None:
            return stated >= self._least
        return len(trace_id) == 32 and int(trace_id[-14:], 16) >= self._least


class TracePushDown:
    """Says of a raw record whether it is delivered: a trace of it is in the sample, or it is unreadable.

    Args:
        policy: What decides.
        reader: How records are read.
    """

    def __init__(self, policy: SamplingPolicy, reader: OtlpReader) -> None:
        self._sampler = TraceSampler(policy)
        self._reader = reader
        self.skipped: dict[SkipReason, int] = {"filtered": 0, "not_sampled": 0}
        """Traces skipped so far, by reason."""

    def __call__(self, record: Record) -> bool:
        """Decide, and count the record's traces if it is skipped."""
        try:
            heads = self._reader.heads(record.value, record.key)
            for head in heads:
                if self._sampler.keeps(head, record.key):
                    return True
        except (DecodeError, ValueError):
            return True  # it becomes a dead letter; ValueError: a trace id that is not hexadecimal
        self.skipped[self._sampler.skip_reason] += sum([head.roots for head in heads])
        return False
