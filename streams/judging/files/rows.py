"""An event's JSON from a row of a table. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

import orjson

_LABEL: Final = "labels."
_FIELD: Final = "fields."
_TEXTS: Final = frozenset(
    {"event_id", "question", "answer", "reference", "other_answer", "conversation_id", "trace_id", "span_id"}
)
_STRUCTURES: Final = frozenset({"context", "labels", "messages", "tool_calls", "fields"})


def event_of(row: Mapping[str | Any, Any]) -> bytes:
    """Make an event's JSON of a row.

    A column `labels.x` is the label x, `fields.x` the named text x. A cell that is empty, null or NaN is a
    field that is not there; a number where a text belongs is that text, an id of 7.0 is 7.
    """
    fields: dict[str, Any] = {}
    labels: dict[str, str] = {}
    texts: dict[str, str] = {}
    for column, cell in row.items():
        if not isinstance(column, str) or _is_missing(cell):
            continue
        if column.startswith(_LABEL):
            labels[column.removeprefix(_LABEL)] = _text(cell)
        elif column.startswith(_FIELD):
            texts[column.removeprefix(_FIELD)] = _text(cell)
        elif column in _STRUCTURES:
            fields[column] = _structure(column, cell)
        elif column in _TEXTS:
            fields[column] = _text(cell)
        elif column == "sampling_probability":
            fields[column] = _number(cell)
        else:
            fields[column] = cell
    for name, own in (("labels", labels), ("fields", texts)):
        given = fields.get(name)
        if own:
            fields[name] = {**given, **own} if isinstance(given, dict) else own
    return orjson.dumps(fields, default=str)


def _is_missing(cell: Any) -> bool:
    return cell is None or cell == "" or (isinstance(cell, float) and math.isnan(cell))


def _text(cell: Any) -> Any:
    """A scalar as a person would write it; what is none stays for the event's own checks."""
    if isinstance(cell, bool):
        return str(cell).lower()
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    return cell if isinstance(cell, str | list | dict | tuple) else str(cell)


def _number(cell: Any) -> Any:
    try:
        return float(cell)
    except (TypeError, ValueError):
        return cell


def _structure(column: str, cell: Any) -> Any:
    """JSON in a text, a struct, a list, or a map, which comes as a list of pairs."""
    if isinstance(cell, str):
        try:
            cell = orjson.loads(cell)
        except orjson.JSONDecodeError:
            return cell  # the event's own checks say what is wrong with it
    if isinstance(cell, list) and cell and all(isinstance(pair, tuple) for pair in cell):
        cell = dict(cell)
    if column in ("labels", "fields") and isinstance(cell, dict):
        return {name: _text(one) for name, one in cell.items() if not _is_missing(one)}
    return cell
