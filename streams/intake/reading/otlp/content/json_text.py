"""JSON in text attributes, and structures as text. Pure."""

from __future__ import annotations

from typing import Any, Final

import orjson

from streams.intake.reading.otlp.content.shown import python_literal
from streams.intake.reading.otlp.content.truncated import completed

_OPENING: Final = frozenset('{["')
_CLOSING: Final = frozenset("}]")


def loaded(value: Any) -> Any:
    """Parse JSON in a text, up to where it was cut; return any other value unchanged."""
    if not isinstance(value, str):
        return value
    start = value[:1]
    if start not in _OPENING and (not start.isspace() or value.lstrip()[:1] not in _OPENING):
        return value  # most texts are not JSON, so this is checked first
    try:
        return orjson.loads(value)
    except (orjson.JSONDecodeError, ValueError):
        found = completed(value)
        found = python_literal(value) if found is None else found
        return value if found is None else found


def is_cut(value: Any) -> bool:
    """Whether JSON in a text was cut at its end."""
    if not isinstance(value, str) or value[:1] not in _OPENING or value.rstrip()[-1:] in _CLOSING:
        return False
    return isinstance(loaded(value), dict | list)


def as_text(value: Any) -> str:
    """Write a value as text: a text unchanged, a structure as JSON."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    try:
        return orjson.dumps(value).decode()
    except (orjson.JSONEncodeError, TypeError, ValueError):
        return ""


def listed(value: Any) -> list[Any]:
    """Parse a list, in JSON or as it is; empty for any other value."""
    opened = loaded(value)
    return opened if isinstance(opened, list) else []
