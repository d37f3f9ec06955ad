"""Parse the text of a Protobuf schema to a file descriptor.

Some registries (Apicurio) return only the text. Services, options and extensions are skipped, and type names
are resolved by the descriptor pool.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from google.protobuf.descriptor_pb2 import DescriptorProto, EnumDescriptorProto, FieldDescriptorProto
from google.protobuf.descriptor_pb2 import FileDescriptorProto as File

MAX_DEPTH: Final = 50
"""Limit on nested messages."""
_TOKEN: Final = re.compile(
    r"""\s+|//[^\n]*|/\*(?:.*?\*/|.*)|(?P<token>"(?:[^"\\\n]|\\.)*"?|'(?:[^'\\\n]|\\.)*'?|[\w.+]+|[^\s\w])""",
    re.DOTALL,
)
"""White space, comments and words; unclosed ones extend as far as possible, so that matching is linear."""
_SCALARS: Final = {
    name.removeprefix("TYPE_").lower(): number
    for name, number in FieldDescriptorProto.Type.items()
    if name not in {"TYPE_MESSAGE", "TYPE_ENUM", "TYPE_GROUP"}
}
_LABELS: Final = {
    "optional": FieldDescriptorProto.LABEL_OPTIONAL,
    "required": FieldDescriptorProto.LABEL_REQUIRED,
    "repeated": FieldDescriptorProto.LABEL_REPEATED,
}
_SKIPPED: Final = frozenset({"option", "reserved", "extensions", "extend", "service", "export", "local"})
_OPENING: Final = {"{": "}", "[": "]", "(": ")", "<": ">"}


def file_of(text: str, name: str) -> File:
    """Parse a schema.

    Args:
        text: The schema.
        name: The file name for imports.

    Raises:
        ValueError: It is not a schema; the message has the position.
    """
    reader = _Reader(text)
    file = File(name=name, syntax="proto2")
    while reader.left:
        word = reader.next()
        if word in {"syntax", "edition"}:
            reader.expect("=")
            file.syntax = "proto2" if reader.text() == "proto2" else "proto3"
            reader.expect(";")
        elif word == "package":
            file.package = reader.next()
            reader.expect(";")
        elif word == "import":
            if reader.peek in {"public", "weak"}:
                reader.next()
            file.dependency.append(reader.text())
            reader.expect(";")
        elif word == "message":
            _message(reader, file.message_type.add(), proto3=file.syntax == "proto3", depth=0)
        elif word == "enum":
            _enum(reader, file.enum_type.add())
        elif word in _SKIPPED:
            reader.skip()
        elif word != ";":
            raise reader.error(word)
    return file


class _Reader:
    """The tokens of a schema."""

    def __init__(self, text: str) -> None:
        self._words = [match["token"] for match in _TOKEN.finditer(text) if match["token"]]
        self._at = 0

    @property
    def left(self) -> bool:
        return self._at < len(self._words)

    @property
    def peek(self) -> str:
        return self._words[self._at] if self.left else ""

    def next(self) -> str:
        word = self.peek
        if not word:
            raise ValueError("ends in the middle of a Protobuf schema")
        self._at += 1
        return word

    def expect(self, wanted: str) -> None:
        word = self.next()
        if word != wanted:
            raise self.error(word)

    def error(self, word: str) -> ValueError:
        around = " ".join(self._words[max(self._at - 4, 0) : self._at + 3])[:100]
        return ValueError(f"is not a Protobuf schema: unexpected {word[:40]!r} in {around!r}")

    def text(self) -> str:
        word = self.next()
        if word[0] not in "\"'" or word[0] != word[-1]:
            raise self.error(word)
        return word[1:-1]

    def number(self) -> int:
        word = self.next()
        sign, word = (-1, self.next()) if word == "-" else (1, word)
        try:
            octal = word.startswith("0") and word.isdigit()
            return sign * int(word, 8 if octal else 0)
        except ValueError:
            raise self.error(word) from None

    def skip(self) -> None:
        """Skip a statement, to its semicolon or the end of its block."""
        closing: list[str] = []
        while True:
            word = self.next()
            if word in _OPENING:
                closing.append(_OPENING[word])
            elif closing and word == closing[-1]:
                closing.pop()
                if not closing and word == "}" and self.peek != ";":
                    return
            elif word == ";" and not closing:
                return

    def options(self) -> None:
        """Skip the options and the semicolon of a field or value."""
        if self.peek == "[":
            self.skip()
        else:
            self.expect(";")

    def block(self, statement: Callable[[str], None]) -> None:
        """Parse a block; the callback gets the first word of each statement."""
        self.expect("{")
        while (word := self.next()) != "}":
            if word in _SKIPPED and self.peek not in {"=", "."}:
                self.skip()
            elif word != ";":
                statement(word)


