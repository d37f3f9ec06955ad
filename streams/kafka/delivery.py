"""What is in flight: offset books by partition, buffers by topic, and the messages that both count. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from faust.types import TP
from faust.types.tuples import ConsumerMessage

from streams.kafka.decoding import Unreadable


class OffsetBook:
    """Tracks the delivered offsets of one partition, finished in any order.

    It covers one assignment: after a revocation or a seek back a new book replaces it, and finishing a record
    of the old one has no effect.
    """

    __slots__ = ("_pending", "_unfinished", "position")

    def __init__(self, position: int) -> None:
        # Offset and timestamp in seconds.
        self._pending: deque[tuple[int, float | None]] = deque()
        self._unfinished: set[int] = set()
        self.position = position

    @property
    def committable(self) -> int:
        """The highest offset that can be committed without losing a record."""
        return self._pending[0][0] if self._pending else self.position

    @property
    def unfinished(self) -> int:
        return len(self._unfinished)

    @property
    def oldest_timestamp(self) -> float | None:
        """The record timestamp of the first unfinished offset, in seconds since the epoch."""
        return self._pending[0][1] if self._pending else None

    def deliver(self, offset: int, timestamp: float | None = None) -> None:
        if offset < self.position:
            raise ValueError(
                f"offset must be at least the position {self.position}, got {offset}; "
                "a partition that is read again needs a new book"
            )
        self._pending.append((offset, timestamp))
        self._unfinished.add(offset)
        self.position = offset + 1

    def advance(self, position: int) -> None:
        """Advance the position; offsets below it that were not delivered were skipped."""
        self.position = max(self.position, position)

    def finish(self, offset: int) -> bool:
        """Finish a delivered record; return False if it was finished before or never delivered."""
        unfinished, pending = self._unfinished, self._pending
        if offset not in unfinished:
            return False
        unfinished.remove(offset)
        while pending and pending[0][0] not in unfinished:
            pending.popleft()
        return True


@dataclass(frozen=True, slots=True)
class BufferLimit:
    """The limit on one topic's records in flight, and on their keys and values; one record may exceed it."""

    records: int
    bytes: int


DEFAULT_LIMIT: Final = BufferLimit(records=512, bytes=64 * 1024 * 1024)


@dataclass(slots=True)
class Buffer:
    limit: BufferLimit
    records: int = 0
    bytes: int = 0

    @property
    def full(self) -> bool:
        return self.records >= self.limit.records or self.bytes >= self.limit.bytes

    @property
    def eased(self) -> bool:
        """Whether at most 3/4 of the limit is used, so that another fetch is worth its round trip."""
        return self.records * 4 <= self.limit.records * 3 and self.bytes * 4 <= self.limit.bytes * 3


class Buffers:
    def __init__(self, limits: Mapping[str, BufferLimit], default: BufferLimit) -> None:
        self.closed: set[str] = set()
        """Topics that were full and have not eased since. Also read by the consumer's thread."""
        self._limits = limits
        self._default = default
        self._buffers: dict[str, Buffer] = {}

    def of(self, topic: str) -> Buffer:
        buffer = self._buffers.get(topic)
        if buffer is None:
            buffer = self._buffers[topic] = Buffer(self._limits.get(topic, self._default))
        return buffer

    def remove(self, topic: str, buffer: Buffer, size: int) -> bool:
        """Subtract a finished record from its buffer, possibly of an earlier assignment."""
        buffer.records -= 1
        buffer.bytes -= size
        if topic in self.closed and buffer.eased and self._buffers.get(topic) is buffer:
            self.closed.discard(topic)
            return True
        return False

    def clear(self) -> None:
        """Count from zero: records still in flight belong to an earlier assignment."""
        self._buffers.clear()
        self.closed.clear()


class Delivered(ConsumerMessage):
    __slots__ = ("book", "buffer", "size", "unreadable")

    book: OffsetBook
    buffer: Buffer
    size: int
    unreadable: Unreadable | None
    """The error, if the message replaces records that cannot be read."""


def deliver(tp: TP, record: Any, book: OffsetBook, buffer: Buffer, *, generation_id: int) -> Delivered:
    key, value, timestamp = record.key, record.value, record.timestamp
    key_size, value_size = len(key) if key else 0, len(value) if value else 0
    seconds = None if timestamp is None else timestamp / 1000
    message = Delivered(
        tp.topic,
        tp.partition,
        record.offset,
        seconds,
        record.timestamp_type,
        record.headers,
        key,
        value,
        record.checksum,
        key_size,
        value_size,
        tp,
        generation_id=generation_id,
    )
    message.unreadable = record if type(record) is Unreadable else None
    message.book = book
    message.buffer = buffer
    message.size = key_size + value_size
    book.deliver(record.offset, seconds)
    buffer.records += 1
    buffer.bytes += message.size
    return message
