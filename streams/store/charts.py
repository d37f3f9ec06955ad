"""Data of charts; means are estimated by sampling stratum, by the code of the monitor's gauges."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import orjson

from streams.monitoring.statistics.estimators import WeightedSums
from streams.monitoring.statistics.strata import Expected, estimate_strata, expected_of
from streams.store.database import Snapshot
from streams.store.query import Filter, Filtered
from streams.store.records import DAY_MS

HOUR_MS: Final = 3_600_000
FINE_STEPS: Final = 72
MAX_DAYS: Final = 400
MAX_CHANGES: Final = 20
COUNTED: Final = ("scores", "weights", "statuses")

Scores = defaultdict[str, Counter[tuple[float, float]]]
"""By sampling stratum, the number of answers by score and inclusion probability."""
Judge = tuple[str, str, str]
"""Metric, fingerprint and model of an evaluator: scores of two are never combined."""
Scale = Callable[[str], tuple[float, float]]


class ResultSeries(NamedTuple):
    metric: str
    fingerprint: str
    model: str
    stratum: str
    labels: Mapping[str, str]


def extent(snapshot: Snapshot) -> tuple[int, int] | None:
    """Return the times of the first and last answer of the live stream; None without any."""
    # As separate queries, each is one index lookup; together they scan the index.
    found = Filtered(snapshot, Filter())
    first, last = (found.rows(f"{end}(at)", "results_time")[0][0] for end in ("min", "max"))
    return None if first is None else (first, last)


def span_of(snapshot: Snapshot, wanted: Filter) -> tuple[int, int, int]:
    first, last = extent(snapshot) or (0, 0)
    since = first if wanted.since is None else wanted.since
    until = last + 1 if wanted.until is None else min(wanted.until, max(last + 1, since + 1))
    length = max(until - since, 1)
    fine = max(1000, -(-length // FINE_STEPS // 1000) * 1000)
    steps = ((6 * HOUR_MS, fine), (4 * DAY_MS, HOUR_MS), (150 * DAY_MS, DAY_MS), (length, 7 * DAY_MS))
    return since, until, next(step for longest, step in steps if length <= longest)


def charts(snapshot: Snapshot, wanted: Filter, scale: Scale) -> dict[str, Any]:
    known, (since, until, step) = all_series(snapshot), span_of(snapshot, wanted)
    lines: defaultdict[Judge, dict[int, Scores]] = defaultdict(dict)
    judges: defaultdict[Judge, dict[str, Any]] = defaultdict(lambda: {name: Counter() for name in COUNTED})
    costs: dict[int, tuple[float, int]] = {}
    # Whole days are in the order of the index, so that SQLite counts without sorting.
    moment = "day" if step >= DAY_MS else f"at / {step}"
    rows = Filtered(snapshot, replace(wanted, status=None)).rows(
        f"{moment} AS moment, evaluator, status, score, probability, count(*), total(cost)",
        "results_sums",
        "GROUP BY moment, evaluator, status, score, probability",
    )
    for place, evaluator, status, score, probability, count, cost in rows:
        one, at = known[evaluator], place * min(step, DAY_MS)
        counts = judges[one[:3]]
        counts["statuses"][status] += count
        if status == "scored":
            point = lines[one[:3]].setdefault(at - at % step, defaultdict(Counter))
            point[one.stratum][score, probability] += count
            counts["scores"][score] += count
            counts["weights"][score] += count / probability
        if wanted.status in {None, status}:
            spent, judged = costs.get(at - at % DAY_MS, (0.0, 0))
            costs[at - at % DAY_MS] = spent + cost, judged + count
    return {
        "since": since,
        "until": until,
        "step": step,
        "lines": [
            {**dict(zip(("metric", "fingerprint", "model"), line, strict=True)), "range": scale(line[0]),
             "points": _points(points, step, scale(line[0]))}
            for line, points in sorted(lines.items())
        ],
        "scores": {
            _title(judge, judges): {**counts, "range": scale(judge[0])}
            for judge, counts in sorted(judges.items())
        },
        "cost": [(day, *spent) for day, spent in sorted(costs.items())][-MAX_DAYS:],
    }  # fmt: skip


def by_label(
    snapshot: Snapshot, wanted: Filter, scale: Scale, product_labels: Collection[str] = ()
) -> dict[str, Any]:
    """Return the means by label and evaluator, and the new values of product labels."""
    known, (_, _, step) = all_series(snapshot), span_of(snapshot, wanted)
    labels: defaultdict[tuple[Judge, str, str], Scores] = defaultdict(lambda: defaultdict(Counter))
    firsts: dict[tuple[str, str], int] = {}
    rows = Filtered(snapshot, replace(wanted, status="scored")).rows(
        "series, score, probability, count(*), min(at)",
        "results_series",
        "GROUP BY series, score, probability",
    )
    for number, score, probability, count, at in rows:
        one = known[number]
        for name, value in one.labels.items():
            labels[one[:3], name, value][one.stratum][score, probability] += count
            if name in product_labels:
                firsts[name, value] = min(firsts.get((name, value), at), at)
    judges = {judge for judge, _, _ in labels}
    estimates = [
        (judge[0], *label, *_estimate(_sums(some), scale(judge[0])), _title(judge, judges), judge[1])
        for (judge, *label), some in labels.items()
    ]
    return {
        "labels": sorted(estimates, key=lambda row: (row[0], row[1], row[3], row[2])),
        "changes": _changes(snapshot, wanted, firsts, step),
    }


def _title(judge: Judge, judges: Collection[Judge]) -> str:
    """Return the metric; if several evaluators judged it, with the model and the fingerprint."""
    metric, fingerprint, model = judge
    is_only = sum(one[0] == metric for one in judges) == 1
    return metric if is_only else f"{metric}, {model} ({fingerprint[:8]})"


def _sums(scores: Scores) -> dict[str, WeightedSums]:
    return {stratum: WeightedSums.of_counted(some) for stratum, some in scores.items()}


def _points(points: Mapping[int, Scores], step: int, ends: tuple[float, float]) -> list[tuple[float, ...]]:
    """Return time, mean, interval and count of each step; a stratum's usual share is that of the line."""
    sums = {at: _sums(scores) for at, scores in sorted(points.items())}
    strata = {stratum for some in sums.values() for stratum in some}
    whole = {
        name: WeightedSums.merged(some[name] for some in sums.values() if name in some) for name in strata
    }
    usual = expected_of(whole, step / (max(points) - min(points) + step))
    return [(at, *_estimate(some, ends, usual)) for at, some in sums.items()]


