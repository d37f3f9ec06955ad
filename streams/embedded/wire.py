"""The wire protocol's numbers, errors and primitive types (the encodings before "flexible" versions)."""

from __future__ import annotations

import struct
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, TypeVar


class ApiKey(IntEnum):
    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    CREATE_PARTITIONS = 37
    DELETE_GROUPS = 42


class ErrorCode(IntEnum):
    NONE = 0
    OFFSET_OUT_OF_RANGE = 1
    UNKNOWN_TOPIC_OR_PARTITION = 3
    MESSAGE_TOO_LARGE = 10
    COORDINATOR_NOT_AVAILABLE = 15
    INVALID_TOPIC_EXCEPTION = 17
    INVALID_REQUIRED_ACKS = 21
    ILLEGAL_GENERATION = 22
    INCONSISTENT_GROUP_PROTOCOL = 23
    INVALID_GROUP_ID = 24
    UNKNOWN_MEMBER_ID = 25
    INVALID_SESSION_TIMEOUT = 26
    REBALANCE_IN_PROGRESS = 27
    INVALID_TIMESTAMP = 32
    UNSUPPORTED_VERSION = 35
    TOPIC_ALREADY_EXISTS = 36
    INVALID_PARTITIONS = 37
    INVALID_REPLICATION_FACTOR = 38
    INVALID_CONFIG = 40
    INVALID_REQUEST = 42
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45
    INVALID_PRODUCER_EPOCH = 47
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53
    NON_EMPTY_GROUP = 68
    GROUP_ID_NOT_FOUND = 69
    FETCH_SESSION_ID_NOT_FOUND = 70
    INVALID_RECORD = 87


class EmbeddedBrokerError(Exception):
    """Base of the errors of this package."""


class MalformedRequestError(EmbeddedBrokerError):
    """The bytes are no valid request; the connection is closed."""


class RefusedError(EmbeddedBrokerError):
    """A request, or the part of it about one topic or partition, is refused."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


Buffer = bytes | bytearray | memoryview
T = TypeVar("T")

_INT8: Final = struct.Struct(">b")
_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_INT64: Final = struct.Struct(">q")
_FORMS: Final = {"b": _INT8, "h": _INT16, "i": _INT32, "q": _INT64}
_MAX_STRING_BYTES: Final = 2**15 - 1


class Reader:
    """Reads primitive values in sequence, never beyond the end of the bytes."""

    __slots__ = ("_data", "_position")

    def __init__(self, data: Buffer) -> None:
        self._data = memoryview(data)
        self._position = 0

    @property
    def remaining(self) -> int:
        return len(self._data) - self._position

    def int8(self) -> int:
        return self._number(_INT8)

    def int16(self) -> int:
        return self._number(_INT16)

    def int32(self) -> int:
        return self._number(_INT32)

    def int64(self) -> int:
        return self._number(_INT64)

    def numbers(self, form: str) -> tuple[int, ...]:
        """Read numbers in sequence; a letter each, as in `struct`: b 8 bits, h 16, i 32, q 64."""
        return tuple(self._number(_FORMS[letter]) for letter in form)

    def boolean(self) -> bool:
        return self._number(_INT8) != 0

    def string(self) -> str:
        value = self.nullable_string()
        if value is None:
            raise MalformedRequestError("a string is null where the protocol requires one")
        return value

    def nullable_string(self) -> str | None:
        length = self.int16()
        if length < 0:
            return None
        try:
            return str(self._take(length), "utf-8")
        except UnicodeDecodeError as error:
            raise MalformedRequestError(f"a string is not UTF-8: {error.reason}") from error

    def byte_string(self) -> memoryview:
        return self._take(max(self.int32(), 0))

    def array(self, read_item: Callable[[], T]) -> list[T]:
        return self.nullable_array(read_item) or []

    def by_topic(self, read_partition: Callable[[], T]) -> list[tuple[str, list[T]]]:
        return self.array(lambda: (self.string(), self.array(read_partition)))

    def nullable_array(self, read_item: Callable[[], T]) -> list[T] | None:
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
        return self._kept_size + len(self._current)

    def chunks(self) -> list[Buffer]:
        return [*self._chunks, self._current]

    def int8(self, value: int) -> None:
        self._current += _INT8.pack(value)

    def int16(self, value: int) -> None:
        self._current += _INT16.pack(value)

    def int32(self, value: int) -> None:
        self._current += _INT32.pack(value)

    def int64(self, value: int) -> None:
        self._current += _INT64.pack(value)

    def numbers(self, form: str, *values: int) -> None:
        self._current += struct.pack(f">{form}", *values)

    def boolean(self, value: bool) -> None:
        self._current += b"\x01" if value else b"\x00"

    def string(self, value: str | None) -> None:
        if value is None:
            self._current += b"\xff\xff"
            return
        encoded = value.encode()
        if len(encoded) > _MAX_STRING_BYTES:
            raise ValueError(f"a string has {len(encoded)} bytes, the protocol allows {_MAX_STRING_BYTES}")
        self._current += _INT16.pack(len(encoded))
        self._current += encoded

    def strings(self, *values: str | None) -> None:
        for value in values:
            self.string(value)

    def byte_string(self, value: Buffer) -> None:
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
        listed = list(items)
        self._current += _INT32.pack(len(listed))
        for item in listed:
            write_item(item)

    def by_topic(
        self, topics: Iterable[tuple[str, Iterable[T]]], write_partition: Callable[[str, T], None]
    ) -> None:
        def write_topic(item: tuple[str, Iterable[T]]) -> None:
            topic, partitions = item
            self.string(topic)
            self.array(partitions, lambda partition: write_partition(topic, partition))

        self.array(topics, write_topic)


@dataclass(frozen=True, slots=True)
class Request:
    version: int
    client_id: str
    client_host: str
    body: Reader

    def reply(self) -> Writer:
        """Begin a reply with the time for which the client is throttled, which is always 0."""
        reply = Writer()
        reply.int32(0)
        return reply


# Handles a request; returns None if the client wants no answer (produce with acks=0).
Handler = Callable[[Request], Awaitable["Writer | None"]]


@dataclass(frozen=True, slots=True)
class Api:
    key: ApiKey
    oldest: int
    newest: int
    handle: Handler
