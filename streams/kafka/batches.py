"""Unpack fetched batches: what cannot be read becomes an `Unreadable`, and what follows is read.

aiokafka raises at every fetch of such a batch, so that the partition, and with it the worker, stands still;
and the records before it are lost, because the position has advanced.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import Any, ClassVar, Final

from aiokafka.consumer.fetcher import READ_COMMITTED, PartitionRecords
from aiokafka.errors import KafkaError, UnsupportedCodecError
from aiokafka.record.memory_records import MemoryRecords

from streams.errors import DecodeReason
from streams.kafka.decoding import (
    DECODERS,
    EXAMINED_BYTES,
    HEAD,
    MAX_HEADERS,
    PARSER_ERRORS,
    OversizedError,
    Unreadable,
    examine,
    records_of,
)

try:
    import google_crc32c
except ImportError:  # the extra `fast` is not installed: aiokafka's portable C checks alone
    google_crc32c = None  # type: ignore[assignment]

CRC_TRIES: Final = 3
"""Fetches of a batch with a wrong checksum, as it may have been damaged in transit."""
_LENGTH: Final = Struct(">i")
_SUM: Final = Struct(">bI")
_LENGTH_AT, _LENGTH_ENDS, _MAGIC_AT, _SUM_ENDS = 8, 12, 16, 21
_MAGIC: Final = 2
"""Magic byte since Kafka 0.11. Earlier batches have another checksum at another position."""


def as_unpacked(key: Any) -> Any:
    """Mark a consumer, as its `key_deserializer`, that takes records as unpacked in C.

    aiokafka's data class per record costs as much as unpacking, and most records are filtered out by key.
    """
    return key


class FetchedBatches:
    """Replaces aiokafka's `MemoryRecords` and keeps the bytes; the last batch may be truncated."""

    __slots__ = ("_data", "_end", "_next_batch", "_start", "has_next", "size_in_bytes")

    def __init__(self, data: bytes) -> None:
        native = MemoryRecords(data)
        self._data = data
        self._start = self._end = 0
        self._next_batch = native.next_batch
        self.has_next = native.has_next
        self.size_in_bytes = native.size_in_bytes

    def next_batch(self) -> Any:
        """Return the next batch; its bytes are then in `last`, also after an error."""
        self._start = self._end
        self._end += _LENGTH_ENDS + _LENGTH.unpack_from(self._data, self._start + _LENGTH_AT)[0]
        return self._next_batch()

    @property
    def last(self) -> memoryview:
        return memoryview(self._data)[self._start : self._end]

    def sums_hold(self) -> bool:
        """Whether the processor's CRC confirms every batch; if not, aiokafka checks, ten times slower."""
        if google_crc32c is None or google_crc32c.implementation != "c":
            return False
        data, start = self._data, 0
        while len(data) - start >= _SUM_ENDS:
            end = start + _LENGTH_ENDS + _LENGTH.unpack_from(data, start + _LENGTH_AT)[0]
            if end > len(data):
                return True
            magic, crc = _SUM.unpack_from(data, start + _MAGIC_AT)
            if (
                magic != _MAGIC
                or end < start + _SUM_ENDS
                or google_crc32c.value(data[start + _SUM_ENDS : end]) != crc
            ):
                return False
            start = end
        return True


