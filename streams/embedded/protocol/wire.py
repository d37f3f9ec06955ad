"""Reading and writing the protocol's primitive types (the encodings before "flexible" versions)."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, TypeVar

from streams.embedded.errors import MalformedRequestError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    Buffer = bytes | bytearray | memoryview

T = TypeVar("T")

_INT8: Final = struct.Struct(">b")
_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_INT64: Final = struct.Struct(">q")
_MAX_STRING_BYTES: Final = 2**15 - 1


class Reader:
    """Reads primitive values in sequence, never beyond the end of the bytes.

    Args:
        data: One request, without its length prefix.
    """

    __slots__ = ("_data", "_position")

    def __init__(self, data: Buffer) -> None:
        self._data = memoryview(data)
        self._position = 0

    @property
    def remaining(self) -> int:
        """Bytes not read yet."""
        return len(self._data) - self._position

    def int8(self) -> int:
        """Read a signed byte."""
        return self._number(_INT8)

    def int16(self) -> int:
        """Read a signed 16-bit number."""
        return self._number(_INT16)

    def int32(self) -> int:
        """Read a signed 32-bit number."""
        return self._number(_INT32)

    def int64(self) -> int:
        """Read a signed 64-bit number."""
        return self._number(_INT64)

    def boolean(self) -> bool:
        """Read a byte as a boolean."""
        return self._number(_INT8) != 0

    def string(self) -> str:
        """Read a string that must not be null.

        Raises:
            MalformedRequestError: It is null, too short or not UTF-8.
        """
        value = self.nullable_string()
        if value is None:
            raise MalformedRequestError("a string is null where the protocol requires one")
        return value

    def nullable_string(self) -> str | None:
        """Read a string, or None for the null string."""
        length = self.int16()
        if length < 0:
            return None
        try:
            return str(self._take(length), "utf-8")
        except UnicodeDecodeError as error:
            raise MalformedRequestError(f"a string is not UTF-8: {error.reason}") from error

    def byte_string(self) -> memoryview:
        """Read bytes, as a view on the request; null reads as empty."""
        return self._take(max(self.int32(), 0))

    def array(self, read_item: Callable[[], T]) -> list[T]:
        """Read an array; null reads as empty."""
        return self.nullable_array(read_item) or []

    def by_topic(self, read_partition: Callable[[], T]) -> list[tuple[str, list[T]]]:
        """Read an array of topics with an array of partitions each."""
        return self.array(lambda: (self.string(), self.array(read_partition)))

    def nullable_array(self, read_item: Callable[[], T]) -> list[T] | None:
        """Read an array, or None for the null array.

        Raises:
            MalformedRequestError: The count is too large for the remaining bytes.
        """
        count = self.int32()
        if count < 0:
            return None
        if count > self.remaining:  # every item has at least one byte, so memory is bounded by the request
            raise MalformedRequestError(f"an array of {count} items does not fit in {self.remaining} bytes")
        return [read_item() for _ in range(count)]

    def _number(self, form: struct.Struct) -> int:
        try:
            (value,) = form.unpack_from(self._data, self._position)
        except struct.error as error:
            raise MalformedRequestError(f"{form.size} bytes wanted, {self.remaining} left") from error
        self._position += form.size
        return int(value)

    def _take(self, length: int) -> memoryview:
        start = self._position
        if length > self.remaining:
            raise MalformedRequestError(f"{length} bytes wanted, {self.remaining} left")
        self._position = start + length
        return self._data[start : self._position]


class Writer:
    """Collects primitive values; large buffers are kept by reference and not copied."""

    __slots__ = ("_chunks", "_current", "_kept_size")

    def __init__(self) -> None:
        self._chunks: list[Buffer] = []
        self._current = bytearray()
        self._kept_size = 0

    @property
    def size(self) -> int:
        """Bytes written so far."""
        return self._kept_size + len(self._current)

    def chunks(self) -> list[Buffer]:
        """The written data in order, in few buffers."""
        return [*self._chunks, self._current]

    def int8(self, value: int) -> None:
        """Write a signed byte."""
        self._current += _INT8.pack(value)

    def int16(self, value: int) -> None:
        """Write a signed 16-bit number."""
        self._current += _INT16.pack(value)

    def int32(self, value: int) -> None:
        """Write a signed 32-bit number."""
        self._current += _INT32.pack(value)

    def int64(self, value: int) -> None:
        """Write a signed 64-bit number."""
        self._current += _INT64.pack(value)

    def boolean(self, value: bool) -> None:
        """Write a boolean as a byte."""
        self._current += b"\x01" if value else b"\x00"

    def string(self, value: str | None) -> None:
        """Write a string; None becomes the null string.

        Raises:
            ValueError: It is too long for the protocol's 16-bit length.
        """
        if value is None:
            self._current += b"\xff\xff"
            return
        encoded = value.encode()
        if len(encoded) > _MAX_STRING_BYTES:
            raise ValueError(f"a string has {len(encoded)} bytes, the protocol allows {_MAX_STRING_BYTES}")
        self._current += _INT16.pack(len(encoded))
        self._current += encoded

    def byte_string(self, value: Buffer) -> None:
        """Write bytes with their length."""
        self._current += _INT32.pack(len(value))
        self._current += value

    def buffers(self, values: Sequence[Buffer]) -> None:
        """Write several buffers as one byte string, without copying them."""
        size = sum(map(len, values))
        self._current += _INT32.pack(size)
        if values:
            self._chunks.append(self._current)
            self._chunks.extend(values)
            self._kept_size += len(self._current) + size
            self._current = bytearray()

    def array(self, items: Iterable[T], write_item: Callable[[T], None]) -> None:
        """Write an array.

        Args:
            items: The items in order.
        """
        listed = list(items)
        self._current += _INT32.pack(len(listed))
        for item in listed:
            write_item(item)

    def by_topic(
        self, topics: Iterable[tuple[str, Iterable[T]]], write_partition: Callable[[str, T], None]
    ) -> None:
        """Write an array of topics with an array of partitions each."""

        def write_topic(item: tuple[str, Iterable[T]]) -> None:
            topic, partitions = item
            self.string(topic)
            self.array(partitions, lambda partition: write_partition(topic, partition))

        self.array(topics, write_topic)
