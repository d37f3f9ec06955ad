"""Record batches built by aiokafka, independent of the code under test, and a partition's log of them."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

from aiokafka import TopicPartition
from aiokafka.consumer.fetcher import READ_COMMITTED
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.util import calc_crc32c

from streams.kafka.batches import FetchedBatches, ReadableRecords, as_unpacked

TP = TopicPartition("t", 0)
_CRC_AT, _ATTRIBUTES_AT = 17, 21
_CONTROL = 0x20
GZIP, LZ4 = 1, 3


def batch(
    values: Sequence[bytes | None],
    base: int = 0,
    *,
    codec: int = 0,
    times: Sequence[int] | None = None,
    producer: int = -1,
    epoch: int = 0,
    sequence: int = -1,
    transactional: bool = False,
    headers: Sequence[tuple[str, bytes]] = (),
    key: bytes | None = None,
) -> bytes:
    """Return a batch with one record per value; the default timestamp is 1000 ms."""
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=codec,
        is_transactional=transactional,
        producer_id=producer,
        producer_epoch=epoch,
        base_sequence=sequence,
        batch_size=1_000_000_000,
    )
    for offset, (value, time_ms) in enumerate(zip(values, times or [1000] * len(values), strict=True)):
        assert builder.append(offset, timestamp=time_ms, key=key, value=value, headers=list(headers))
    return at(bytes(builder.build()), base)


def at(raw: bytes, base: int) -> bytes:
    return struct.pack(">q", base) + raw[8:]


def signed(raw: bytes | bytearray) -> bytes:
    summed = bytes(raw[_ATTRIBUTES_AT:])
    return bytes(raw[:_CRC_AT]) + struct.pack(">I", calc_crc32c(summed)) + summed


def marker(base: int, producer: int, *, commit: bool) -> bytes:
    key = struct.pack(">HH", 0, int(commit))
    raw = bytearray(batch([b"\0" * 6], base, producer=producer, transactional=True, key=key))
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
