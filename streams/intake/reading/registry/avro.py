"""Decode Avro by a schema, in time and memory bounded by its size.

fastavro's C extension is fast, but limits neither the recursion depth of a recursive schema (the process
crashes) nor the number of zero-byte items. So recursive schemas use its Python code, which raises a
RecursionError, and schemas with zero-byte items are refused.
"""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final

import orjson

from streams.errors import DecodeError

_PRIMITIVES: Final = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
_UNREADABLE: Final = (EOFError, ValueError, LookupError, OverflowError, TypeError, RecursionError)
Read = Callable[[bytes], bytes]
"""Decode a payload to JSON."""
_CAREFUL: Final = 10
"""Slowdown factor of fastavro's Python code."""


@dataclass(frozen=True, slots=True)
class AvroSchema:
    """A schema to decode records by, here or in another process.

    Args:
        text: The schema, as JSON.
        references: The schemas that it references, in order of dependency.
    """

    text: str
    references: tuple[str, ...] = ()

    def size(self, payload: bytes) -> int:
        """Return the maximum number of values in a payload, for `read_beside`; 0 if the schema limits it."""
        return len(payload) * _made(self).values_of_byte

    def read(self, payload: bytes) -> bytes:
        """Decode a record.

        Raises:
            DecodeError: It does not match the schema.
        """
        return _made(self).read(payload)

    def check(self) -> None:
        """Build the decoder.

        Raises:
            ValueError: It is not a valid schema, or its records have unbounded zero-byte items.
        """
        _made(self)


@dataclass(frozen=True, slots=True)
class _Reader:
    read: Read
    values_of_byte: int


@lru_cache(maxsize=1_000)
def _made(schema: AvroSchema) -> _Reader:
    import fastavro  # noqa: PLC0415 - an extra
    from fastavro._read_py import schemaless_reader as careful_reader  # noqa: PLC0415 - as above

    names: dict[str, Any] = {}
    try:
        for one in schema.references:
            fastavro.parse_schema(json.loads(one), named_schemas=names)
        parsed = fastavro.parse_schema(json.loads(schema.text), named_schemas=names)
    except (fastavro.schema.SchemaParseException, fastavro.schema.UnknownType, ValueError, KeyError) as error:
        raise ValueError(f"is not an Avro schema ({type(error).__name__}: {error})") from error
    shape = _Shape(names)
    shape.look(parsed)
    if shape.sizeless:
        raise ValueError("has an array with zero-byte items, whose length is unbounded")
    reader = careful_reader if shape.recursive else fastavro.schemaless_reader

    def read(payload: bytes) -> bytes:
        stream = io.BytesIO(payload)
        try:
            document = reader(stream, parsed, None)
        except _UNREADABLE as error:
            raise DecodeError(
                "undecodable", f"value: does not match its Avro schema ({type(error).__name__}: {error})"
            ) from None
        if stream.tell() != len(payload):
            left = len(payload) - stream.tell()
            raise DecodeError("undecodable", f"value: has {left} bytes more than its Avro schema defines")
        return orjson.dumps(document, default=_plain)

    return _Reader(read, shape.values_of_byte)


def _plain(value: object) -> object:
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return base64.b64encode(value).decode()
    if isinstance(value, Decimal):
        return str(value)
    return list(value) if isinstance(value, tuple) else str(value)


class _Shape:
    """Properties of a schema's records."""

    def __init__(self, names: Mapping[str, Any]) -> None:
        self.recursive = False
        self.sizeless = False
        self.repeats = False
        self.fields = 0
        self._names = names
        self._least: dict[str, int] = {}
        self._within: set[str] = set()

    @property
    def values_of_byte(self) -> int:
        """Maximum number of values per byte, if items may repeat; weighted by the decoder's speed."""
        if self.recursive:
            return _CAREFUL * max(self.fields, 1)
        return max(self.fields, 1) if self.repeats else 0

    def look(self, schema: Any) -> int:
        """Examine a schema; return its minimum size in bytes (0 or 1)."""
        if isinstance(schema, str):
            return int(schema != "null") if schema in _PRIMITIVES else self._named(schema)
        if isinstance(schema, list):
            for one in schema:
                self.look(one)
            return 1  # the index of the branch
        return self._complex(schema)

    def _complex(self, schema: Mapping[str, Any]) -> int:
        kind = schema["type"]
        self.repeats |= kind in {"array", "map"} or schema.get("logicalType") == "decimal"
        if kind == "array":
            if not self.look(schema["items"]):
                self.sizeless = True
        elif kind == "map":
            self.look(schema["values"])
        elif kind in {"record", "error"}:
            return self._record(schema)
        elif kind == "fixed":
            return int(schema["size"] > 0)
        elif kind != "enum":
            return self.look(kind)
        return 1

    def _named(self, name: str) -> int:
        if name in self._within:
            self.recursive = True
            return 1  # at least the union that ends the recursion
        if name not in self._least:
            self._least[name] = self.look(self._names[name])
        return self._least[name]

    def _record(self, schema: Mapping[str, Any]) -> int:
        name = schema["name"]
        self._within.add(name)
        self.fields += len(schema["fields"])
        least = [self.look(one["type"]) for one in schema["fields"]]
        self._within.discard(name)
        return int(any(least))
