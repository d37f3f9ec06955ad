"""One partition: an append-only log of record batches in memory."""

from __future__ import annotations

import time
from bisect import bisect_right
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from streams.embedded.errors import RefusedError
from streams.embedded.log.producers import ProducerStates
from streams.embedded.protocol.batches import NO_PRODUCER, StoredBatch, find_time, parse_header, stored
from streams.embedded.protocol.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable

    from streams.embedded.protocol.wire import Buffer

MAX_AHEAD_MS: Final = 3_600_000
"""As by default in Kafka since 4.0 (`log.message.timestamp.after.max.ms`)."""
_base_offset = attrgetter("base_offset")


class Partition:
    """A log. Offsets count records from 0; `start_offset` grows as old records are deleted."""

    __slots__ = ("_batches", "_producers", "_size_bytes", "_watchers", "end_offset", "start_offset")

    def __init__(self) -> None:
        self._batches: list[StoredBatch] = []
        self._producers = ProducerStates()
        self._size_bytes = 0
        self._watchers: set[Callable[[], None]] = set()
        self.start_offset = 0
        self.end_offset = 0

    @property
    def size_bytes(self) -> int:
        """Bytes of the batches held."""
        return self._size_bytes

    def append(self, data: Buffer, *, max_batch_bytes: int, retention_bytes: int | None = None) -> int:
        """Store one batch, unless it repeats an idempotent producer's batch.

        Args:
            retention_bytes: Delete the oldest batches, except the newest one, beyond this size; None keeps
                all.

        Raises:
            RefusedError: The batch is malformed, too large, ahead of the time, or out of sequence.
        """
        header = parse_header(data)
        if header.size_bytes > max_batch_bytes:
            raise RefusedError(
                ErrorCode.MESSAGE_TOO_LARGE,
                (
                    f"the batch has {header.size_bytes} bytes, at most {max_batch_bytes} are allowed "
                    "(max.message.bytes)"
                ),
            )
        if header.max_timestamp_ms > time.time_ns() // 1_000_000 + MAX_AHEAD_MS:
            raise RefusedError(ErrorCode.INVALID_TIMESTAMP, "the records' times are more than an hour ahead")
        if header.producer_id != NO_PRODUCER:
            earlier = self._producers.duplicate_of(header)
            if earlier is not None:
                return earlier
        batch = stored(data, header, self.end_offset)
        self._batches.append(batch)
        self._size_bytes += header.size_bytes
        self.end_offset = batch.next_offset
        if header.producer_id != NO_PRODUCER:
            self._producers.remember(header, batch.base_offset)
        if retention_bytes is not None:
            self._drop_down_to(retention_bytes)
        self.wake_watchers()
        return batch.base_offset

    def read(self, offset: int, max_bytes: int, *, at_least_one: bool) -> list[bytearray]:
        """Return the stored batches (not copied) from the one with the offset on.

        Args:
            at_least_one: Whether to return the first batch even if it is larger than `max_bytes`, so that a
                reader can proceed.

        Raises:
            RefusedError: OFFSET_OUT_OF_RANGE, before the start or after the end of the log.
        """
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
        """Delete the records before an offset (-1: all of them).

        Raises:
            RefusedError: OFFSET_OUT_OF_RANGE, after the end of the log.
        """
        target = self.end_offset if offset == -1 else offset
        if not 0 <= target <= self.end_offset:
            raise RefusedError(
                ErrorCode.OFFSET_OUT_OF_RANGE, f"offset {offset} is after the end {self.end_offset}"
            )
        self.start_offset = max(self.start_offset, target)
        gone = 0
        while gone < len(self._batches) and self._batches[gone].next_offset <= self.start_offset:
            self._size_bytes -= self._batches[gone].header.size_bytes
            gone += 1
        del self._batches[:gone]
        return self.start_offset

    def watch(self, wake: Callable[[], None]) -> None:
        """Call `wake` at each append and when the partition is deleted, until `unwatch`."""
        self._watchers.add(wake)

    def unwatch(self, wake: Callable[[], None]) -> None:
        """Stop calling `wake`."""
        self._watchers.discard(wake)

    def wake_watchers(self) -> None:
        """Wake the requests that wait for records."""
        for wake in tuple(self._watchers):
            wake()

    def _drop_down_to(self, retention_bytes: int) -> None:
        gone = 0
        while self._size_bytes > retention_bytes and gone < len(self._batches) - 1:
            self._size_bytes -= self._batches[gone].header.size_bytes
            gone += 1
        if gone:
            del self._batches[:gone]
            self.start_offset = max(self.start_offset, self._batches[0].base_offset)