def _message(  # noqa: C901 - a branch per kind of statement
    reader: _Reader, message: DescriptorProto, *, proto3: bool, depth: int, name: str = ""
) -> None:
    if depth > MAX_DEPTH:
        raise ValueError(f"nests messages deeper than {MAX_DEPTH}")
    message.name = name or reader.next()
    entries: list[DescriptorProto] = []
    alone: list[FieldDescriptorProto] = []

    def field(word: str, oneof: int | None = None) -> None:
        label = _LABELS.get(word)
        kind = word if label is None else reader.next()
        one = message.field.add(label=label or FieldDescriptorProto.LABEL_OPTIONAL)
        of_map = kind == "map" and reader.peek == "<"
        if of_map:
            entries.append(_entry(reader))
            one.label = FieldDescriptorProto.LABEL_REPEATED
        one.name = reader.next()
        reader.expect("=")
        one.number = reader.number()
        if kind == "group":
            one.type, one.type_name, one.name = FieldDescriptorProto.TYPE_GROUP, one.name, one.name.lower()
            _message(reader, message.nested_type.add(), proto3=proto3, depth=depth + 1, name=one.type_name)
        else:
            _typed(one, kind)
            reader.options()
        if of_map:
            one.type_name = entries[-1].name = _entry_name(one.name)
        if oneof is not None:
            one.oneof_index = oneof
        elif proto3 and word == "optional":
            one.proto3_optional = True
            alone.append(one)

    def statement(word: str) -> None:
        if word == "message" and reader.peek != "=":
            _message(reader, message.nested_type.add(), proto3=proto3, depth=depth + 1)
        elif word == "enum":
            _enum(reader, message.enum_type.add())
        elif word == "oneof":
            number = len(message.oneof_decl)
            message.oneof_decl.add(name=reader.next())
            reader.block(lambda inner: field(inner, number))
        else:
            field(word)

    reader.block(statement)
    message.nested_type.extend(entries)  # last, because records name nested messages by index
    for one in alone:
        one.oneof_index = len(message.oneof_decl)
        message.oneof_decl.add(name=f"_{one.name}")


def _typed(field: FieldDescriptorProto, kind: str) -> None:
    scalar = _SCALARS.get(kind)
    if scalar is None:
        field.type_name = kind
    else:
        field.type = scalar


def _entry(reader: _Reader) -> DescriptorProto:
    """Parse a map's key and value types to its entry message."""
    reader.expect("<")
    entry = DescriptorProto()
    entry.options.map_entry = True
    for number, (name, end) in enumerate((("key", ","), ("value", ">")), 1):
        part = entry.field.add(name=name, number=number, label=FieldDescriptorProto.LABEL_OPTIONAL)
        _typed(part, reader.next())
        reader.expect(end)
    return entry


def _entry_name(field: str) -> str:
    return "".join(part[:1].upper() + part[1:] for part in field.split("_")) + "Entry"


def _enum(reader: _Reader, enum: EnumDescriptorProto) -> None:
    enum.name = reader.next()
    seen: set[int] = set()

    def value(word: str) -> None:
        reader.expect("=")
        number = reader.number()
        enum.value.add(name=word, number=number)
        if number in seen:
            enum.options.allow_alias = True
        seen.add(number)
        reader.options()

    reader.block(value)
