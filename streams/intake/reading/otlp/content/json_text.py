"""JSON that travels as text, and structures as text. Pure."""

from __future__ import annotations

from typing import Any

import orjson


def loaded(value: Any) -> Any:
    """Open JSON that travels as text; anything else comes back as it is."""
    if not isinstance(value, str):
        return value
    start = value.lstrip()[:1]
    if start not in {"{", "[", '"'}:
        return value
    try:
        return orjson.loads(value)
    except (orjson.JSONDecodeError, ValueError):
        return value


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
