"""Convert table rows to fields of events, and values to cells. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

import orjson

_NAMED: Final = ("labels.", "fields.")
_TEXTS: Final = frozenset(
    {"event_id", "question", "answer", "reference", "other_answer", "conversation_id", "trace_id", "span_id"}
)
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")
_MAY_BE_BLANK: Final = frozenset({"question", "answer"})
_STRUCTURES: Final = frozenset({"context", "labels", "messages", "tool_calls", "fields"})


def fields_of(row: Mapping[Any, Any]) -> dict[str, Any]:
    """Return an event's fields; a column `labels.x` is the label x, `fields.x` the named text x.

    Null, NaN and empty cells (but of question and answer) are missing; numbers in texts become text, 7.0 "7".
    """
    fields: dict[str, Any] = {}
    for column, given in row.items():
        cell = given.tolist() if hasattr(given, "tolist") else given  # NumPy's
        if not isinstance(column, str) or _is_missing(cell) or (cell == "" and column not in _MAY_BE_BLANK):
            continue
        if column in _STRUCTURES:
            cell = _structure(column, cell)
        elif column in _TEXTS or column.startswith(_NAMED):
            cell = _text(cell)
        elif column == "sampling_probability":
            with suppress(TypeError, ValueError):
                cell = float(cell)
        fields[column] = cell
    for column in [name for name in fields if name.startswith(_NAMED)]:
        field, _, name = column.partition(".")
        known = fields.get(field)
        fields[field] = {**(known if isinstance(known, dict) else {}), name: fields.pop(column)}
    return fields


def _is_missing(cell: Any) -> bool:
    """Also pandas' NA and NaT."""
    is_nan = isinstance(cell, float) and math.isnan(cell)
    return cell is None or is_nan or type(cell).__name__ in {"NAType", "NaTType"}


def _text(cell: Any) -> Any:
    if isinstance(cell, bool):
        return str(cell).lower()
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    return cell if isinstance(cell, str | list | dict | tuple) else str(cell)


def _structure(column: str, cell: Any) -> Any:
    """Read a structure from JSON text, a struct, a list, or a map (a list of pairs)."""
    if isinstance(cell, str):
        try:
            cell = orjson.loads(cell)
        except orjson.JSONDecodeError:
            return cell  # the event's validation reports the problem
    if isinstance(cell, list) and cell and all(isinstance(pair, tuple) for pair in cell):
        cell = dict(cell)
    if column in ("labels", "fields") and isinstance(cell, dict):
        return {name: _text(one) for name, one in cell.items() if not _is_missing(one)}
    return cell


def as_cell(value: Any) -> Any:
    """Return a value for a spreadsheet; an apostrophe keeps it from being read as a formula."""
    if isinstance(value, bool):
        return str(value).lower()
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value
