"""Decode Protobuf by a schema, which the registry has as a serialized file descriptor or as text."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import orjson
from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory
from google.protobuf.descriptor import Descriptor
from google.protobuf.message import DecodeError as ProtobufDecodeError
from google.protobuf.message import Message

from streams.errors import DecodeError
from streams.intake.reading.registry.proto_text import file_of

Read = Callable[[tuple[int, ...], bytes], bytes]
"""Decode a payload to JSON, given the path of its message."""


@dataclass(frozen=True, slots=True)
class ProtobufSchema:
    """A schema to decode messages by, here or in another process.

    Args:
        text: The serialized file descriptor in base64, or the schema's text.
        references: Names and schemas of the imported files, in order of dependency.
    """

    text: str
    references: tuple[tuple[str, str], ...] = ()

    def read(self, path: tuple[int, ...], payload: bytes) -> bytes:
        """Decode a message.

        Raises:
            DecodeError: It does not match the schema.
        """
        return _made(self)(path, payload)

    def check(self) -> None:
        """Build the decoder.

        Raises:
            ValueError: It is not a valid schema, or a file that it imports is missing.
        """
        _made(self)


@lru_cache(maxsize=1_000)
def _made(schema: ProtobufSchema) -> Read:
    pool = descriptor_pool.DescriptorPool()
    file = _descriptor(schema.text, "schema.proto")
    files = [_descriptor(content, name) for name, content in schema.references] + [file]
    known = {one.name for one in files}
    for name in {wanted for one in files for wanted in one.dependency} - known:
        _add_well_known(pool, name)
    try:
        for one in files:
            pool.Add(one)
        found = pool.FindFileByName(file.name)
    except (TypeError, KeyError, ValueError) as error:
        raise ValueError(f"is not a Protobuf schema ({type(error).__name__}: {error})") from error
    classes: dict[tuple[int, ...], type[Message]] = {}

    def read(path: tuple[int, ...], payload: bytes) -> bytes:
        made = classes.get(path)
        if made is None:
            made = classes[path] = message_factory.GetMessageClass(_message(file, path, found))
        message = made()
        try:
            message.ParseFromString(payload)
        except ProtobufDecodeError:
            name = made.DESCRIPTOR.full_name
            raise DecodeError("undecodable", f"value: is not a {name} of its Protobuf schema") from None
        return orjson.dumps(json_format.MessageToDict(message, preserving_proto_field_name=True))

    return read


def _descriptor(content: str, name: str) -> descriptor_pb2.FileDescriptorProto:
    file = descriptor_pb2.FileDescriptorProto()
    try:
        file.ParseFromString(base64.b64decode(content, validate=True))
    except (binascii.Error, ProtobufDecodeError, ValueError):
        return file_of(content, name)
    file.name = name
    return file


def _add_well_known(pool: descriptor_pool.DescriptorPool, name: str) -> None:
    from google.protobuf import (  # noqa: F401, PLC0415 - importing them registers them
        any_pb2,
        duration_pb2,
        empty_pb2,
        field_mask_pb2,
        struct_pb2,
        timestamp_pb2,
        wrappers_pb2,
    )

    try:
        known = descriptor_pool.Default().FindFileByName(name)
    except KeyError:
        raise ValueError(f"imports {name}, which is not among its references") from None
    file = descriptor_pb2.FileDescriptorProto()
    known.CopyToProto(file)
    pool.Add(file)


def _message(file: descriptor_pb2.FileDescriptorProto, path: tuple[int, ...], found: object) -> Descriptor:
    """Return a message by its index path in the file, whose order the pool does not keep."""
    messages = file.message_type
    names = []
    for index in path:
        if not 0 <= index < len(messages):
            raise DecodeError(
                "undecodable", f"value: names message {list(path)}, which its schema does not have"
            )
        names.append(messages[index].name)
        messages = messages[index].nested_type
    descriptor: Descriptor = found.message_types_by_name[names[0]]  # type: ignore[attr-defined] # of the pool
    for name in names[1:]:
        descriptor = descriptor.nested_types_by_name[name]
    return descriptor
