"""Records on their way through the application, and the books of what is delivered and unfinished."""

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
    """What one look for records gave.

    Args:
        records: By partition.
        positions: Where each partition that was looked at is read next, behind these records and what is
            none.
        seeks: How many seeks had been carried out by then.
    """

    records: Mapping[TP, list[Any]] = field(default_factory=dict)
    positions: Mapping[TP, int] = field(default_factory=dict)
    seeks: Mapping[TP, int] = field(default_factory=dict)


class OffsetBook:
    """Keeps the delivered offsets of one partition in order.

    Offsets are delivered in rising order and finished in any order. What may be committed is the first
    unfinished offset, or the position behind everything read when nothing is unfinished. Records that are
    read and skipped need no entry: moving the position is enough.

    One book covers one stay on a partition: when the partition is revoked or read again from elsewhere, a new
    book takes its place, and what still finishes under the old one is of no consequence.

    Args:
        position: The offset that will be read next, or None while that is not known.
    """

    __slots__ = ("_pending", "_position", "_unfinished")

    def __init__(self, position: int | None = None) -> None:
        # (offset, timestamp in seconds or None); the timestamp only shows how old the oldest unfinished
        # record is.
        self._pending: deque[tuple[int, float | None]] = deque()
        self._unfinished: set[int] = set()
        self._position = position

    @property
    def position(self) -> int | None:
        """The offset behind the last one read; None before the first."""
        return self._position

    @property
    def committable(self) -> int | None:
        """The highest offset that may be committed without losing anything; None where nothing is known."""
        return self._pending[0][0] if self._pending else self._position

    @property
    def unfinished(self) -> int:
        """Delivered offsets that are not finished."""
        return len(self._unfinished)

    @property
    def oldest_timestamp(self) -> float | None:
        """The record timestamp of the first unfinished offset, in seconds since the epoch."""
        return self._pending[0][1] if self._pending else None

    def deliver(self, offset: int, timestamp: float | None = None) -> None:
        """Note that a record was handed on.

        Args:
            offset: Its offset; must not be below the position.
            timestamp: Its timestamp in seconds since the epoch, if it has one.

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
        """Note that everything below `position` was read; what was not delivered was skipped."""
        if self._position is None or position > self._position:
            self._position = position

    def finish(self, offset: int) -> bool:
        """Note that a delivered record is done with.

        Returns:
            Whether this changed the book: False for an offset that is finished already or was never
            delivered.
        """
        unfinished, pending = self._unfinished, self._pending
        if offset not in unfinished:
            return False
        unfinished.remove(offset)
        while pending and pending[0][0] not in unfinished:
            pending.popleft()
        return True


class Delivered(ConsumerMessage):
    """A message that knows the book and the load it was counted in."""

    __slots__ = ("book", "load", "size", "unreadable")

    book: OffsetBook
    load: Load
    size: int
    unreadable: Unreadable | None
    """What stands here in the place of records that cannot be read."""


def deliver(tp: TP, record: Any, book: OffsetBook, load: Load, *, generation_id: int) -> Delivered:
    """Note a record as delivered, and make the message that says so.

    Args:
        tp: Its partition.
        record: The record as the client unpacked it.
        book: The open book of the partition.
        load: The load of the topic.
        generation_id: Of the assignment; Faust's streams pass over messages of another.
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
