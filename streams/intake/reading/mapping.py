"""Turns a JSON of another shape into an event's fields, by JMESPath expressions compiled once."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import jmespath
import orjson

from streams.errors import DecodeError, SettingsError
from streams.settings.mapping import FIELD, LABEL, MAX_EXPRESSION_CHARS, mapping_problems

_TEXTS = frozenset({"event_id"})
"""Fields whose numbers become text: ids are numbers in many database."""

_Compiled = tuple[str, Callable[[Any], Any]]


class Mapper:
    """The expressions of `ingest.mapping`.

    A field that no expression names is taken from the document under its own name. Expressions for
    `labels.<name>` and `fields.<name>` add to those of `labels` and `fields`, or to the document's own.

    Args:
        expressions: Event field, `labels.<name>` or `fields.<name>`, to JMESPath expression.

    Raises:
        SettingsError: A target is not an event field or an expression is not JMESPath; all of them at once.
    """

    def __init__(self, expressions: Mapping[str, str]) -> None:
        problems = mapping_problems(expressions)
        if problems:
            raise SettingsError([f"ingest.mapping.{target}: {what}" for target, what in problems])
        self._fields: dict[str, _Compiled] = {}
        self._labels: dict[str, _Compiled] = {}
        self._texts: dict[str, _Compiled] = {}
        for target, expression in expressions.items():
            compiled = (expression, jmespath.compile(expression).search)
            if target.startswith(LABEL):
                self._labels[target.removeprefix(LABEL)] = compiled
            elif target.startswith(FIELD):
                self._texts[target.removeprefix(FIELD)] = compiled
            else:
                self._fields[target] = compiled

    @property
    def targets(self) -> tuple[str, ...]:
        """The event's fields that an expression names."""
        return (
            *self._fields,
            *(("labels",) if self._labels else ()),
            *(("fields",) if self._texts else ()),
        )

    def apply(
        self, document: dict[str, Any], fields: Collection[str], labels: Collection[str] | None = None
    ) -> dict[str, Any]:
        """Give the event's fields.

        Args:
            document: The JSON object.
            fields: Fields that are wanted; the others are left out.
            labels: Labels that are wanted; None for all.

        Raises:
            DecodeError: An expression fails on this document.
        """
        found: dict[str, Any] = {}
        for name in fields:
            if name in self._fields:
                expression, search = self._fields[name]
                found[name] = _text_of(name, _search(name, expression, search, document))
            elif name in document:
                found[name] = document[name]
        if "labels" in fields and self._labels:
            base = found.get("labels")
            # A document's own `labels` of another shape are replaced once there are expressions for labels.
            merged = dict(base) if isinstance(base, dict) else {}
            for name, (expression, search) in self._labels.items():
                if labels is None or name in labels:
                    merged[name] = _search(f"{LABEL}{name}", expression, search, document)
            found["labels"] = merged
        if "fields" in fields and self._texts:
            base = found.get("fields")
            texts = dict(base) if isinstance(base, dict) else {}
            for name, (expression, search) in self._texts.items():
                text = _written(_search(f"{FIELD}{name}", expression, search, document))
                if text is not None:
                    texts[name] = text
            found["fields"] = texts
        return found


def _search(target: str, expression: str, search: Callable[[Any], Any], document: dict[str, Any]) -> Any:
    try:
        found = search(document)
        # Literals and expression references can make what JSON cannot carry: lone surrogates, odd objects.
        orjson.dumps(found)
    except Exception as error:  # noqa: BLE001 - whatever foreign data does to an expression, it is this event's fault
        why = " ".join(str(error).split())[:200] or type(error).__name__
        raise DecodeError(
            "undecodable",
            (
                f"ingest.mapping.{target}: {expression[:MAX_EXPRESSION_CHARS]!r} fails on this event, "
                f"{why}; correct one of them"
            ),
        ) from None
    return found


def _written(value: Any) -> str | None:
    """A value as a text: JSON where it is none; None where there is nothing."""
    if value is None or isinstance(value, str):
        return value
    return orjson.dumps(value).decode()


def _text_of(name: str, value: Any) -> Any:
    return (
        str(value)
        if name in _TEXTS and isinstance(value, int | float) and not isinstance(value, bool)
        else value
    )
