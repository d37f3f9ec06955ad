"""Builders of a partition's log as a broker sends it."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

from aiokafka import TopicPartition
from aiokafka.consumer.fetcher import READ_COMMITTED
from aiokafka.record.util import calc_crc32c

from streams.kafka.batches import FetchedBatches, ReadableRecords, as_unpacked
from tests.streams.embedded.record_batches import record_batch

TP = TopicPartition("t", 0)
_CRC_AT, _ATTRIBUTES_AT = 17, 21
_CONTROL = 0x20


def batch(
    values: Sequence[bytes | None],
    base: int = 0,
    *,
    codec: int = 0,
    producer: int = -1,
    transactional: bool = False,
    headers: Sequence[tuple[str, bytes]] = (),
    key: bytes | None = b"k",
) -> bytes:
    return at(
        record_batch(
            *values,
            compression=codec,
            producer_id=producer,
            epoch=0 if producer >= 0 else -1,
            is_transactional=transactional,
            key=key,
            headers=headers,
        ),
        base,
    )


def at(raw: bytes, base: int) -> bytes:
    return struct.pack(">q", base) + raw[8:]


def signed(raw: bytes | bytearray) -> bytes:
    return (
        bytes(raw[:_CRC_AT])
        + struct.pack(">I", calc_crc32c(bytes(raw[_ATTRIBUTES_AT:])))
        + bytes(raw[_ATTRIBUTES_AT:])
    )


def marker(base: int, producer: int, *, commit: bool) -> bytes:
    raw = bytearray(
        batch(
            [b"\0" * 6], base, producer=producer, transactional=True, key=struct.pack(">HH", 0, int(commit))
        )
    )
    raw[_ATTRIBUTES_AT + 1] |= _CONTROL
    return signed(raw)


def taken(
    data: bytes,
    offset: int = 0,
    *,
    aborted: Sequence[tuple[int, int]] = (),
    key_deserializer: Callable[[Any], Any] | None = as_unpacked,
) -> tuple[list[Any], int]:
    """Return the unpacked records, by default as the worker takes them, and the next fetch offset."""
    partition = ReadableRecords(
        TP,
        FetchedBatches(data),
        list(aborted),
        offset,
        key_deserializer,
        None,
        True,  # noqa: FBT003 - the signature is aiokafka's
        READ_COMMITTED,
    )
    return list(partition), partition.next_fetch_offset
