"""Single verdicts from the store: pages in an order, and one verdict with all its data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import orjson
from pydantic import ValidationError

from judge.text.printable import reason_of
from schemas import RESULT
from streams.store import sums
from streams.store.filters import Filter, selected
from streams.store.packing import unpacked
from streams.store.reader import Asking
from streams.store.schema import STATUSES
from streams.store.words import matching

ORDERS: Final[dict[str, str]] = {
    "worst": "score ASC, at DESC",
    "best": "score DESC, at ASC",
    "newest": "at DESC",
    "costly": "cost DESC, at DESC",
}
MAX_PAGE: Final = 200
MAX_SKIPPED: Final = 10_000
REASON_CHARS: Final = 260
FEW: Final = 20_000
"""Maximum verdicts to sort; for more, an index in the requested order is used."""

_FIELDS: Final = (
    "v.id, hex(v.result_id) AS result_id, v.event_id, m.name AS metric, v.evaluator, v.labels, v.status, "
    "v.score, v.at, "
    "v.judged, v.probability, v.cost, v.corrected, v.suspected, v.partition, v.offset"
)
_JOINED: Final = "verdicts v JOIN names m ON m.id = v.metric"


@dataclass(frozen=True, slots=True)
class Page:
    """A page of verdicts.

    Attributes:
        rows: Plain values, one mapping per verdict.
        count: Total number of verdicts.
        more: Whether there is a next page.
    """

    rows: list[dict[str, Any]]
    count: int
    more: bool


def page(asking: Asking, wanted: Filter, *, order: str, limit: int, skip: int = 0) -> Page:
    """Return a page of verdicts.

    Args:
        asking: The store.
        wanted: The filter.
        order: A key of `ORDERS`. "worst" and "best" contain scored verdicts only.
        limit: Maximum rows, up to `MAX_PAGE`.
        skip: Rows to skip, up to `MAX_SKIPPED`.
    """
    number = sums.count(asking, wanted)
    limit, skip = min(limit, MAX_PAGE), min(skip, MAX_SKIPPED)
    numbers = [] if number == 0 else _ids(asking, wanted, order, number, limit + 1, skip)
    rows = [_row(asking, one) for one in _fetch(asking, numbers[:limit])]
    return Page(rows, number, len(numbers) > limit)


def _ids(asking: Asking, wanted: Filter, order: str, number: int, limit: int, skip: int) -> list[int]:
    if order in {"worst", "best"} and wanted.status is None:
        wanted = replace(wanted, status="scored")
    where, parameters = selected(
        wanted, matching(asking, wanted.words), ordered=number > FEW and order != "costly"
    )
    rows = asking.rows(
        f"SELECT id FROM verdicts WHERE {where} ORDER BY {ORDERS[order]} LIMIT ? OFFSET ?",
        (*parameters, limit, skip),
    )
    return [row[0] for row in rows]


def _fetch(asking: Asking, numbers: list[int]) -> list[Any]:
    found = {
        row["id"]: row
        for row in asking.rows(
            f"SELECT {_FIELDS}, b.body FROM {_JOINED} JOIN bodies b ON b.id = v.id "
            "WHERE v.id IN (SELECT value FROM json_each(?))",
            (orjson.dumps(numbers).decode(),),
        )
    }
    return [found[number] for number in numbers if number in found]


def rows_of(asking: Asking, numbers: list[int]) -> list[dict[str, Any]]:
    """Return verdicts by ids of the store, in this order, each as in `page`."""
    return [_row(asking, one) for one in _fetch(asking, numbers)]


def _row(asking: Asking, row: Any) -> dict[str, Any]:
    result = unpacked(row["body"])
    return {
        "result_id": row["result_id"].lower(),
        "event_id": row["event_id"],
        "metric": row["metric"],
        "status": STATUSES[row["status"]],
        "score": row["score"],
        "value": result.get("value"),
        "at": row["at"],
        "labels": sums.labels_of(asking, [row["labels"]])[row["labels"]],
        "probability": row["probability"],
        "cost_usd": row["cost"],
        "corrected": row["corrected"],
        "suspected": row["suspected"],
        "reason": _reason(result),
        "result": result,
    }


def _reason(result: Mapping[str, Any]) -> str:
    try:
        return reason_of(RESULT.validate_python(result), REASON_CHARS)
    except ValidationError:  # results of another version
        return ""


def one(asking: Asking, result_id: str) -> dict[str, Any] | None:
    """Return a verdict with its record (`result`), texts (`texts`, None if not kept), labels and position.

    Args:
        asking: The store.
        result_id: 32 hexadecimal digits.
    """
    try:
        key = bytes.fromhex(result_id)
    except ValueError:
        return None
    row = asking.row(
        f"SELECT {_FIELDS}, b.body FROM {_JOINED} JOIN bodies b ON b.id = v.id WHERE v.result_id = ?",
        (key,),
    )
    if row is None:
        return None
    texts = asking.row("SELECT body FROM texts JOIN text_bodies USING (id) WHERE result_id = ?", (key,))
    labels = asking.rows("SELECT body FROM labels WHERE result_id = ? ORDER BY at", (key,))
    return _row(asking, row) | {
        "texts": None if texts is None else unpacked(texts[0]),
        "people": [unpacked(label[0]) for label in labels],
        "record": {"partition": row["partition"], "offset": row["offset"]},
    }


def of_event(asking: Asking, event_id: str) -> list[dict[str, Any]]:
    """Return all verdicts of an event, including replays, oldest first, each as in `one`."""
    rows = asking.rows(
        "SELECT hex(result_id) FROM verdicts WHERE event_id = ? ORDER BY judged LIMIT ?", (event_id, MAX_PAGE)
    )
    found = (one(asking, row[0].lower()) for row in rows)
    return [verdict for verdict in found if verdict is not None]


def every(asking: Asking, wanted: Filter) -> Iterator[dict[str, Any]]:
    """Iterate over all verdicts, oldest first, as in `page`, with `people`: each person's latest label."""
    where, parameters = selected(wanted, matching(asking, wanted.words))
    for row in asking.each(
        f"SELECT {_FIELDS}, b.body, (SELECT count(*) FROM labels l WHERE l.result_id = v.result_id) AS "
        "people "
        f"FROM (SELECT * FROM verdicts WHERE {where}) v JOIN names m ON m.id = v.metric JOIN bodies b ON "
        "b.id = v.id "
        "ORDER BY v.at",
        parameters,
    ):
        made = _row(asking, row)
        made["people"] = labels(asking, made["result_id"]) if row["people"] else []
        yield made


