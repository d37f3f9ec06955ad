"""Data of charts: means over time and by label, distributions of scores, daily costs.

Every number is the weighted one of `streams.monitoring.statistics.estimators`, from the same six sums.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import orjson

from streams.monitoring.statistics.estimators import WeightedSums
from streams.store.filters import ANY, Filter, conditions, label_sets, selected
from streams.store.reader import Asking
from streams.store.schema import ALL_PARTS, DAY_MS, HOUR_MS, PART_KIND, STATUSES
from streams.store.words import matching

FINE_MS: Final = 6 * HOUR_MS
"""Longest time shown in steps of less than an hour, from single verdicts."""
FINE_STEPS: Final = 72
HOURS_MS: Final = 4 * DAY_MS
"""Longest time shown in steps of an hour."""
DAYS_MS: Final = 150 * DAY_MS
MAX_POINTS: Final = 400

_SCORED: Final = STATUSES.index("scored")
_SUMS: Final = (
    "sum(count) AS n, sum(count / probability) AS w, sum(count * score / probability) AS wx, "
    "sum(count * score * score / probability) AS wxx, sum(count / probability / probability) AS ww, "
    "sum(count * score / probability / probability) AS wwx, "
    "sum(count * score * score / probability / probability) AS wwxx"
)
_COLUMNS: Final = "metric, evaluator, labels, status, score, probability, corrected, suspected"


@dataclass(frozen=True, slots=True)
class Point:
    """A step of time of one metric by one evaluator.

    Attributes:
        metric: The metric.
        evaluator: The evaluator's id, a key of `evaluators`.
        at: Its start, in milliseconds since 1970.
        sums: The sums of its scores.
    """

    metric: str
    evaluator: int
    at: int
    sums: WeightedSums


def extent(asking: Asking) -> tuple[int, int] | None:
    """Return the times of the first and last answer of the live stream; None without any."""
    # As separate queries, each is one index lookup; together they scan the index.
    row = asking.row(
        "SELECT (SELECT min(at) FROM verdicts WHERE replay = 0), "
        "(SELECT max(at) FROM verdicts WHERE replay = 0)"
    )
    return None if row is None or row[0] is None else (int(row[0]), int(row[1]))


def step_of(since: int, until: int) -> int:
    """Return the length of a chart's steps, in milliseconds."""
    length = max(until - since, 1)
    if length <= FINE_MS:
        return max(1000, -(-length // FINE_STEPS // 1000) * 1000)
    if length <= HOURS_MS:
        return HOUR_MS
    return DAY_MS if length <= DAYS_MS else 7 * DAY_MS


def series(asking: Asking, wanted: Filter, *, since: int, until: int, step: int) -> list[Point]:
    """Return the sums over time, by metric and evaluator, oldest first.

    Args:
        asking: The store.
        wanted: The filter; without a status, scored verdicts only.
        since: Start of the chart.
        until: Its end.
        step: Length of a step, from `step_of`.
    """
    source, parameters = _source(asking, replace(wanted.within(since, until), status="scored"), step)
    rows = asking.rows(
        f"SELECT metric, evaluator, at - at % ? AS begin, {_SUMS} FROM ({source}) "
        "GROUP BY metric, evaluator, begin ORDER BY begin LIMIT ?",
        (step, *parameters, MAX_POINTS * 20),
    )
    names = _names(asking, "metric")
    return [Point(names[row["metric"]], row["evaluator"], row["begin"], _sums(row)) for row in rows]


def distribution(asking: Asking, wanted: Filter) -> dict[str, dict[str, Any]]:
    """Count verdicts by metric: `scores` (with `share`, the weighted one) and `statuses`."""
    source, parameters = _source(asking, replace(wanted, status=None), None)
    rows = asking.rows(
        "SELECT metric, status, score, sum(count) AS n, sum(count / probability) AS w "
        f"FROM ({source}) GROUP BY metric, status, score",
        parameters,
    )
    names = _names(asking, "metric")
    found: dict[str, dict[str, Any]] = {}
    for row in rows:
        one = found.setdefault(names[row["metric"]], {"scores": {}, "weights": {}, "statuses": {}})
        status = STATUSES[row["status"]]
        one["statuses"][status] = one["statuses"].get(status, 0) + row["n"]
        if row["status"] == _SCORED:
            one["scores"][row["score"]] = row["n"]
            one["weights"][row["score"]] = row["w"]
    return dict(sorted(found.items()))


def by_label(asking: Asking, wanted: Filter) -> dict[tuple[str, str, str], WeightedSums]:
    """Return the sums by metric, label and value."""
    source, parameters = _source(asking, replace(wanted, status="scored"), None, by_label=True)
    rows = asking.rows(
        f"SELECT metric, labels, {_SUMS} FROM ({source}) GROUP BY metric, labels",
        parameters,
    )
    names = _names(asking, "metric")
    sets = labels_of(asking, {row["labels"] for row in rows if row["labels"] > 0})
    # A negative number means a part instead of a set.
    sets |= {-number: {name: value} for (name, value), number in _parts(asking).items()}
    parts: dict[tuple[str, str, str], list[WeightedSums]] = {}
    for row in rows:
        sums = _sums(row)
        for name, value in sets[row["labels"]].items():
            parts.setdefault((names[row["metric"]], name, value), []).append(sums)
    return {key: WeightedSums.merged(some) for key, some in parts.items()}


def daily_cost(asking: Asking, wanted: Filter) -> list[tuple[int, float, int]]:
    """Return the cost of judging by day (UTC): start, US dollars, verdicts."""
    source, parameters = _source(asking, wanted, DAY_MS)
    rows = asking.rows(
        f"SELECT at - at % {DAY_MS} AS day, sum(cost) AS cost, sum(count) AS n FROM ({source}) "
        "GROUP BY day ORDER BY day DESC LIMIT ?",
        (*parameters, MAX_POINTS),
    )
    return [(row["day"], row["cost"] or 0.0, row["n"]) for row in reversed(rows)]


def count(asking: Asking, wanted: Filter) -> int:
    """Count verdicts."""
    source, parameters = _source(asking, wanted, None)
    row = asking.row(f"SELECT coalesce(sum(count), 0) FROM ({source})", parameters)
    return 0 if row is None else int(row[0])


def evaluators(asking: Asking) -> dict[int, tuple[str, str]]:
    """Return fingerprint and model of every evaluator by id."""
    return {row[0]: (row[1], row[2]) for row in asking.rows("SELECT id, fingerprint, model FROM evaluators")}


def labels_of(asking: Asking, sets: Iterable[int]) -> dict[int, dict[str, str]]:
    """Return the labels of some sets."""
    found = {}
    for number in sets:
        row = asking.row("SELECT labels FROM label_sets WHERE id = ?", (number,))
        found[number] = {} if row is None else orjson.loads(row[0])
    return found


def choices(asking: Asking) -> Mapping[str, Any]:
    """Return the filters' choices: metrics, kinds of corrections and suspicions, evaluators, labels."""
    kinds: dict[int, list[str]] = {0: [], 1: []}
    for row in asking.rows(
        "SELECT DISTINCT sort, name FROM marks JOIN names ON names.id = marks.kind ORDER BY name"
    ):
        kinds[row[0]].append(row[1])
    labels: dict[str, list[str]] = {}
    for row in asking.rows(
        "SELECT DISTINCT name, value FROM label_values JOIN label_sets ON id = set_id WHERE id = "
        "grouped ORDER BY name, value"
    ):
        labels.setdefault(row[0], []).append(row[1])
    return {
        "metrics": sorted(_names(asking, "metric").values()),
        "corrections": kinds[0],
        "suspicions": kinds[1],
        "labels": labels,
        "evaluators": [
            {"fingerprint": row[0], "model": row[1], "metric": row[2]}
            for row in asking.rows(
                "SELECT fingerprint, model, name FROM evaluators JOIN names ON names.id = metric "
                "ORDER BY first_at DESC"
            )
        ],
    }


def _names(asking: Asking, kind: str) -> dict[int, str]:
    return {row[0]: row[1] for row in asking.rows("SELECT id, name FROM names WHERE kind = ?", (kind,))}


def _sums(row: Any) -> WeightedSums:
    return WeightedSums(
        count=row["n"],
        weight=row["w"],
        weighted=row["wx"],
        weighted_square=row["wxx"],
        weight_square=row["ww"],
        weight_square_score=row["wwx"],
        weight_square_score_square=row["wwxx"],
    )


def _source(
    asking: Asking, wanted: Filter, step: int | None, *, by_label: bool = False
) -> tuple[str, list[Any]]:
    """Return the fastest query for groups of equal verdicts: `at`, the columns, `count` and `cost`.

    Args:
        asking: The store.
        wanted: The filter.
        step: Length of the steps by which the rows are summed afterwards; None: all
        together.
        by_label: Whether the rows are grouped by labels afterwards.
    """
    if not wanted.summed or (step is not None and step < HOUR_MS):
        return _single(asking, wanted)
    known = _parts(asking)
    if any(pair not in known for pair in wanted.labels):
        return _single(asking, wanted)  # labels with too many values have no sums
    cells = _which_cells(wanted, known, by_label=by_label)
    ends = extent(asking)
    if ends is None:
        return _single(asking, wanted)
    since = ends[0] if wanted.since is None else max(wanted.since, ends[0])
    until = ends[1] + 1 if wanted.until is None else min(wanted.until, ends[1] + 1)
    # Whole days from daily sums, the hours at both ends from hourly sums, and the rest from single verdicts.
    # The first and last hours of the store count as whole.
    first_hour = since - since % HOUR_MS if since == ends[0] else -(-since // HOUR_MS) * HOUR_MS
    end_hour = -(-until // HOUR_MS) * HOUR_MS if until > ends[1] else until - until % HOUR_MS
    if first_hour >= end_hour:
        return _single(asking, wanted)
    days = step is None or step % DAY_MS == 0
    first_day = first_hour - first_hour % DAY_MS if since == ends[0] else -(-first_hour // DAY_MS) * DAY_MS
    end_day = -(-end_hour // DAY_MS) * DAY_MS if until > ends[1] else end_hour - end_hour % DAY_MS
    parts = [cells(HOUR_MS, first_hour, end_hour)]
    if days and first_day < end_day:
        parts = [
            cells(HOUR_MS, first_hour, first_day),
            cells(DAY_MS, first_day, end_day),
            cells(HOUR_MS, end_day, end_hour),
        ]
    if since < first_hour:
        parts.append(_single(asking, wanted.within(since, first_hour)))
    if end_hour < until:
        parts.append(_single(asking, wanted.within(end_hour, until)))
    return " UNION ALL ".join(sql for sql, _ in parts), [value for _, values in parts for value in values]


def _parts(asking: Asking) -> dict[tuple[str, str], int]:
    """Return the parts with sums, by label and value."""
    rows = asking.rows("SELECT kind, name, id FROM names WHERE kind GLOB ?", (f"{PART_KIND}*",))
    return {(row[0].removeprefix(PART_KIND), row[1]): row[2] for row in rows}


def _which_cells(
    wanted: Filter, known: Mapping[tuple[str, str], int], *, by_label: bool
) -> Callable[[int, int, int], tuple[str, list[Any]]]:
    """Choose the smallest sufficient cells: of the whole traffic, of a part, of each part, or of sets.

    Returns:
        A function that returns the query of a grain between two times.
    """
    where, parameters = conditions(replace(wanted, since=None, until=None))
    where, parameters = where[1:], parameters[1:]  # replays have no sums
    table, labels = "part_cells", "-part AS labels"
    if len(wanted.labels) > 1 or (by_label and wanted.labels):
        table, labels = "cells", "labels"
        named, values = label_sets(wanted)
    elif by_label:
        named, values = ["part IN (SELECT value FROM json_each(?))"], [str(list(known.values()))]
    else:
        named, values = ["part = ?"], [known[wanted.labels[0]] if wanted.labels else ALL_PARTS]

    def query(grain: int, since: int, until: int) -> tuple[str, list[Any]]:
        all_of = ["grain = ?", *named, "bucket >= ?", "bucket < ?", *where]
        columns = _COLUMNS.replace("labels", labels)
        return (
            f"SELECT bucket AS at, {columns}, count, cost FROM {table} WHERE {' AND '.join(all_of)}",
            [grain, *values, since, until, *parameters],
        )

    return query


def _single(asking: Asking, wanted: Filter) -> tuple[str, list[Any]]:
    where, parameters = selected(wanted, matching(asking, wanted.words))
    return f"SELECT at, {_COLUMNS}, 1 AS count, cost FROM verdicts WHERE {where}", parameters


__all__ = [
    "ANY", "Point", "by_label", "choices", "count", "daily_cost", "distribution", "evaluators", "extent",
    "labels_of",
    "series", "step_of",
]  # fmt: skip
