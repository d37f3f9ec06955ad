"""Turns a JSON of another shape into an event's fields, by JMESPath expressions compiled once."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Mapping
from typing import Any

import jmespath
from jmespath.exceptions import JMESPathError

from schemas import QAEvent
from schemas.base import MAX_LABEL_NAME_CHARS
from streams.errors import DecodeError, SettingsError

_LABEL = "labels."
_TEXTS = frozenset({"event_id"})
"""Fields whose numbers become text: ids are numbers in many a database."""


class Mapper:
    """The expressions of `ingest.mapping`.

    A field that no expression names is taken from the document under its own name. Expressions for `labels.<name>` add
    to those of `labels`, or to the document's own.

    Args:
        expressions: Event field, or `labels.<name>`, to JMESPath expression.

    Raises:
        SettingsError: A target is no event field or an expression is not JMESPath; all of them at once.
    """

    def __init__(self, expressions: Mapping[str, str]) -> None:
        problems = [problem for target in expressions if (problem := _target_problem(target)) is not None]
        self._fields: dict[str, tuple[str, Callable[[Any], Any]]] = {}
        self._labels: dict[str, tuple[str, Callable[[Any], Any]]] = {}
        for target, expression in expressions.items():
            try:
                search = jmespath.compile(expression).search
            except (JMESPathError, ValueError, RecursionError) as error:
                why = str(error).splitlines()[0] if str(error) else type(error).__name__
                problems.append(
                    f"ingest.mapping.{target}: is not JMESPath, {why} (got {expression!r}); mend the expression"
                )
                continue
            if target.startswith(_LABEL):
                self._labels[target.removeprefix(_LABEL)] = (expression, search)
            else:
                self._fields[target] = (expression, search)
        if problems:
            raise SettingsError(problems)

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
                    merged[name] = _search(f"{_LABEL}{name}", expression, search, document)
            found["labels"] = merged
        return found


def _search(target: str, expression: str, search: Callable[[Any], Any], document: dict[str, Any]) -> Any:
    try:
        return search(document)
    except Exception as error:  # noqa: BLE001 - whatever foreign data does to an expression, it is this event's fault
        why = " ".join(str(error).split())[:200] or type(error).__name__
        raise DecodeError(
            "undecodable",
            f"ingest.mapping.{target}: {expression[:200]!r} fails on this event, {why}; mend either",
        ) from None


def _text_of(name: str, value: Any) -> Any:
    return (
        str(value)
        if name in _TEXTS and isinstance(value, int | float) and not isinstance(value, bool)
        else value
    )


def _target_problem(target: str) -> str | None:
    if target in QAEvent.model_fields:
        return None
    if target.startswith(_LABEL):
        length = len(target) - len(_LABEL)
        if 1 <= length <= MAX_LABEL_NAME_CHARS:
            return None
        return f"ingest.mapping.{target}: the label's name must have 1 to {MAX_LABEL_NAME_CHARS} characters (got {length}); rename it"
    known = [*QAEvent.model_fields, "labels.<name>"]
    close = difflib.get_close_matches(target, known, n=1)
    remedy = f"did you mean {close[0]}?" if close else f"there are: {', '.join(known)}"
    return f"ingest.mapping.{target} is not a field of an event; {remedy}"
