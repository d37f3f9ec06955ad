"""Takes fetched batches apart: committed records are handed out; unreadable ones block nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from aiokafka.consumer.fetcher import READ_COMMITTED
from aiokafka.errors import KafkaError, UnsupportedCodecError

from streams.errors import DecodeReason
from streams.kafka.patches.codecs import BatchTooLargeError
from streams.kafka.patches.crowded import MAX_HEADERS, examine
from streams.kafka.transport.salvage import CODECS, HEAD, records_of, too_many
from streams.kafka.transport.unreadable import Unreadable

CRC_TRIES: Final = 3
"""A batch whose checksum does not hold is fetched so often: the damage may have happened on the way."""
_MOST_RECORDS: Final = 10_000_000
"""More than any batch holds: a head that says more is damaged."""


class Suspects:
    """Batches whose checksum did not hold, and how often; of one partition at a time the latest."""

    def __init__(self) -> None:
        self._tries: dict[Any, tuple[int, int]] = {}

    def is_lost(self, tp: Any, offset: int) -> bool:
        """Count one more failure; True when fetching again will not help."""
        before, tries = self._tries.get(tp, (offset, 0))
        tries = tries + 1 if before == offset else 1
        self._tries[tp] = (offset, tries)
        if tries < CRC_TRIES:
            return False
        del self._tries[tp]
        return True


def unpack(fetched: Any, suspects: Suspects) -> Iterator[Any]:
    """Hand out the records of one fetched partition, as aiokafka's C code unpacks them, in order.

    In the place of `PartitionRecords._unpack_records`, which raises in the middle of it: what it had handed
    out before that is then lost, because the position has moved on. Here an `Unreadable` takes the place of
    what cannot be read.

    Args:
        fetched: aiokafka's `PartitionRecords`; its `_records` are `FetchedBatches`.
        suspects: What is known of damaged batches.
    """
    batches = fetched._records  # noqa: SLF001 - aiokafka has no way to unpack with more care
    committed_only = fetched._isolation_level == READ_COMMITTED  # noqa: SLF001 - as above
    while batches.has_next():
        try:
            batch = batches.next_batch()
            intact = not fetched._check_crcs or batch.validate_crc()  # noqa: SLF001 - as above
        except KafkaError:
            batch, intact = None, False
        if not intact:
            if not suspects.is_lost(fetched._tp, fetched.next_fetch_offset):  # noqa: SLF001 - as above
                return  # the position stays before it, so that it is fetched again
            yield _damaged(
                fetched, batches.last, "its checksum is wrong: it was damaged on disk or in transit"
            )
            continue
        if committed_only and batch.producer_id is not None and _is_aborted(fetched, batch):
            fetched.next_fetch_offset = batch.next_offset
            continue
        if batch.is_control_batch:
            fetched.next_fetch_offset = batch.next_offset
            continue
        yield from _records(fetched, batch, batches)
        # The last record may have been removed by compaction; the batch still ends behind it.
        fetched.next_fetch_offset = max(fetched.next_fetch_offset, batch.next_offset)


def _is_aborted(fetched: Any, batch: Any) -> bool:
    """Whether a batch belongs to a transaction that was aborted; a marker of one ends it."""
    fetched._consume_aborted_up_to(batch.base_offset)  # noqa: SLF001 - as in unpack
    aborted: set[int] = fetched._aborted_producers  # noqa: SLF001 - as in unpack
    if batch.is_control_batch:
        if fetched._contains_abort_marker(batch):  # noqa: SLF001 - as in unpack
            aborted.discard(batch.producer_id)
        return False
    return bool(batch.is_transactional and batch.producer_id in aborted)


def _records(fetched: Any, batch: Any, batches: Any) -> Iterator[Any]:
    try:
        if not batch.compression_type:
            examine(batches.last[HEAD.size :])
        for record in batch:
            if record.offset < fetched.next_fetch_offset:
                continue  # of a batch that began before what was asked for
            if record.offset >= batch.next_offset:
                yield from _salvaged(fetched, batches.last, ValueError("offset of a later batch"))
                return
            fetched.next_fetch_offset = record.offset + 1
            yield record if len(record.headers) <= MAX_HEADERS else _crowded(record)
    except UnsupportedCodecError:
        if batch.compression_type in CODECS:
            raise  # its library is missing here: nothing is wrong with the batch
        yield _damaged(fetched, batches.last, f"compression codec {batch.compression_type} does not exist")
    except BatchTooLargeError as error:
        yield _damaged(fetched, batches.last, str(error), reason="oversized")
    # A length near 2^63 passes aiokafka's check of bounds, and no such text can be allocated.
    except (KafkaError, ValueError, IndexError, AssertionError, MemoryError, OverflowError) as error:
        yield from _salvaged(fetched, batches.last, error)


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
    """Parse a batch that aiokafka's parser gave up, with a parser that gives up single records only."""
    try:
        for record in records_of(raw):
            if record.offset >= fetched.next_fetch_offset:
                fetched.next_fetch_offset = record.offset + 1
                yield record
    except (KafkaError, ValueError, IndexError) as second:
        yield _damaged(fetched, raw, f"its records cannot be read: {second or error}")


def _damaged(fetched: Any, raw: memoryview, what: str, *, reason: DecodeReason = "undecodable") -> Unreadable:
    """Make one `Unreadable` of what is left of a batch, and move the position behind the batch."""
    start = fetched.next_fetch_offset
    base, delta, timestamp, count = start, 0, None, 1
    if len(raw) >= HEAD.size:
        head = HEAD.unpack_from(raw)
        base, delta, timestamp, count = head[0], head[6], head[7], head[12]
    following = base + delta + 1
    if not (base <= start < following and delta < _MOST_RECORDS and 0 < count <= delta + 1):
        following, count, timestamp = start + 1, 1, None  # the head is damaged, too: one step at a time
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
