"""Decode Avro and Protobuf payloads by a registered schema to JSON, here or in another process. Pure."""

from __future__ import annotations

import base64
import io
import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import orjson
from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory
from google.protobuf.message import DecodeError as ProtobufError

from streams.errors import undecodable

WELL_KNOWN: Final = ("any", "duration", "empty", "field_mask", "struct", "timestamp", "wrappers")
COMPILE_SECONDS: Final = 30.0
SHARED_MEMORY: Final = "/dev/shm"  # noqa: S108 - the folder in it has a random name
_CAREFUL: Final = 10
"""Slowdown factor of fastavro's Python code."""


@dataclass(frozen=True, slots=True)
class AvroSchema:
    """An Avro schema as JSON, with the schemas that it references in order of dependency."""

    text: str
    references: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _avro(self)  # raises ValueError if records cannot be decoded by it

    def size(self, payload: bytes) -> int:
        """Return a bound on the values in a payload; 0 if the schema limits them."""
        _, shape = _avro(self)
        return len(payload) * (_CAREFUL if shape.is_recursive else shape.repeats)

    def read(self, payload: bytes) -> bytes:
        (read, _), stream = _avro(self), io.BytesIO(payload)
        try:
            document = read(stream)
        except (EOFError, ValueError, LookupError, OverflowError, TypeError, RecursionError) as error:
            why = f"does not match its Avro schema ({type(error).__name__}: {error})"
            raise undecodable(f"value: {why}") from None
        if left := len(payload) - stream.tell():
            raise undecodable(f"value: has {left} bytes more than its Avro schema defines")
        return orjson.dumps(document, default=_plain)


@lru_cache(maxsize=1_000)
def _avro(schema: AvroSchema) -> tuple[Callable[[io.BytesIO], object], _AvroShape]:
    import fastavro  # noqa: PLC0415 - an extra
    from fastavro._read_py import schemaless_reader as careful_reader  # noqa: PLC0415 - as above

    names: dict[str, Any] = {}
    try:
        for reference in schema.references:
            fastavro.parse_schema(json.loads(reference), named_schemas=names)
        parsed = fastavro.parse_schema(json.loads(schema.text), named_schemas=names)
    except (fastavro.schema.SchemaParseException, fastavro.schema.UnknownType, ValueError, KeyError) as error:
        raise ValueError(f"is not an Avro schema ({type(error).__name__}: {error})") from error
    shape = _AvroShape(names)
    shape.is_filled(parsed)
    # fastavro's C code limits neither recursion (the process crashes) nor the number of empty items.
    if shape.has_empty_items:
        raise ValueError("has an array with zero-byte items, whose length is unbounded")
    read = careful_reader if shape.is_recursive else fastavro.schemaless_reader
    return lambda stream: read(stream, parsed, None), shape


def _plain(value: object) -> object:
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return base64.b64encode(value).decode()
    return list(value) if isinstance(value, tuple) else str(value)


class _AvroShape:
    """Whether the records of a schema nest or hold values (`repeats`) without a limit."""

    def __init__(self, names: Mapping[str, Any]) -> None:
        self.is_recursive = self.has_empty_items = self.repeats = False
        self._names = names
        self._known: dict[str, bool | None] = {}  # whether its values have bytes; None while it is examined

    def is_filled(self, schema: Any) -> bool:
        """Examine a schema; return whether each of its values has at least one byte."""
        if isinstance(schema, list):
            for branch in schema:
                self.is_filled(branch)
            return True  # the index of the branch
        if isinstance(schema, str):
            return self._named(schema) if schema in self._names else schema != "null"
        kind = schema["type"]
        self.repeats |= kind in {"array", "map"} or schema.get("logicalType") == "decimal"
        if kind == "array":
            self.has_empty_items |= not self.is_filled(schema["items"])
        elif kind == "map":
            self.is_filled(schema["values"])
        elif kind in {"record", "error"}:
            self._known[schema["name"]] = None
            fields = [self.is_filled(one["type"]) for one in schema["fields"]]
            self._known[schema["name"]] = any(fields)
            return any(fields)
        elif kind == "fixed":
            return bool(schema["size"] > 0)
        elif kind != "enum":
            return self.is_filled(kind)
        return True

    def _named(self, name: str) -> bool:
        if name not in self._known:
            self._known[name] = self.is_filled(self._names[name])
        filled = self._known[name]
        self.is_recursive |= filled is None
        return filled is not False  # a recursion has at least the union that ends it


