"""Records on their way through the application, and what they were counted in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from faust.types import TP
from faust.types.tuples import ConsumerMessage

from streams.kafka.transport.offsets import OffsetBook
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
