"""The values of a span under the attribute names of its families. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from streams.intake.reading.otlp.content.conversation import read_turns
from streams.intake.reading.otlp.content.flattened import unflatten
from streams.intake.reading.otlp.content.json_text import as_text, loaded
from streams.intake.reading.otlp.content.shown import is_shown_object
from streams.intake.reading.otlp.content.turn import Turn
from streams.intake.reading.otlp.families.shape import Field, Shape

_REDACTED: Final = frozenset({"__REDACTED__", "[REDACTED]", "<redacted>", "[Scrubbed]"})
"""Placeholders that instrumentations write in place of redacted content."""


def turns_of(value: Any, role: str) -> list[Turn]:
    """Read an attribute as a conversation; empty for one that is missing, redacted or no text."""
    if value is None or (isinstance(value, str) and value in _REDACTED):
        return []
    text = loaded(value) if isinstance(value, str) and value.startswith('"') else value
    return [] if isinstance(text, str) and is_shown_object(text) else read_turns(text, role)


class Values:
    """The attributes of one span by field; the first of its families' tables with a value has precedence.

    Args:
        attributes: The span's attributes.
        shape: The tables' entries for their names.
    """

    def __init__(self, attributes: Mapping[str, Any], shape: Shape) -> None:
        self.attributes = attributes
        self.shape = shape

    def first(self, *fields: Field) -> Any:
        """Read the first value of some fields; None for none."""
        for name in self.shape.present[fields]:
            value = self.attributes[name]
            if value is not None and value != "" and not (isinstance(value, str) and value in _REDACTED):
                return value
        return None

    def text(self, field: Field) -> str | None:
        """Read the first value of a field as text; None for none or an empty text."""
        value = self.first(field)
        return None if value is None else as_text(loaded(value)).strip() or None

    def turns(self, whole: Field, flat: Field, role: str) -> list[Turn]:
        """Read the first conversation, in one attribute or over several."""
        for name in self.shape.present[whole, flat]:
            found = turns_of(self.attributes.get(name), role)
            found = found or turns_of(unflatten(self.attributes, name), role)
            if found:
                return found
        return []
