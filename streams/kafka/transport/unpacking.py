"""Unpack fetched batches: yield committed records; an unreadable record does not block the others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from aiokafka.consumer.fetcher import READ_COMMITTED
from aiokafka.errors import KafkaError, UnsupportedCodecError

from streams.errors import DecodeReason
from streams.kafka.patches.codecs import BatchTooLargeError
from streams.kafka.patches.crowded import EXAMINED_BYTES, MAX_HEADERS, examine
from streams.kafka.transport.salvage import CODECS, HEAD, records_of, too_many
from streams.kafka.transport.unreadable import Unreadable

CRC_TRIES: Final = 3
"""Fetches of a batch with a wrong checksum, as it may have been damaged in transit."""
_MOST_RECORDS: Final = 10_000_000
"""More than any batch holds; a head with a higher number is damaged."""


class Suspects:
    """Batches with a wrong checksum and their number of failures; the latest batch of each partition."""

    def __init__(self) -> None:
        self._tries: dict[Any, tuple[int, int]] = {}

    def is_lost(self, tp: Any, offset: int) -> bool:
        """Count a failure; return True if fetching the batch again will not help."""
        before, tries = self._tries.get(tp, (offset, 0))
        tries = tries + 1 if before == offset else 1
        self._tries[tp] = (offset, tries)
        if tries < CRC_TRIES:
            return False
        del self._tries[tp]
        return True


class CheckedRecords:
    """Replaces aiokafka's `PartitionRecords` within its `FetchResult`, which uses only these two methods.

    Args:
        fetched: The `PartitionRecords`; its `_records` are `FetchedBatches`.
    """

    __slots__ = ("_fetched", "_suspects")

    def __init__(self, fetched: Any, suspects: Suspects) -> None:
        # It and this generator refer to each other; the fetched bytes would wait for a garbage collection.
        fetched._records_iterator = None  # noqa: SLF001 - as in unpack
        self._fetched = fetched
        self._suspects = suspects

    @property
    def next_fetch_offset(self) -> int:
        """The offset to fetch next."""
        offset: int = self._fetched.next_fetch_offset
        return offset

    def __iter__(self) -> Iterator[Any]:
        return iter(unpack(self._fetched, self._suspects))


def unpack(fetched: Any, suspects: Suspects) -> list[Any]:
    """Return the records of one fetched partition in order, as aiokafka's C code unpacks them.

    Replaces `PartitionRecords._unpack_records`. If that raises, the records before the error are lost,
    because the position has advanced. Here an `Unreadable` replaces what cannot be read.

    Args:
        fetched: aiokafka's `PartitionRecords`; its `_records` are `FetchedBatches`.
    """
    records: list[Any] = []
    batches = fetched._records  # noqa: SLF001 - aiokafka has no API for this
    # The broker names the aborted transactions of the fetched offsets; the list is used up on the way.
    any_aborted = fetched._isolation_level == READ_COMMITTED and bool(fetched._aborted_transactions)  # noqa: SLF001 - as above
    any_large = batches.size_in_bytes() > EXAMINED_BYTES
    while batches.has_next():
        try:
            batch = batches.next_batch()
            intact = not fetched._check_crcs or batch.validate_crc()  # noqa: SLF001 - as above
        except KafkaError:
            batch, intact = None, False
        if not intact:
            if not suspects.is_lost(fetched._tp, fetched.next_fetch_offset):  # noqa: SLF001 - as above
                break  # the position is unchanged, so that the batch is fetched again
            records.append(
                _damaged(fetched, batches.last, "its checksum is wrong: it was damaged on disk or in transit")
            )
            continue
        if any_aborted and batch.producer_id is not None and _is_aborted(fetched, batch):
            fetched.next_fetch_offset = batch.next_offset
            continue
        if batch.is_control_batch:
            fetched.next_fetch_offset = batch.next_offset
            continue
        records += _records(fetched, batch, batches, examined=any_large and not batch.compression_type)
        # Compaction may have removed the last record; continue after the batch.
        fetched.next_fetch_offset = max(fetched.next_fetch_offset, batch.next_offset)
    return records


def _is_aborted(fetched: Any, batch: Any) -> bool:
    """Return whether a batch belongs to an aborted transaction; an abort marker ends one."""
    fetched._consume_aborted_up_to(batch.base_offset)  # noqa: SLF001 - as in unpack
    aborted: set[int] = fetched._aborted_producers  # noqa: SLF001 - as in unpack
    if batch.is_control_batch:
        if fetched._contains_abort_marker(batch):  # noqa: SLF001 - as in unpack
            aborted.discard(batch.producer_id)
        return False
    return bool(batch.is_transactional and batch.producer_id in aborted)


def _records(fetched: Any, batch: Any, batches: Any, *, examined: bool) -> list[Any]:
    found: list[Any] = []
    following, end = fetched.next_fetch_offset, batch.next_offset
    try:
        if examined:
            examine(batches.last[HEAD.size :])
        for record in batch:  # runs for every record: local names only
            offset = record.offset
            if offset < following:
                continue  # before the requested offset, in the same batch
            if offset >= end:
                raise ValueError("offset of a later batch")  # noqa: TRY301 - handled as the parser's errors
            following = offset + 1
            found.append(record if len(record.headers) <= MAX_HEADERS else _crowded(record))
    except UnsupportedCodecError:
        if batch.compression_type in CODECS:
            raise  # its library is not installed; the batch is valid
        what = f"compression codec {batch.compression_type} does not exist"
        found.append(_damaged(fetched, batches.last, what))
    except BatchTooLargeError as error:
        found.append(_damaged(fetched, batches.last, str(error), reason="oversized"))
    # A length near 2^63 passes aiokafka's bounds check, and allocating it fails.
    except (KafkaError, ValueError, IndexError, AssertionError, MemoryError, OverflowError) as error:
        fetched.next_fetch_offset = following
        found += _salvaged(fetched, batches.last, error)
    return found


def _crowded(record: Any) -> Unreadable:
    detail = f"the record at offset {record.offset} {too_many(len(record.headers))}"
    return Unreadable.of(
        record.value or b"",
        offset=record.offset,
        detail=detail,
        reason="oversized",
        timestamp=record.timestamp,
    )


def _salvaged(fetched: Any, raw: memoryview, error: Exception) -> Iterator[Any]:
    """Parse a batch that aiokafka's parser rejects, with a parser that rejects only single records."""
    try:
        for record in records_of(raw):
            if record.offset >= fetched.next_fetch_offset:
                fetched.next_fetch_offset = record.offset + 1
                yield record
    except (KafkaError, ValueError, IndexError) as second:
        yield _damaged(fetched, raw, f"its records cannot be read: {second or error}")


def _damaged(fetched: Any, raw: memoryview, what: str, *, reason: DecodeReason = "undecodable") -> Unreadable:
    """Return one `Unreadable` for the rest of a batch, and move the position after the batch."""
    start = fetched.next_fetch_offset
    base, delta, timestamp, count = start, 0, None, 1
    if len(raw) >= HEAD.size:
        head = HEAD.unpack_from(raw)
        base, delta, timestamp, count = head[0], head[6], head[7], head[12]
    following = base + delta + 1
    if not (base <= start < following and delta < _MOST_RECORDS and 0 < count <= delta + 1):
        following, count, timestamp = start + 1, 1, None  # the head is damaged, too: skip a single offset
    last = following - 1
    fetched.next_fetch_offset = following
    which = f"the record at offset {start}" if last == start else f"the batch with offsets {start} to {last}"
    return Unreadable.of(
        raw,
        offset=start,
        detail=f"{which} is skipped: {what}",
        reason=reason,
        records=min(count, following - start),
        timestamp=timestamp,
    )
