"""Markdown tables, and types of JSON Schema in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

_BOUNDS: Final = (
    ("minimum", "from"),
    ("exclusiveMinimum", "above"),
    ("maximum", "to"),
    ("exclusiveMaximum", "below"),
)
_NAMES: Final = {"integer": "whole number", "boolean": "true or false", "object": "mapping", "string": "text"}


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table; vertical bars and line breaks in cells are escaped."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(map(_cell, line))} |" for line in lines) + "\n"


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "&#124;").split())


def resolve(schema: dict[str, Any], node: dict[str, Any]) -> dict[str, Any]:
    """Resolve references; keys beside a reference take precedence."""
    while "$ref" in node:
        referred: dict[str, Any] = schema["$defs"][node["$ref"].rpartition("/")[2]]
        node = {**referred, **{key: value for key, value in node.items() if key != "$ref"}}
    return node


def kind_of(schema: dict[str, Any], node: dict[str, Any]) -> str:
    """Return the type at a node of a schema: `text`, `number, from 0 to 1`, `list of text`."""
    name = str(node.get("$ref", "")).rpartition("/")[2]
    node = resolve(schema, node)
    if "anyOf" in node:
        kinds = dict.fromkeys(kind_of(schema, one) for one in node["anyOf"])
        ordered = sorted(kinds, key=lambda kind: kind == "null")  # null last
        return " or ".join(ordered)
    if "enum" in node or "const" in node:
        return ", ".join(f"`{value}`" for value in node.get("enum", [node.get("const")]))
    if "properties" in node:
        return f"object {name}".strip()
    return _simple(schema, node)


def _simple(schema: dict[str, Any], node: dict[str, Any]) -> str:
    kind = str(node.get("type", "any"))
    if kind == "array":
        return f"list of {kind_of(schema, node.get('items', {}))}"
    if kind in {"integer", "number"}:
        bounds = " ".join(f"{word} {node[key]:g}" for key, word in _BOUNDS if key in node)
        return _NAMES.get(kind, kind) + (f", {bounds}" if bounds else "")
    words = {"path": "path", "date-time": "date and time"}
    return words.get(str(node.get("format", "")), _NAMES.get(kind, kind))
