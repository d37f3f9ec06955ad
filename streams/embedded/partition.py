"""One partition: an append-only log of record batches in memory, and its idempotent producers.

The layout of batches is that of the Kafka documentation, "Record Batch" (message format 2). The checksum is
not verified: in pure Python that would be too slow, and every consumer verifies it.
"""

from __future__ import annotations

import struct
import time
import zlib
from bisect import bisect_right
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Final

from aiokafka.errors import (
    InvalidProducerEpoch,
    InvalidTimestampError,
    MessageSizeTooLargeError,
    OffsetOutOfRangeError,
    OutOfOrderSequenceNumber,
)
from aiokafka.record.util import decode_varint_py as decode_varint  # the compiled one checks no bounds

from streams.embedded.wire import InvalidRecordError

MAX_AHEAD_MS: Final = 3_600_000
"""As by default in Kafka since 4.0 (`log.message.timestamp.after.max.ms`)."""
_base_offset = attrgetter("base_offset")


# Maximum requests in flight of an idempotent producer (KIP-185).
_REMEMBERED_BATCHES: Final = 5


@dataclass(slots=True)
class _ProducerState:
    epoch: int
    # (first sequence, last sequence, base offset), oldest first
    recent: deque[tuple[int, int, int]] = field(default_factory=lambda: deque(maxlen=_REMEMBERED_BATCHES))


class PartitionLog:
    """A log. Offsets count records from 0; `start_offset` grows as old records are deleted."""

    __slots__ = ("_batches", "_producers", "end_offset", "size_bytes", "start_offset", "watchers")

    def __init__(self) -> None:
        self._batches: list[Batch] = []
        self._producers: dict[int, _ProducerState] = {}
        self.size_bytes = 0
        self.watchers: set[Callable[[], None]] = set()
        """Called at each append and when the partition is deleted."""
        self.start_offset = 0
        self.end_offset = 0

    def append(self, data: bytes, *, max_batch_bytes: int, retention_bytes: int | None = None) -> int:
        """Store one batch, unless it repeats an idempotent producer's batch."""
        batch = parse(data)
        if len(data) > max_batch_bytes:
            raise MessageSizeTooLargeError(
                f"the batch has {len(data)} bytes, at most {max_batch_bytes} are allowed (max.message.bytes)",
            )
        if batch.max_timestamp_ms > time.time_ns() // 1_000_000 + MAX_AHEAD_MS:
            raise InvalidTimestampError("the records' times are more than an hour ahead")
        if batch.producer_id != NO_PRODUCER:
            earlier = self._duplicate_of(batch)
            if earlier is not None:
                return earlier
        batch.store_at(self.end_offset)
        self._batches.append(batch)
        self.size_bytes += len(data)
        self.end_offset = batch.next_offset
        if batch.producer_id != NO_PRODUCER:
            self._remember(batch)
        while retention_bytes is not None and self.size_bytes > retention_bytes and len(self._batches) > 1:
            self.delete_before(self._batches[1].base_offset)
        self.wake_watchers()
        return batch.base_offset

    def read(self, offset: int, max_bytes: int, *, at_least_one: bool) -> list[bytes]:
        """Return the stored batches (not copied) from the one with the offset on."""
        if not self.start_offset <= offset <= self.end_offset:
            raise OffsetOutOfRangeError(f"offset {offset} is not in {self.start_offset}..{self.end_offset}")
        if offset == self.end_offset:
            return []
        found: list[bytes] = []
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
            raise OffsetOutOfRangeError(f"offset {offset} is after the end {self.end_offset}")
        self.start_offset = max(self.start_offset, target)
        gone = 0
        while gone < len(self._batches) and self._batches[gone].next_offset <= self.start_offset:
            self.size_bytes -= len(self._batches[gone].data)
            gone += 1
        del self._batches[:gone]
        return self.start_offset

    def wake_watchers(self) -> None:
        for wake in tuple(self.watchers):
            wake()

    def _duplicate_of(self, batch: Batch) -> int | None:
        state = self._producers.get(batch.producer_id)
        if state is None:  # as in Kafka: without state of the producer (retention), any sequence may start
            return None
        if batch.producer_epoch < state.epoch:
            raise InvalidProducerEpoch(
                f"producer {batch.producer_id} wrote with epoch {state.epoch}, got the older "
                f"{batch.producer_epoch}"
            )
        if batch.producer_epoch > state.epoch:
            expected = 0
        else:
            for first, last, offset in state.recent:
                if (first, last) == (batch.base_sequence, batch.last_sequence):
                    return offset
            expected = next_sequence(state.recent[-1][1])
        if batch.base_sequence != expected:
            raise OutOfOrderSequenceNumber(
                f"producer {batch.producer_id} must continue with sequence {expected}, got "
                f"{batch.base_sequence}"
            )
        return None

    def _remember(self, batch: Batch) -> None:
        state = self._producers.get(batch.producer_id)
        if state is None or state.epoch != batch.producer_epoch:
            state = self._producers[batch.producer_id] = _ProducerState(batch.producer_epoch)
        state.recent.append((batch.base_sequence, batch.last_sequence, batch.base_offset))


