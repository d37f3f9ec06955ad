"""Turns a JSON of another shape into an event's fields, by JMESPath expressions compiled once."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import jmespath
import orjson
from jmespath.exceptions import JMESPathError

from schemas import QAEvent
from schemas.base import MAX_LABEL_NAME_CHARS
from streams.errors import DecodeError, SettingsError
from streams.settings.problems import suggest

MAX_EXPRESSION_CHARS = 200
"""How much of an expression a message shows."""

_LABEL = "labels."
_TEXTS = frozenset({"event_id"})
"""Fields whose numbers become text: ids are numbers in many a database."""

_Compiled = tuple[str, Callable[[Any], Any]]


def mapping_problems(expressions: Mapping[str, str]) -> list[tuple[str, str]]:
    """Find what is wrong with a mapping: pairs of a target and what to say about it.

    Args:
        expressions: Event field, or `labels.<name>`, to JMESPath expression.
    """
    problems = []
    for target, expression in expressions.items():
        what = _target_problem(target)
        if what is not None:
            problems.append((target, what))
        try:
            jmespath.compile(expression)
        except (JMESPathError, ValueError, RecursionError) as error:
            why = str(error).splitlines()[0] if str(error) else type(error).__name__
            shown = expression[:MAX_EXPRESSION_CHARS]
            problems.append((target, f"is not JMESPath, {why} (got {shown!r}); mend the expression"))
    return problems


class Mapper:
    """The expressions of `ingest.mapping`.

    A field that no expression names is taken from the document under its own name. Expressions for
    `labels.<name>` add to those of `labels`, or to the document's own.

    Args:
        expressions: Event field, or `labels.<name>`, to JMESPath expression.

    Raises:
        SettingsError: A target is no event field or an expression is not JMESPath; all of them at once.
    """

    def __init__(self, expressions: Mapping[str, str]) -> None:
        problems = mapping_problems(expressions)
        if problems:
            raise SettingsError([f"ingest.mapping.{target}: {what}" for target, what in problems])
        self._fields: dict[str, _Compiled] = {}
        self._labels: dict[str, _Compiled] = {}
        for target, expression in expressions.items():
            compiled = (expression, jmespath.compile(expression).search)
            if target.startswith(_LABEL):
                self._labels[target.removeprefix(_LABEL)] = compiled
            else:
                self._fields[target] = compiled

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
        found = search(document)
        # Literals and expression references can make what JSON cannot carry: lone surrogates, odd objects.
        orjson.dumps(found)
    except Exception as error:  # noqa: BLE001 - whatever foreign data does to an expression, it is this event's fault
        why = " ".join(str(error).split())[:200] or type(error).__name__
        raise DecodeError(
            "undecodable",
            f"ingest.mapping.{target}: {expression[:MAX_EXPRESSION_CHARS]!r} fails on this event, {why}; mend either",
        ) from None
    return found


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
        return f"a label's name must have 1 to {MAX_LABEL_NAME_CHARS} characters (got {length}); rename it"
    return f"is not a field of an event; {suggest(target, [*QAEvent.model_fields, 'labels.<name>'])}"