def _estimate(
    strata: Mapping[str, WeightedSums], ends: tuple[float, float], usual: Expected = MappingProxyType({})
) -> tuple[float, ...]:
    found = estimate_strata(strata, usual, lowest=ends[0], highest=ends[1]) or ()
    return *(round(number, 4) for number in found), sum(sums.count for sums in strata.values())


def _changes(
    snapshot: Snapshot, wanted: Filter, firsts: Mapping[tuple[str, str], int], step: int
) -> list[dict[str, Any]]:
    """Return new values of product labels, with their first time; those of the first step are not new."""
    began = {name: min(at for (other, _), at in firsts.items() if other == name) for name, _ in firsts}
    later = sorted((at, one) for one, at in firsts.items() if at - began[one[0]] >= step)[:MAX_CHANGES]
    before = replace(wanted, since=None, until=wanted.since, status="scored")

    def was_there(label: tuple[str, str]) -> bool:
        earlier = Filtered(snapshot, replace(before, labels=(*wanted.labels, label)))
        return wanted.since is not None and bool(earlier.rows("1", "results_series", "LIMIT 1"))

    return [{"at": at, "text": "=".join(one)} for at, one in later if not was_there(one)]


def all_series(snapshot: Snapshot) -> dict[int, ResultSeries]:
    rows = snapshot.execute("SELECT id, metric, fingerprint, model, stratum, labels FROM series ORDER BY id")
    return {row[0]: ResultSeries(row[1], row[2], row[3], row[4], orjson.loads(row[5])) for row in rows}


def score_range(snapshot: Snapshot, metric: str) -> tuple[float, float]:
    scores = Filtered(snapshot, Filter(metric=metric))
    ((lowest, highest),) = scores.rows("min(score), max(score)", "results_score")
    return (min(0, lowest or 0), max(1, highest or 1))


def choices(snapshot: Snapshot) -> dict[str, Any]:
    known = all_series(snapshot).values()
    labels: defaultdict[str, set[str]] = defaultdict(set)
    for name, value in (pair for one in known for pair in one.labels.items()):
        labels[name].add(value)
    marked = snapshot.execute("SELECT DISTINCT marks FROM results WHERE marks <> ''")
    marks = sorted({mark for row in marked for mark in row[0].split()})
    evaluators = dict.fromkeys((one.fingerprint, one.model, one.metric) for one in known)
    return {
        "metrics": sorted({one.metric for one in known}),
        "corrections": [mark.removeprefix("correction:") for mark in marks if mark.startswith("correction:")],
        "suspicions": [mark.removeprefix("suspicion:") for mark in marks if mark.startswith("suspicion:")],
        "labels": {name: sorted(labels[name]) for name in sorted(labels)},
        "evaluators": [
            {"fingerprint": fingerprint, "model": model, "metric": metric}
            for fingerprint, model, metric in reversed(evaluators)
        ],
    }
