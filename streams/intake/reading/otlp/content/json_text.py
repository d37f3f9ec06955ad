"""JSON that travels as text, and structures as text. Pure."""

from __future__ import annotations

from typing import Any, Final

import orjson

from streams.intake.reading.otlp.content.truncated import completed

_OPENING: Final = frozenset('{["')
_CLOSING: Final = frozenset("}]")


def loaded(value: Any) -> Any:
    """Open JSON that travels as text, where it was cut as far as it goes; anything else stays as it is."""
    if not isinstance(value, str):
        return value
    start = value[:1]
    if start not in _OPENING and (not start.isspace() or value.lstrip()[:1] not in _OPENING):
        return value  # most texts are none, so this is decided before anything else
    try:
        return orjson.loads(value)
    except (orjson.JSONDecodeError, ValueError):
        found = completed(value)
        return value if found is None else found


def is_cut(value: Any) -> bool:
    """Whether JSON that travels as text was cut at its end."""
    if not isinstance(value, str) or value.rstrip()[-1:] in _CLOSING:
        return False
    return isinstance(loaded(value), dict | list)


def as_text(value: Any) -> str:
    """Write what is not text as JSON."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    try:
        return orjson.dumps(value).decode()
    except (orjson.JSONEncodeError, TypeError, ValueError):
        return ""


def listed(value: Any) -> list[Any]:
    """Open a list that may travel as text; empty for anything else."""
    opened = loaded(value)
    return opened if isinstance(opened, list) else []
