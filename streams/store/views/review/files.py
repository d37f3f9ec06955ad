"""Imports and exports labels: CSV with a header, or one JSON object per line."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from pydantic import ValidationError

from judge.rows import as_cell
from schemas import Label, Selection
from streams.errors import BadFilterError
from streams.store import verdicts
from streams.store.packing import unpacked
from streams.store.reader import Asking
from streams.store.views.review.said import Scales, label_of, read_said

COLUMNS: Final = (
    "label_id", "result_id", "event_id", "metric", "score", "judge_score", "note", "who", "labelled_at",
    "selection",
    "probability", "fingerprint", "kind",
)  # fmt: skip
_UNKNOWN: Final = Scales()


def read_labels(data: bytes, asking: Asking, *, who: str, scales: Scales = _UNKNOWN) -> list[Label]:
    """Read labels; each must be of a verdict in the store.

    Args:
        data: The file.
        asking: The store.
        who: The labeller of lines that name none.
        scales: The scales of the settings' metrics.

    Raises:
        BadFilterError: A line is invalid; the message has its number and the problem.
    """
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadFilterError(f"it must be UTF-8 text ({error})") from error
    return [_label(number, row, asking, who, scales) for number, row in _rows(text)]


def _rows(text: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    if not text.lstrip().startswith("{"):
        yield from enumerate(csv.DictReader(io.StringIO(text)), start=2)
        return
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError as error:
            raise BadFilterError(f"line {number} is not JSON ({error})") from error
        if not isinstance(row, dict):
            raise BadFilterError(f"line {number} must be a JSON object")
        yield number, row


def _label(number: int, row: Mapping[str, Any], asking: Asking, who: str, scales: Scales) -> Label:
    found = _verdict(number, row, asking)
    named = str(row.get("who") or who)
    # The default time is the verdict's, so that importing twice adds nothing.
    moment = str(row.get("labelled_at") or found["result"]["times"]["judged_at"])
    try:
        at = datetime.fromisoformat(moment)
        return label_of(
            found,
            read_said(found, row.get("score"), scales),
            who=named,
            moment=moment,
            at=at if at.tzinfo is not None else at.replace(tzinfo=UTC),
            note=str(row.get("note") or ""),
            selection=Selection(kind="import"),
        )
    except (ValueError, ValidationError) as error:
        raise BadFilterError(f"line {number} cannot be used: {str(error).splitlines()[0]}") from error


def _verdict(number: int, row: Mapping[str, Any], asking: Asking) -> dict[str, Any]:
    given = row.get("result_id")
    if given:
        found = verdicts.one(asking, str(given))
    else:
        known = verdicts.of_event(asking, str(row.get("event_id") or ""))
        fitting = [
            one for one in known if one["metric"] == row.get("metric") and one["result"]["replay_id"] is None
        ]
        found = fitting[0] if fitting else None
    if found is None:
        raise BadFilterError(
            f"line {number}: the store has no verdict with this result_id, or event_id and metric; "
            "is it older than store.keep_days?"
        )
    return found


def all_labels(asking: Asking) -> Iterator[dict[str, Any]]:
    """Return all labels in the topic's form, oldest first."""
    return (unpacked(row[0]) for row in asking.each("SELECT body FROM labels ORDER BY at"))


def label_lines(asking: Asking, form: str) -> Iterator[str]:
    """Yield all labels, oldest first, as lines with line ends.

    Args:
        asking: The store.
        form: "csv" or "jsonl".
    """
    if form == "csv":
        yield ",".join(COLUMNS) + "\r\n"
    for label in all_labels(asking):
        values = label | {
            "score": _shown(label, ""),
            "judge_score": _shown(label, "judge_"),
            "kind": label.get("kind", "integer"),
            "selection": label["selection"]["kind"],
            "probability": label["selection"]["probability"],
        }
        if form == "jsonl":
            yield json.dumps({name: values[name] for name in COLUMNS}, ensure_ascii=False) + "\n"
            continue
        line = io.StringIO()
        csv.writer(line).writerow([as_cell(values[name]) for name in COLUMNS])
        yield line.getvalue()


def _shown(label: Mapping[str, Any], who: str) -> Any:
    """Return the label's value as `labels import` reads it: a label, true or false, or a number."""
    value = label.get(f"{who}value")
    return label[f"{who}score"] if value is None else value