@dataclass(frozen=True, slots=True)
class ProtobufSchema:
    files: tuple[bytes, ...]  # the serialized descriptors of its imports, and its own

    def __post_init__(self) -> None:
        _files(self)

    def read(self, path: tuple[int, ...], payload: bytes) -> bytes:
        message = _protobuf(self, path)()
        try:
            message.ParseFromString(payload)
        except ProtobufError:
            name = message.DESCRIPTOR.full_name
            raise undecodable(f"value: is not a {name} of its Protobuf schema") from None
        return orjson.dumps(json_format.MessageToDict(message, preserving_proto_field_name=True))


@lru_cache(maxsize=1_000)
def _files(
    schema: ProtobufSchema,
) -> tuple[descriptor_pool.DescriptorPool, descriptor_pb2.FileDescriptorProto]:
    files = [descriptor_pb2.FileDescriptorProto.FromString(one) for one in schema.files]
    pool = descriptor_pool.DescriptorPool()
    try:
        for file in [*_well_known(files), *files]:
            pool.Add(file)
        pool.FindFileByName(files[-1].name)
    except (TypeError, KeyError, ValueError) as error:
        raise ValueError(f"is not a Protobuf schema ({type(error).__name__}: {error})") from error
    return pool, files[-1]


def descriptors(schemas: Mapping[str, str]) -> tuple[bytes, ...]:
    """Return the file descriptors of schemas by name: given in base64, or as text that is compiled."""
    files = []
    for name, schema in schemas.items():
        try:
            file = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(schema, validate=True))
        except (ValueError, ProtobufError):
            try:
                return _compiled(schemas, name=list(schemas)[-1])
            except OSError as error:
                why = f"cannot be compiled ({error}); let TMPDIR name a folder to write to"
                raise ValueError(why) from None
        file.name = name
        files.append(file.SerializeToString())
    return tuple(files)


def _compiled(schemas: Mapping[str, str], *, name: str) -> tuple[bytes, ...]:
    """Compile schemas as text, which some registries (Apicurio) return; `name` is the one to use."""
    if find_spec("grpc_tools") is None:
        raise ValueError("is text and needs a compiler; pip install 'judgestream[registry]'")
    with _folder() as folder:
        source, target = Path(folder, "source").resolve(), Path(folder, "target")
        for one, schema in schemas.items():
            path = Path(source, one).resolve()
            if not path.is_relative_to(source):
                raise ValueError(f"imports {one[:200]!r}, which is no path within a folder")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(schema, encoding="utf-8")
        options = ["-I.", "--include_imports", f"--descriptor_set_out={target}", name]
        # In a process of its own, because it is C++ code over a foreign text; isolated (-I), so that it
        # imports nothing from the folder of foreign names.
        command = [sys.executable, "-I", "-m", "grpc_tools.protoc", *options]
        try:
            subprocess.run(  # noqa: S603 - no shell
                command, capture_output=True, check=True, cwd=source, timeout=COMPILE_SECONDS
            )
        except subprocess.TimeoutExpired:
            raise ValueError(f"takes longer than {COMPILE_SECONDS:g} s to compile") from None
        except subprocess.CalledProcessError as error:
            said = error.stderr.decode("utf-8", "replace").splitlines()
            problems = [line for line in said if line.partition(":")[0] in schemas] or said[-1:]
            raise ValueError(f"is not a Protobuf schema: {' '.join(problems)[:300]}") from None
        compiled = descriptor_pb2.FileDescriptorSet.FromString(target.read_bytes())
    return tuple(file.SerializeToString() for file in compiled.file)


def _folder() -> TemporaryDirectory[str]:
    try:
        return TemporaryDirectory()
    except FileNotFoundError:  # a read-only root file system, as in the chart's pods
        return TemporaryDirectory(dir=SHARED_MEMORY)


def _well_known(files: list[descriptor_pb2.FileDescriptorProto]) -> list[descriptor_pb2.FileDescriptorProto]:
    """The files of Protobuf itself that others import."""
    for name in WELL_KNOWN:
        import_module(f"google.protobuf.{name}_pb2")  # registers it
    found = []
    for name in {wanted for one in files for wanted in one.dependency} - {one.name for one in files}:
        file = descriptor_pb2.FileDescriptorProto()
        try:
            descriptor_pool.Default().FindFileByName(name).CopyToProto(file)
        except KeyError:
            raise ValueError(f"imports {name}, which is not among its references") from None
        found.append(file)
    return found


@lru_cache(maxsize=1_000)
def _protobuf(schema: ProtobufSchema, path: tuple[int, ...]) -> Any:
    pool, file = _files(schema)
    messages, names = file.message_type, [file.package] if file.package else []
    for index in path:
        if not 0 <= index < len(messages):
            raise undecodable(f"value: names message {list(path)}, which its schema does not have")
        names.append(messages[index].name)
        messages = messages[index].nested_type
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(".".join(names)))
