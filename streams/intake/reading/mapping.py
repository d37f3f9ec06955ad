"""Map JSON of another shape to an event's fields, by JMESPath expressions compiled once."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import jmespath
import orjson

from streams.errors import DecodeError, SettingsError
from streams.settings.mapping import FIELD, LABEL, MAX_EXPRESSION_CHARS, mapping_problems

_TEXTS = frozenset({"event_id"})
"""Fields whose numbers become text: ids are numbers in many databases."""

_Compiled = tuple[str, Callable[[Any], Any]]


class Mapper:
    """The expressions of `ingest.mapping`.

    A field without an expression is taken from the document by its name. Expressions for `labels.<name>` and
    `fields.<name>` add to those of `labels` and `fields`, or to the document's own.

    Args:
        expressions: Event field, `labels.<name>` or `fields.<name>`, to JMESPath expression.

    Raises:
        SettingsError: Targets are not event fields or expressions are invalid; the error names all of them.
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
        """The event fields that have expressions."""
        return (
            *self._fields,
            *(("labels",) if self._labels else ()),
            *(("fields",) if self._texts else ()),
        )

    def apply(
        self, document: dict[str, Any], fields: Collection[str], labels: Collection[str] | None = None
    ) -> dict[str, Any]:
        """Return the event's fields.

        Args:
            document: The JSON object.
            fields: Fields to return.
            labels: Labels to return; None for all.

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
            # Labels of another shape than a mapping are replaced if there are expressions for labels.
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
        # Literals and expression references can produce values outside JSON, such as lone surrogates.
        orjson.dumps(found)
    except Exception as error:  # noqa: BLE001 - any failure of an expression concerns only this event
        why = " ".join(str(error).split())[:200] or type(error).__name__
        raise DecodeError(
            "undecodable",
            (
                f"ingest.mapping.{target}: {expression[:MAX_EXPRESSION_CHARS]!r} fails on this event, "
                f"{why}; correct the expression or the event"
            ),
        ) from None
    return found


def _written(value: Any) -> str | None:
    """Return a value as text: other values as JSON; None if there is none."""
    if value is None or isinstance(value, str):
        return value
    return orjson.dumps(value).decode()


def _text_of(name: str, value: Any) -> Any:
    return (
        str(value)
        if name in _TEXTS and isinstance(value, int | float) and not isinstance(value, bool)
        else value
    )