class ReadableRecords(PartitionRecords):  # type: ignore[misc]  # aiokafka is not annotated
    next_fetch_offset: int
    _check_crcs: bool
    suspects: ClassVar[dict[Any, tuple[int, int]]] = {}
    """By partition, the offset of the latest batch with a wrong checksum, and its number of failures."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._check_crcs = self._check_crcs and not self._records.sums_hold()

    def __iter__(self) -> Iterator[Any]:
        if self._key_deserializer is not as_unpacked:
            return self
        # It and this object refer to each other; the fetched bytes would wait for a garbage collection.
        self._records_iterator = None
        records: list[Any] = []
        for found in self._batches():
            records += found
        return iter(records)

    def _unpack_records(self) -> Iterator[Any]:
        for found in self._batches():
            following = self.next_fetch_offset
            for record in found:
                if type(record) is not Unreadable:  # a reader without a group passes over it
                    self.next_fetch_offset = record.offset + 1
                    yield self._consumer_record(self._tp, record)
            self.next_fetch_offset = following

    def _batches(self) -> Iterator[list[Any]]:
        """Yield the records of each batch; `next_fetch_offset` is then the offset after it."""
        batches = self._records
        # The broker names the aborted transactions of the fetched offsets; the list is used up on the way.
        any_aborted = self._isolation_level == READ_COMMITTED and bool(self._aborted_transactions)
        any_large = batches.size_in_bytes() > EXAMINED_BYTES
        while batches.has_next():
            try:
                batch = batches.next_batch()
                intact = not self._check_crcs or batch.validate_crc()
            except KafkaError:
                batch, intact = None, False
            if not intact:
                if not self._is_lost():
                    return  # the position is unchanged, so that the batch is fetched again
                yield [self._damaged("its checksum is wrong: it was damaged on disk or in transit")]
            elif (
                any_aborted and batch.producer_id is not None and self._is_aborted(batch)
            ) or batch.is_control_batch:
                self.next_fetch_offset = batch.next_offset
            else:
                yield self._records_of(batch, examined=any_large and not batch.compression_type)
                # Compaction may have removed the last record; continue after the batch.
                self.next_fetch_offset = max(self.next_fetch_offset, batch.next_offset)

    def _is_lost(self) -> bool:
        """Count a failure of the next batch; return whether fetching it again will not help."""
        before, tries = self.suspects.get(self._tp, (self.next_fetch_offset, 0))
        tries = tries + 1 if before == self.next_fetch_offset else 1
        self.suspects[self._tp] = (self.next_fetch_offset, tries)
        if tries < CRC_TRIES:
            return False
        del self.suspects[self._tp]
        return True

    def _is_aborted(self, batch: Any) -> bool:
        self._consume_aborted_up_to(batch.base_offset)
        aborted: set[int] = self._aborted_producers
        if batch.is_control_batch:
            if self._contains_abort_marker(batch):
                aborted.discard(batch.producer_id)
            return False
        return bool(batch.is_transactional and batch.producer_id in aborted)

    def _records_of(self, batch: Any, *, examined: bool) -> list[Any]:
        found: list[Any] = []
        begun = following = self.next_fetch_offset
        end = batch.next_offset
        try:
            if examined:
                examine(self._records.last[HEAD.size :])
            for record in batch:  # runs for every record: local names only
                offset = record.offset
                if offset < following:
                    continue  # before the requested offset, in the same batch
                if offset >= end or len(record.headers) > MAX_HEADERS:
                    raise ValueError("a record of its own")
                following = offset + 1
                found.append(record)
        except UnsupportedCodecError:
            if batch.compression_type < len(DECODERS):
                raise  # its library is not installed; the batch is valid
            found.append(self._damaged(f"compression codec {batch.compression_type} does not exist"))
        except PARSER_ERRORS as error:
            self.next_fetch_offset = following
            found += self._salvaged(error, begun, end)
        else:
            self.next_fetch_offset = following
        return found

    def _salvaged(self, error: Exception, begun: int, end: int) -> Iterator[Any]:
        """Read a batch that aiokafka's parser refuses, record by record."""
        try:
            for record in records_of(self._records.last):
                if record.offset >= self.next_fetch_offset:
                    self.next_fetch_offset = record.offset + 1
                    yield record
        except OversizedError as second:
            yield self._damaged(str(second), "oversized")
        except PARSER_ERRORS as second:
            if self.next_fetch_offset > begun and self.next_fetch_offset >= end:
                return  # damage after the last offset costs no record
            yield self._damaged(f"its records cannot be read: {second or error}")

    def _damaged(self, what: str, reason: DecodeReason = "undecodable") -> Unreadable:
        """Return one `Unreadable` for the rest of a batch, and move the position after the batch."""
        raw, start = self._records.last, self.next_fetch_offset
        base, delta, timestamp, count = start, 0, None, 1
        if len(raw) >= HEAD.size:
            head = HEAD.unpack_from(raw)
            base, delta, timestamp, count = head[0], head[6], head[7], head[12]
        end = base + delta + 1
        if not (base <= start < end and delta < 10_000_000 and 0 < count <= delta + 1):
            end, count, timestamp = start + 1, 1, None  # the head is damaged, too: skip a single offset
        self.next_fetch_offset = end
        which = (
            f"the record at offset {start}"
            if end == start + 1
            else f"the batch with offsets {start} to {end - 1}"
        )
        detail = f"{which} is skipped: {what}"
        return Unreadable.of(raw, start, detail, reason, records=min(count, end - start), timestamp=timestamp)