# Batches

# base offset, length, leader epoch, magic, crc, attributes, last offset delta, first and max timestamp,
# producer id, producer epoch, base sequence, record count
_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
_AFTER_LENGTH: Final = 12
_MAGIC: Final = 2
_COMPRESSION_MASK: Final = 0x07
_GZIP: Final = 1
_TRANSACTIONAL: Final = 0x10
_CONTROL: Final = 0x20
_MAX_INFLATED_BYTES: Final = 64 * 1024 * 1024
_SEQUENCE_MASK: Final = 0x7FFFFFFF

NO_PRODUCER: Final = -1
HEADER_BYTES: Final = _HEADER.size


@dataclass(slots=True)
class Batch:
    """A batch of records, and its fields that the broker looks at."""

    data: bytes
    compression: int  # 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd
    record_count: int  # at least 1
    first_timestamp_ms: int  # the base of the records' times
    max_timestamp_ms: int  # according to the producer
    producer_id: int  # -1: not idempotent
    producer_epoch: int
    base_sequence: int
    base_offset: int = 0

    @property
    def last_sequence(self) -> int:
        return (self.base_sequence + self.record_count - 1) & _SEQUENCE_MASK

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.record_count

    def store_at(self, offset: int) -> None:
        """Set offset and leader epoch, which its checksum does not cover."""
        self.base_offset = offset
        self.data = struct.pack(">q", offset) + self.data[8:_AFTER_LENGTH] + bytes(4) + self.data[16:]


def next_sequence(sequence: int) -> int:
    return (sequence + 1) & _SEQUENCE_MASK


def parse(data: bytes) -> Batch:
    if len(data) < HEADER_BYTES:
        raise InvalidRecordError(f"a record batch has at least {HEADER_BYTES} bytes, got {len(data)}")
    (_, length, _, magic, _, attributes, last_delta, first, latest, producer, epoch, sequence, count) = (
        _HEADER.unpack_from(data)
    )
    if magic != _MAGIC:
        raise InvalidRecordError(
            f"message format {magic} is not supported, use format {_MAGIC} (Kafka 0.11 or newer)"
        )
    if length + _AFTER_LENGTH != len(data):
        raise InvalidRecordError(
            f"one batch per partition: its length is {length + _AFTER_LENGTH} bytes, got {len(data)}"
        )
    if count < 1 or last_delta != count - 1:
        raise InvalidRecordError(
            f"record count {count} and last offset delta {last_delta} do not fit together"
        )
    if attributes & (_TRANSACTIONAL | _CONTROL):
        raise InvalidRecordError("transactional and control batches are not supported")
    if producer != NO_PRODUCER and (producer < 0 or epoch < 0 or sequence < 0):
        raise InvalidRecordError(
            f"producer {producer}, epoch {epoch}, sequence {sequence}: none may be negative"
        )
    return Batch(
        data,
        compression=attributes & _COMPRESSION_MASK,
        record_count=count,
        first_timestamp_ms=first,
        max_timestamp_ms=latest,
        producer_id=producer,
        producer_epoch=epoch,
        base_sequence=sequence,
    )


def find_time(batch: Batch, timestamp_ms: int) -> tuple[int, int] | None:
    """Find the first record at or after a time, or the batch's first if its records cannot be read."""
    if batch.max_timestamp_ms < timestamp_ms:
        return None
    try:
        return _scan(batch, timestamp_ms)
    except (ValueError, IndexError, zlib.error):
        return max(batch.first_timestamp_ms, timestamp_ms), batch.base_offset


def _scan(batch: Batch, timestamp_ms: int) -> tuple[int, int] | None:
    body = batch.data[HEADER_BYTES:]
    if batch.compression == _GZIP:
        body = zlib.decompressobj(wbits=31).decompress(body, _MAX_INFLATED_BYTES)
    elif batch.compression:
        raise ValueError("only gzip is in the standard library")
    position = 0
    for _ in range(batch.record_count):
        length, start = decode_varint(body, position)
        time_delta, after = decode_varint(body, start + 1)  # one byte of attributes first
        found_ms = batch.first_timestamp_ms + time_delta
        if timestamp_ms <= found_ms < 2**63:
            offset_delta, _ = decode_varint(body, after)
            if 0 <= offset_delta < batch.record_count:
                return found_ms, batch.base_offset + offset_delta
        if length < 1:
            raise ValueError(f"a record of {length} bytes")
        position = start + length
    return None