def labels(asking: Asking, result_id: str) -> list[dict[str, Any]]:
    """Return each person's latest label of a verdict."""
    rows = asking.rows(
        "SELECT who, body FROM labels WHERE result_id = ? ORDER BY at", (bytes.fromhex(result_id),)
    )
    return list({row[0]: unpacked(row[1]) for row in rows}.values())


def scores_since(asking: Asking, moment: int, *, limit: int) -> list[tuple[int, str, str, int, float]]:
    """Return live scores since a time in order of judging, or none if there are too many.

    Args:
        asking: The store.
        moment: The time, in milliseconds since 1970.
        limit: Maximum number.

    Returns:
        Time of judging, metric, fingerprint, score and inclusion probability of each.
    """
    rows = asking.rows(
        "SELECT v.judged, m.name, e.fingerprint, v.score, v.probability FROM verdicts v JOIN names m ON "
        "m.id = v.metric "
        "JOIN evaluators e ON e.id = v.evaluator WHERE v.replay = 0 AND v.at >= ? AND v.status = 0 LIMIT ?",
        (moment, limit + 1),
    )
    return [] if len(rows) > limit else sorted(tuple(row) for row in rows)


def stretch(asking: Asking, metric: str, *, since: int, until: int, limit: int, latest: bool) -> list[Any]:
    """Return a metric's scores within a time range, with their labels as JSON in `label_text`.

    Args:
        asking: The store.
        metric: The metric.
        since: Start, in milliseconds since 1970.
        until: End.
        limit: Maximum number.
        latest: Whether the latest come first, else the oldest.
    """
    return asking.rows(
        "SELECT v.id, v.at, v.score, v.probability, v.labels, s.labels AS label_text, e.fingerprint FROM "
        "verdicts v "
        "JOIN evaluators e ON e.id = v.evaluator JOIN label_sets s ON s.id = v.labels WHERE v.replay = 0 "
        "AND +v.status = 0 "
        "AND +v.metric = (SELECT id FROM names WHERE kind = 'metric' AND name = ?) AND v.at >= ? AND v.at "
        "< ? "
        f"ORDER BY v.at {'DESC' if latest else 'ASC'} LIMIT ?",
        (metric, since, until, limit),
    )
