"""Detect changes of a message's JSON Schema that would break a reader.

Producers and consumers upgrade independently, and during a rolling upgrade old and new workers read each
other's messages. So old messages must be valid by the new schema, and new messages by the old one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

Schema = Mapping[str, Any]

_LOWER = ("minimum", "exclusiveMinimum", "minLength", "minItems")
_UPPER = ("maximum", "exclusiveMaximum", "maxLength", "maxItems")


def unreadable(*, writer: Schema, reader: Schema) -> list[str]:
    """Return why a document that is valid for `writer` may be refused by `reader`.

    Covers the part of JSON Schema that Pydantic generates for these models; in doubt (a changed pattern) it
    reports a problem.

    Args:
        writer: The writer's schema.
        reader: The reader's schema.

    Returns:
        One line per problem, starting with the field's path; empty if all documents are readable.
    """
    return list(_Comparison(writer, reader).problems(writer, reader, "$"))


def vanished(*, released: Schema, current: Schema) -> list[str]:
    """Return the fields of a message that are no longer written."""
    return sorted(_fields(released, released) - _fields(current, current))


def _fields(root: Schema, node: Any, path: str = "$", seen: tuple[str, ...] = ()) -> set[str]:
    if "$ref" in node:
        if node["$ref"] in seen:
            return set()
        seen = (*seen, node["$ref"])
        node = _resolve(root, node)
    found: set[str] = set()
    for name, child in node.get("properties", {}).items():
        found.add(f"{path}.{name}")
        found |= _fields(root, child, f"{path}.{name}", seen)
    for option in [*node.get("anyOf", ()), *node.get("oneOf", ())]:
        found |= _fields(root, option, path, seen)
    if isinstance(node.get("items"), Mapping):
        found |= _fields(root, node["items"], f"{path}[]", seen)
    return found


def _resolve(root: Schema, node: Schema) -> Schema:
    while "$ref" in node:
        node = root["$defs"][node["$ref"].removeprefix("#/$defs/")]
    return node


class _Comparison:
    def __init__(self, writer_root: Schema, reader_root: Schema) -> None:
        self._writer_root = writer_root
        self._reader_root = reader_root
        self._open: set[tuple[str, str]] = set()

    def problems(self, writer: Schema, reader: Schema, path: str) -> Iterator[str]:
        pair = (str(writer.get("$ref")), str(reader.get("$ref")))
        recursive = "None" not in pair
        if recursive and pair in self._open:
            return
        if recursive:
            self._open.add(pair)
        yield from self._resolved(
            _resolve(self._writer_root, writer), _resolve(self._reader_root, reader), path
        )
        self._open.discard(pair)

    def _resolved(self, writer: Schema, reader: Schema, path: str) -> Iterator[str]:
        written = _options(writer)
        if written is not None:
            for option in written:
                yield from self.problems(option, reader, path)
            return
        readable = _options(reader)
        if readable is not None:
            attempts = [list(self.problems(writer, option, path)) for option in readable]
            if not any(not attempt for attempt in attempts):
                yield min(attempts, key=len, default=[f"{path}: no alternative is left"])[0]
            return
        yield from self._plain(writer, reader, path)

    def _plain(self, writer: Schema, reader: Schema, path: str) -> Iterator[str]:
        if not _constraints(reader):
            return
        yield from _values(writer, reader, path)
        kind, expected = writer.get("type"), reader.get("type")
        if expected is not None and kind != expected and not (kind == "integer" and expected == "number"):
            yield f"{path}: type {kind or 'any'} is read as {expected}"
            return
        yield from _bounds(writer, reader, path)
        yield from self._objects(writer, reader, path)
        if "items" in reader:
            yield from self.problems(writer.get("items", {}), reader["items"], f"{path}[]")

    def _objects(self, writer: Schema, reader: Schema, path: str) -> Iterator[str]:
        written, read = writer.get("properties", {}), reader.get("properties", {})
        for name in reader.get("required", ()):
            if name not in writer.get("required", ()):
                yield f"{path}.{name}: is required but not always written"
        for name in written.keys() & read.keys():
            yield from self.problems(written[name], read[name], f"{path}.{name}")
        others = reader.get("additionalProperties", True)
        if others is False:
            for name in sorted(written.keys() - read.keys()):
                yield f"{path}.{name}: is written but refused"
        elif isinstance(others, Mapping) and isinstance(writer.get("additionalProperties"), Mapping):
            yield from self.problems(writer["additionalProperties"], others, f"{path}.*")


def _options(node: Schema) -> list[Schema] | None:
    options = node.get("anyOf") or node.get("oneOf")
    return list(options) if options else None


def _constraints(node: Schema) -> set[str]:
    return node.keys() - {"title", "description", "default", "examples", "$schema", "$id", "$defs"}


def _allowed(node: Schema) -> list[Any] | None:
    if "const" in node:
        return [node["const"]]
    return list(node["enum"]) if "enum" in node else None


def _values(writer: Schema, reader: Schema, path: str) -> Iterator[str]:
    allowed = _allowed(reader)
    if allowed is None:
        return
    written = _allowed(writer)
    if written is None:
        yield f"{path}: any value is written, only {allowed} are read"
        return
    surplus = [value for value in written if value not in allowed]
    if surplus:
        yield f"{path}: {surplus} may be written, only {allowed} are read"


def _bounds(writer: Schema, reader: Schema, path: str) -> Iterator[str]:
    for name in _LOWER:
        if name in reader and (name not in writer or writer[name] < reader[name]):
            yield f"{path}: {name} {reader[name]} is read, {writer.get(name, 'no bound')} is written"
    for name in _UPPER:
        if name in reader and (name not in writer or writer[name] > reader[name]):
            yield f"{path}: {name} {reader[name]} is read, {writer.get(name, 'no bound')} is written"
    for name in ("pattern", "format", "contentEncoding"):
        if name in reader and reader[name] != writer.get(name) and _allowed(writer) is None:
            yield f"{path}: {name} {reader[name]!r} is read, {writer.get(name)!r} is written"
