"""Record batches of message format 2: their header, and the search of a record by time.

The layout is that of the Kafka documentation, "Record Batch". The checksum is not verified: in pure Python
that would be too slow, and every consumer verifies it.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from typing import Final

from streams.embedded.wire import Buffer, ErrorCode, RefusedError

# base offset, length, leader epoch, magic, crc, attributes, last offset delta, first and max timestamp,
# producer id, producer epoch, base sequence, record count
_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
_LENGTH_STARTS_AFTER: Final = 12
_MAGIC: Final = 2
_COMPRESSION_MASK: Final = 0x07
_GZIP: Final = 1
_TRANSACTIONAL: Final = 0x10
_CONTROL: Final = 0x20
_MAX_TIMESTAMP_MS: Final = 2**63 - 1
_MAX_INFLATED_BYTES: Final = 64 * 1024 * 1024
_SEQUENCE_MASK: Final = 0x7FFFFFFF
_LEADER_EPOCH_POSITION: Final = 12

NO_PRODUCER: Final = -1
HEADER_BYTES: Final = _HEADER.size


@dataclass(frozen=True, slots=True)
class BatchHeader:
    """The header fields that a partition needs."""

    size_bytes: int  # with the header
    compression: int  # 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd
    record_count: int  # at least 1
    first_timestamp_ms: int  # the base of the records' times
    max_timestamp_ms: int  # according to the producer
    producer_id: int  # -1: not idempotent
    producer_epoch: int
    base_sequence: int

    @property
    def last_sequence(self) -> int:
        return (self.base_sequence + self.record_count - 1) & _SEQUENCE_MASK


@dataclass(frozen=True, slots=True)
class StoredBatch:
    """A batch in a log, ready to be sent."""

    base_offset: int
    header: BatchHeader
    data: bytearray

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.header.record_count


def next_sequence(sequence: int) -> int:
    """The sequence number after this one."""
    return (sequence + 1) & _SEQUENCE_MASK


def parse_header(data: Buffer) -> BatchHeader:
    """Read and check the header of data that must be one batch."""
    if len(data) < HEADER_BYTES:
        raise _invalid(f"a record batch has at least {HEADER_BYTES} bytes, got {len(data)}")
    (_, length, _, magic, _, attributes, last_delta, first, latest, producer, epoch, sequence, count) = (
        _HEADER.unpack_from(data)
    )
    if magic != _MAGIC:
        raise _invalid(f"message format {magic} is not supported, use format {_MAGIC} (Kafka 0.11 or newer)")
    if length + _LENGTH_STARTS_AFTER != len(data):
        raise _invalid(
            f"one batch per partition: its length is {length + _LENGTH_STARTS_AFTER} bytes, got {len(data)}"
        )
    if count < 1 or last_delta != count - 1:
        raise _invalid(f"record count {count} and last offset delta {last_delta} do not fit together")
    if attributes & (_TRANSACTIONAL | _CONTROL):
        raise _invalid("transactional and control batches are not supported")
    if producer != NO_PRODUCER and (producer < 0 or epoch < 0 or sequence < 0):
        raise _invalid(f"producer {producer}, epoch {epoch}, sequence {sequence}: none may be negative")
    return BatchHeader(
        size_bytes=len(data),
        compression=attributes & _COMPRESSION_MASK,
        record_count=count,
        first_timestamp_ms=first,
        max_timestamp_ms=latest,
        producer_id=producer,
        producer_epoch=epoch,
        base_sequence=sequence,
    )


def stored(data: Buffer, header: BatchHeader, base_offset: int) -> StoredBatch:
    """Copy a batch from its request and set offset and leader epoch, which its checksum does not cover."""
    copy = bytearray(data)
    struct.pack_into(">q", copy, 0, base_offset)
    struct.pack_into(">i", copy, _LEADER_EPOCH_POSITION, 0)
    return StoredBatch(base_offset, header, copy)


def find_time(batch: StoredBatch, timestamp_ms: int) -> tuple[int, int] | None:
    """Find the first record at or after a time.

    If the records cannot be read (an unsupported compression, or an invalid batch), return the batch's first
    record, so that a reader misses nothing.
    """
    header = batch.header
    if header.max_timestamp_ms < timestamp_ms:
        return None
    try:
        return _scan(batch, timestamp_ms)
    except _UnreadableError:
        return max(header.first_timestamp_ms, timestamp_ms), batch.base_offset


class _UnreadableError(Exception):
    """The records of a batch cannot be read."""


def _scan(batch: StoredBatch, timestamp_ms: int) -> tuple[int, int] | None:
    header = batch.header
    body = _inflated(batch)
    position = 0
    for _ in range(header.record_count):
        length, start = _varint(body, position)
        time_delta, after = _varint(body, start + 1)  # one byte of attributes first
        found_ms = header.first_timestamp_ms + time_delta
        if timestamp_ms <= found_ms <= _MAX_TIMESTAMP_MS:
            offset_delta, _ = _varint(body, after)
            if 0 <= offset_delta < header.record_count:
                return found_ms, batch.base_offset + offset_delta
        if length < 1:
            raise _UnreadableError
        position = start + length
    return None


def _inflated(batch: StoredBatch) -> Buffer:
    body = memoryview(batch.data)[HEADER_BYTES:]
    if batch.header.compression == 0:
        return body
    if batch.header.compression != _GZIP:
        raise _UnreadableError
    try:
        return zlib.decompressobj(wbits=31).decompress(body, _MAX_INFLATED_BYTES)
    except zlib.error as error:
        raise _UnreadableError from error


def _varint(data: Buffer, position: int) -> tuple[int, int]:
    """Read a zigzag variable-length number; return it and the position after it."""
    raw = shift = 0
    while position < len(data) and shift < 64:
        byte = data[position]
        position += 1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (raw >> 1) ^ -(raw & 1), position
        shift += 7
    raise _UnreadableError


def _invalid(message: str) -> RefusedError:
    return RefusedError(ErrorCode.INVALID_RECORD, message)
