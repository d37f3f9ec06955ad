"""Delivered records, and the offset books of delivered and unfinished records."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from faust.types import TP
from faust.types.tuples import ConsumerMessage

from streams.kafka.transport.room import Load
from streams.kafka.transport.unreadable import Unreadable


@dataclass(frozen=True, slots=True)
class Taken:
    """The result of one fetch.

    Args:
        positions: The next offset of each fetched partition, past these records and offsets without records.
    """

    records: Mapping[TP, list[Any]] = field(default_factory=dict)
    positions: Mapping[TP, int] = field(default_factory=dict)
    seeks: Mapping[TP, int] = field(default_factory=dict)


class OffsetBook:
    """Tracks the delivered offsets of one partition.

    Offsets are delivered in rising order and finished in any order. The committable offset is the first
    unfinished one, or the position after everything read if none is unfinished. Skipped records need no
    entry; they only advance the position.

    A book covers one assignment of a partition. After a revocation or a seek a new book replaces it, and
    finishing a record of the old one has no effect.

    Args:
        position: The next offset to read; None if unknown.
    """

    __slots__ = ("_pending", "_position", "_unfinished")

    def __init__(self, position: int | None = None) -> None:
        # (offset, timestamp in seconds or None); the timestamp is only for the age of unfinished records.
        self._pending: deque[tuple[int, float | None]] = deque()
        self._unfinished: set[int] = set()
        self._position = position

    @property
    def position(self) -> int | None:
        """The offset after the last one read; None before the first."""
        return self._position

    @property
    def committable(self) -> int | None:
        """The highest offset that can be committed without losing a record; None if unknown."""
        return self._pending[0][0] if self._pending else self._position

    @property
    def unfinished(self) -> int:
        """Number of delivered offsets that are not finished."""
        return len(self._unfinished)

    @property
    def oldest_timestamp(self) -> float | None:
        """The record timestamp of the first unfinished offset, in seconds since the epoch."""
        return self._pending[0][1] if self._pending else None

    def deliver(self, offset: int, timestamp: float | None = None) -> None:
        """Record a delivery.

        Args:
            offset: Its offset; must not be below the position.
            timestamp: Its timestamp in seconds since the epoch; None if it has none.

        Raises:
            ValueError: The offset was read before; the partition needs a new book.
        """
        if self._position is not None and offset < self._position:
            raise ValueError(
                f"offset must be at least the position {self._position}, got {offset}; "
                "a partition that is read again needs a new book"
            )
        self._pending.append((offset, timestamp))
        self._unfinished.add(offset)
        self._position = offset + 1

    def advance(self, position: int) -> None:
        """Advance the position; offsets below it that were not delivered were skipped."""
        if self._position is None or position > self._position:
            self._position = position

    def finish(self, offset: int) -> bool:
        """Record that a delivered record is finished.

        Returns:
            Whether this changed the book: False for an offset that was finished before or never delivered.
        """
        unfinished, pending = self._unfinished, self._pending
        if offset not in unfinished:
            return False
        unfinished.remove(offset)
        while pending and pending[0][0] not in unfinished:
            pending.popleft()
        return True


class Delivered(ConsumerMessage):
    """A message with the book and the load that count it."""

    __slots__ = ("book", "load", "size", "unreadable")

    book: OffsetBook
    load: Load
    size: int
    unreadable: Unreadable | None
    """The error, if the message replaces records that cannot be read."""


def deliver(tp: TP, record: Any, book: OffsetBook, load: Load, *, generation_id: int) -> Delivered:
    """Record a delivery, and return the message.

    Args:
        generation_id: Generation of the assignment; Faust's streams skip messages of another one.
    """
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
    message.load = load
    message.size = key_size + value_size
    book.deliver(record.offset, seconds)
    load.records += 1
    load.bytes += message.size
    return message
