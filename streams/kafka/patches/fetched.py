"""The batches of one fetched partition with their bytes, which aiokafka's class does not expose.

Without the bytes, a batch that aiokafka's parser rejects could neither be parsed otherwise nor become a dead
letter.
"""

from __future__ import annotations

from struct import Struct
from typing import Any, Final

from aiokafka.record.memory_records import MemoryRecords

_LENGTH: Final = Struct(">i")
_LENGTH_AT: Final = 8
_LENGTH_ENDS: Final = 12


class FetchedBatches:
    """Replaces `aiokafka.record.memory_records.MemoryRecords`, with the methods that its fetcher calls.

    Args:
        data: The batches in sequence; the broker may have truncated the last one.
    """

    __slots__ = ("_data", "_end", "_next_batch", "_start", "has_next", "size_in_bytes")

    def __init__(self, data: bytes) -> None:
        native = MemoryRecords(data)
        self._data = data
        self._start = self._end = 0
        self._next_batch = native.next_batch
        self.has_next = native.has_next
        self.size_in_bytes = native.size_in_bytes

    def next_batch(self) -> Any:
        """Return the next batch; its bytes are then in `last`, also after an error.

        Raises:
            CorruptRecordException: The batch is shorter than its head.
        """
        # Computed here: `last` is read for every damaged batch, of which there may be thousands.
        self._start = self._end
        self._end += _LENGTH_ENDS + _LENGTH.unpack_from(self._data, self._start + _LENGTH_AT)[0]
        return self._next_batch()

    @property
    def last(self) -> memoryview:
        """The bytes of the batch that was returned last."""
        return memoryview(self._data)[self._start : self._end]
