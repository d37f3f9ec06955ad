"""Data of charts: means over time and by label, distributions of scores, daily costs, from one pass.

Every number is the weighted one of `streams.monitoring.statistics.estimators`, from the same six sums.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import orjson

from streams.store.database import Snapshot
from streams.store.query import Filter, conditions
from streams.store.records import DAY_MS

HOUR_MS: Final = 3_600_000
FINE_MS: Final = 6 * HOUR_MS
"""Longest time shown in steps of less than an hour."""
FINE_STEPS: Final = 72
HOURS_MS: Final = 4 * DAY_MS
"""Longest time shown in steps of an hour."""
DAYS_MS: Final = 150 * DAY_MS
MAX_DAYS: Final = 400
MAX_CHANGES: Final = 20
"""Limit of new values that are marked."""

Scores = Counter[tuple[float, float]]
"""Number of answers by score and inclusion probability."""


@dataclass(frozen=True, slots=True)
class ResultSeries:
    """What results have in common: metric, evaluator and charted labels."""

    metric: str
    fingerprint: str
    model: str
    labels: Mapping[str, str]


@dataclass(slots=True)
class Charts:
    """The sums of a filter's verdicts."""

    lines: dict[tuple[str, str, str], dict[int, Scores]] = field(default_factory=dict)
    """By metric, fingerprint and model, then by time."""
    labels: dict[tuple[str, str, str], Scores] = field(default_factory=dict)
    scores: dict[str, Scores] = field(default_factory=dict)
    statuses: dict[str, Counter[str]] = field(default_factory=dict)
    firsts: dict[tuple[str, str], int] = field(default_factory=dict)
    """Time of the first answer with each label and value."""
    costs: dict[int, tuple[float, int]] = field(default_factory=dict)
    """By day, in milliseconds since 1970: US dollars and number of verdicts."""


def extent(snapshot: Snapshot) -> tuple[int, int] | None:
    """Return the times of the first and last answer of the live stream; None without any."""
    # As separate queries, each is one index lookup; together they scan the index.
    first, last = (
        snapshot.row(f"SELECT {end}(at) FROM results INDEXED BY results_time WHERE replay = 0")
        for end in ("min", "max")
    )
    return None if first is None or last is None or first[0] is None else (first[0], last[0])


def step_of(since: int, until: int) -> int:
    """Return the length of a chart's steps, in milliseconds."""
    length = max(until - since, 1)
    if length <= FINE_MS:
        return max(1000, -(-length // FINE_STEPS // 1000) * 1000)
    if length <= HOURS_MS:
        return HOUR_MS
    return DAY_MS if length <= DAYS_MS else 7 * DAY_MS


def charts(snapshot: Snapshot, wanted: Filter, step: int) -> Charts:
    """Return the data of all charts."""
    some = conditions(snapshot, replace(wanted, status=None))
    known = all_series(snapshot)
    found = Charts()
    # Whole days are in the order of the index, so that SQLite counts without sorting.
    moment = "day" if step >= DAY_MS else f"at / {step}"
    by_time = snapshot.rows(
        f"SELECT {moment} AS moment, evaluator, status, score, probability, count(*), total(cost) "
        f"FROM {some.source('results_sums')} WHERE {some.where} "
        "GROUP BY moment, evaluator, status, score, probability",
        some.parameters,
    )
    for place, evaluator, status, score, probability, count, cost in by_time:
        one, at = known[evaluator], place * min(step, DAY_MS)
        found.statuses.setdefault(one.metric, Counter())[status] += count
        scores = found.scores.setdefault(one.metric, Counter())
        if status == "scored":
            line = found.lines.setdefault((one.metric, one.fingerprint, one.model), {})
            line.setdefault(at - at % step, Counter())[score, probability] += count
            scores[score, probability] += count
        if wanted.status in {None, status}:
            day = at - at % DAY_MS
            spent, judged = found.costs.get(day, (0.0, 0))
            found.costs[day] = (spent + cost, judged + count)
    by_series = snapshot.rows(
        f"SELECT series, score, probability, count(*), min(at) FROM {some.source('results_series')} "
        f"WHERE {some.where} AND status = 'scored' GROUP BY series, score, probability",
        some.parameters,
    )
    for number, score, probability, count, at in by_series:
        one = known[number]
        for name, value in one.labels.items():
            found.firsts[name, value] = min(found.firsts.get((name, value), at), at)
            found.labels.setdefault((one.metric, name, value), Counter())[score, probability] += count
    return found


def changes(
    snapshot: Snapshot, wanted: Filter, found: Charts, names: Collection[str], step: int
) -> list[tuple[str, str, int]]:
    """Return the values of some labels that came up within the charts' time: label, value and first time.

    Values that come up within one step of the charts are none of them new.
    """
    came = [(name, value, at) for (name, value), at in found.firsts.items() if name in names]
    first = {name: min(at for other, _, at in came if other == name) for name, _, _ in came}
    later = sorted((one for one in came if one[2] - first[one[0]] >= step), key=lambda one: one[2])
    before = replace(wanted, since=None, until=wanted.since, status="scored")
    return [
        one
        for one in later[:MAX_CHANGES]
        if wanted.since is None or not _any(snapshot, replace(before, labels=(*wanted.labels, one[:2])))
    ]


def _any(snapshot: Snapshot, wanted: Filter) -> bool:
    some = conditions(snapshot, wanted)
    source = some.source("results_series")
    return snapshot.row(f"SELECT 1 FROM {source} WHERE {some.where} LIMIT 1", some.parameters) is not None


def all_series(snapshot: Snapshot) -> dict[int, ResultSeries]:
    """Return all series by id, in order of their first result."""
    rows = snapshot.rows("SELECT id, metric, fingerprint, model, labels FROM series ORDER BY id")
    return {row[0]: ResultSeries(row[1], row[2], row[3], orjson.loads(row[4])) for row in rows}


def score_range(snapshot: Snapshot, metric: str) -> tuple[float, float]:
    """Return the range of a metric's scores, with 0 and 1."""
    some = conditions(snapshot, Filter(metric=metric))
    row = snapshot.rows(
        f"SELECT min(score), max(score) FROM {some.source('results_score')} WHERE {some.where}",
        some.parameters,
    )[0]
    return (min(0, row[0] or 0), max(1, row[1] or 1))


def choices(snapshot: Snapshot) -> dict[str, Any]:
    """Return the filters' choices: metrics, kinds of corrections and suspicions, evaluators, labels."""
    known = all_series(snapshot).values()
    labels: defaultdict[str, set[str]] = defaultdict(set)
    for one in known:
        for name, value in one.labels.items():
            labels[name].add(value)
    marks = {
        mark
        for row in snapshot.rows("SELECT DISTINCT marks FROM results WHERE marks <> ''")
        for mark in row[0].split()
    }
    evaluators = dict.fromkeys((one.fingerprint, one.model, one.metric) for one in known)
    return {
        "metrics": sorted({one.metric for one in known}),
        "corrections": _kinds(marks, "correction"),
        "suspicions": _kinds(marks, "suspicion"),
        "labels": {name: sorted(labels[name]) for name in sorted(labels)},
        "evaluators": [
            {"fingerprint": fingerprint, "model": model, "metric": metric}
            for fingerprint, model, metric in reversed(evaluators)
        ],
    }


def _kinds(marks: Iterable[str], sort: str) -> list[str]:
    return sorted(mark.removeprefix(f"{sort}:") for mark in marks if mark.startswith(f"{sort}:"))
