"""Record batches built by aiokafka, independent of the code under test."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiokafka.record.default_records import DefaultRecordBatchBuilder

if TYPE_CHECKING:
    from collections.abc import Sequence

GZIP = 1
LZ4 = 3


def record_batch(
    *values: bytes | None,
    timestamps_ms: Sequence[int] | None = None,
    compression: int = 0,
    producer_id: int = -1,
    epoch: int = -1,
    sequence: int = -1,
    is_transactional: bool = False,
    key: bytes | None = None,
    headers: Sequence[tuple[str, bytes]] = (),
) -> bytes:
    """Return a batch with one record per value; the default timestamp is 1000 ms."""
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=compression,
        is_transactional=is_transactional,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        batch_size=1_000_000_000,
    )
    times = timestamps_ms or [1000] * len(values)
    for offset, (value, timestamp_ms) in enumerate(zip(values, times, strict=True)):
        assert builder.append(offset, timestamp=timestamp_ms, key=key, value=value, headers=list(headers))
    return bytes(builder.build())
