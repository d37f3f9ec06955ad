"""The values that a span carries under the names of its families. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from streams.intake.reading.otlp.content.conversation import read_turns
from streams.intake.reading.otlp.content.flattened import unflatten
from streams.intake.reading.otlp.content.json_text import as_text, loaded
from streams.intake.reading.otlp.content.turn import Turn
from streams.intake.reading.otlp.families.family import Family

_REDACTED: Final = frozenset({"__REDACTED__", "[REDACTED]", "<redacted>", "[Scrubbed]"})
"""What instrumentations write in place of content that they may not record."""


def turns_of(value: Any, role: str) -> list[Turn]:
    """Read an attribute as a conversation; empty for one that is missing or redacted."""
    if value is None or (isinstance(value, str) and value in _REDACTED):
        return []
    return read_turns(value, role)


class Values:
    """The attributes of one span, asked by its families' tables: the first that knows a field is believed.

    Args:
        attributes: The span's attributes.
        families: Its tables, in order of precedence.
    """

    def __init__(self, attributes: Mapping[str, Any], families: tuple[Family, ...]) -> None:
        self.attributes = attributes
        self.families = families

    def first(self, names: Callable[[Family], Iterable[str]]) -> Any:
        """Give the first value under the names that the tables have for a field; None for none."""
        for family in self.families:
            for name in names(family):
                value = self.attributes.get(name)
                if value is not None and value != "" and not (isinstance(value, str) and value in _REDACTED):
                    return value
        return None

    def text(self, names: Callable[[Family], Iterable[str]]) -> str | None:
        """Give the same as text; None for none or an empty one."""
        value = loaded(self.first(names))
        return None if value is None else as_text(value).strip() or None

    def turns(
        self, whole: Callable[[Family], Iterable[str]], flat: Callable[[Family], Iterable[str]], role: str
    ) -> list[Turn]:
        """Read the first conversation, in one attribute or spread over many."""
        for family in self.families:
            for name in whole(family):
                found = turns_of(self.attributes.get(name), role)
                if found:
                    return found
            for prefix in flat(family):
                found = turns_of(unflatten(self.attributes, prefix), role)
                if found:
                    return found
        return []
