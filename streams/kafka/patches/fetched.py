"""The batches of one fetched partition, with their bytes; aiokafka's own class keeps the bytes to itself.

Without them a batch of which aiokafka's parser can make nothing could be neither read in another way nor set
aside.
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
        data: The batches, one after the other; the broker may have cut the last one off.
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
        """Give the next batch; its bytes are in `last` then, whatever is wrong with it.

        Raises:
            CorruptRecordException: It is shorter than its head.
        """
        # Here and not in `last`: that is asked for every batch that is damaged, and there may be thousands.
        self._start = self._end
        self._end += _LENGTH_ENDS + _LENGTH.unpack_from(self._data, self._start + _LENGTH_AT)[0]
        return self._next_batch()

    @property
    def last(self) -> memoryview:
        """The bytes of the batch that was handed out last."""
        return memoryview(self._data)[self._start : self._end]
