"""One partition: an append-only log of record batches in memory, and its idempotent producers."""

from __future__ import annotations

import time
from bisect import bisect_right
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Final

from streams.embedded.batches import (
    NO_PRODUCER,
    BatchHeader,
    StoredBatch,
    find_time,
    next_sequence,
    parse_header,
    stored,
)
from streams.embedded.wire import Buffer, ErrorCode, RefusedError

MAX_AHEAD_MS: Final = 3_600_000
"""As by default in Kafka since 4.0 (`log.message.timestamp.after.max.ms`)."""
_base_offset = attrgetter("base_offset")


class PartitionLog:
    """A log. Offsets count records from 0; `start_offset` grows as old records are deleted."""

    __slots__ = ("_batches", "_producers", "end_offset", "size_bytes", "start_offset", "watchers")

    def __init__(self) -> None:
        self._batches: list[StoredBatch] = []
        self._producers = ProducerStates()
        self.size_bytes = 0
        self.watchers: set[Callable[[], None]] = set()
        """Called at each append and when the partition is deleted."""
        self.start_offset = 0
        self.end_offset = 0

    def append(self, data: Buffer, *, max_batch_bytes: int, retention_bytes: int | None = None) -> int:
        """Store one batch, unless it repeats an idempotent producer's batch."""
        header = parse_header(data)
        if header.size_bytes > max_batch_bytes:
            raise RefusedError(
                ErrorCode.MESSAGE_TOO_LARGE,
                f"the batch has {header.size_bytes} bytes, at most {max_batch_bytes} are allowed "
                "(max.message.bytes)",
            )
        if header.max_timestamp_ms > time.time_ns() // 1_000_000 + MAX_AHEAD_MS:
            raise RefusedError(ErrorCode.INVALID_TIMESTAMP, "the records' times are more than an hour ahead")
        if header.producer_id != NO_PRODUCER:
            earlier = self._producers.duplicate_of(header)
            if earlier is not None:
                return earlier
        batch = stored(data, header, self.end_offset)
        self._batches.append(batch)
        self.size_bytes += header.size_bytes
        self.end_offset = batch.next_offset
        if header.producer_id != NO_PRODUCER:
            self._producers.remember(header, batch.base_offset)
        while retention_bytes is not None and self.size_bytes > retention_bytes and len(self._batches) > 1:
            self.delete_before(self._batches[1].base_offset)
        self.wake_watchers()
        return batch.base_offset

    def read(self, offset: int, max_bytes: int, *, at_least_one: bool) -> list[bytearray]:
        """Return the stored batches (not copied) from the one with the offset on."""
        if not self.start_offset <= offset <= self.end_offset:
            raise RefusedError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"offset {offset} is not in {self.start_offset}..{self.end_offset}",
            )
        if offset == self.end_offset:
            return []
        found: list[bytearray] = []
        size = 0
        batches = self._batches
        for index in range(max(bisect_right(batches, offset, key=_base_offset) - 1, 0), len(batches)):
            data = batches[index].data
            if size + len(data) > max_bytes and (found or not at_least_one):
                break
            found.append(data)
            size += len(data)
        return found

    def find_time(self, timestamp_ms: int) -> tuple[int, int] | None:
        """Return time and offset of the first record at or after a time; None if there is none."""
        for batch in self._batches:
            found = find_time(batch, timestamp_ms)
            if found is not None:
                return found[0], max(found[1], self.start_offset)
        return None

    def delete_before(self, offset: int) -> int:
        """Delete the records before an offset (-1: all of them)."""
        target = self.end_offset if offset == -1 else offset
        if not 0 <= target <= self.end_offset:
            raise RefusedError(
                ErrorCode.OFFSET_OUT_OF_RANGE, f"offset {offset} is after the end {self.end_offset}"
            )
        self.start_offset = max(self.start_offset, target)
        gone = 0
        while gone < len(self._batches) and self._batches[gone].next_offset <= self.start_offset:
            self.size_bytes -= self._batches[gone].header.size_bytes
            gone += 1
        del self._batches[:gone]
        return self.start_offset

    def wake_watchers(self) -> None:
        for wake in tuple(self.watchers):
            wake()


# Maximum requests in flight of an idempotent producer (KIP-185).
_REMEMBERED_BATCHES: Final = 5


@dataclass(slots=True)
class _ProducerState:
    epoch: int
    # (first sequence, last sequence, base offset), oldest first
    recent: deque[tuple[int, int, int]] = field(default_factory=lambda: deque(maxlen=_REMEMBERED_BATCHES))


class ProducerStates:
    """The idempotent producers that wrote to one partition."""

    __slots__ = ("_states",)

    def __init__(self) -> None:
        self._states: dict[int, _ProducerState] = {}

    def duplicate_of(self, header: BatchHeader) -> int | None:
        """Check a batch of an idempotent producer against the earlier ones."""
        state = self._states.get(header.producer_id)
        if state is None:  # as in Kafka: without state of the producer (retention), any sequence may start
            return None
        if header.producer_epoch < state.epoch:
            raise RefusedError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"producer {header.producer_id} wrote with epoch {state.epoch}, got the older "
                f"{header.producer_epoch}",
            )
        if header.producer_epoch > state.epoch:
            expected = 0
        else:
            for first, last, offset in state.recent:
                if (first, last) == (header.base_sequence, header.last_sequence):
                    return offset
            expected = next_sequence(state.recent[-1][1])
        if header.base_sequence != expected:
            raise RefusedError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {header.producer_id} must continue with sequence {expected}, got "
                f"{header.base_sequence}",
            )
        return None

    def remember(self, header: BatchHeader, base_offset: int) -> None:
        state = self._states.get(header.producer_id)
        if state is None or state.epoch != header.producer_epoch:
            state = self._states[header.producer_id] = _ProducerState(header.producer_epoch)
        state.recent.append((header.base_sequence, header.last_sequence, base_offset))
