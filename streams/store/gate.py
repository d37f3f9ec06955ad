"""A release gate: whether the answers with one label value score worse than those with another."""

from __future__ import annotations

import sqlite3
from collections import Counter, OrderedDict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import datetime
from heapq import merge
from math import ceil
from operator import itemgetter
from statistics import fmean
from typing import Any, Final

from judge.text.printable import printable
from streams.errors import BadFilterError
from streams.monitoring.clusters import IDLE_SECONDS, LONGEST_SECONDS
from streams.monitoring.statistics.detectors import Answer, DifferenceSequence
from streams.store.charts import ResultSeries, all_series
from streams.store.database import Snapshot
from streams.store.query import Filter, Filtered, parse
from streams.store.records import milliseconds

ANSWERS: Final[tuple[Answer, ...]] = ("no worse", "worse", "not yet")


@dataclass(frozen=True, slots=True)
class Verdict:
    metric: str
    label: str
    values: tuple[str, str]
    margin: float
    answer: Answer
    interval: tuple[float, float]
    """By how many points of the scale the second value's mean is better than the first's."""
    unscored_interval: tuple[float, float]
    """Of the share of answers without a score, the second value's minus the first's."""
    counts: tuple[Mapping[str, int], ...]
    """By status, the number of each value's answers."""
    compared: tuple[int, int]
    """Of each value, the number of answers and clusters of answers that were compared."""
    missing: int | None
    """About how many more answers of the second value decide; None if that cannot be said."""

    def text(self) -> str:
        more = "" if self.missing is None else f" (about {self.missing} more)"
        sides = []
        for value, count, compared in zip(self.values, self.counts, self.compared, strict=True):
            answers = ", ".join(f"{number} {status}" for status, number in sorted(count.items()))
            answers += "" if compared == sum(count.values()) else f"; {compared} independent"
            sides.append(f"{printable(value, 80)} ({answers})")
        low, high = self.interval
        lost_low, lost_high = (100 * end for end in self.unscored_interval)
        return (
            f"{self.answer}{more if self.answer == 'not yet' else ''}: {self.metric} of "
            f"{printable(self.label, 80)} {' against '.join(reversed(sides))}\n"
            f"mean {low:+.3f} to {high:+.3f}, margin {self.margin:g}; "
            f"without a score {lost_low:+.1f} to {lost_high:+.1f} % of the answers"
        )


def look(
    store: AbstractContextManager[Snapshot],
    query: Mapping[str, str],
    *,
    ranges: Mapping[str, tuple[float, float]],
    rising: Collection[str],
    now: datetime,
) -> Verdict:
    """Compare live answers by two values of a label; the query has the options of `judgestream compare`.

    Answers come in the order in which they reached the store, so each look continues the one before.
    """
    metric, since = query.get("metric", ""), query.get("since", "")
    if metric not in ranges:
        raise BadFilterError(f"metric must be one of {', '.join(ranges)}, got {printable(metric, 60)!r}")
    lowest, highest = ranges[metric]
    worst, best = (highest, lowest) if metric in rising else (lowest, highest)
    margin, alpha = _number(query, "margin", 0.1), _number(query, "alpha", 0.05)
    if not 0 < margin < highest - lowest:
        size = f"{highest - lowest:g}, the length of the scale of {metric}"
        raise BadFilterError(f"margin must be above 0 and below {size}, got {margin:g}")
    if not 0 < alpha < 1:
        raise BadFilterError(f"alpha must be above 0 and below 1, got {alpha:g}; 0.05 is common")
    if since[:-1].isdigit() and since[-1] in "smhd":
        what = "with a start that moves the error adds up over the looks"
        raise BadFilterError(f"since must be a fixed time such as 2026-03-14, got {since}: {what}")
    label, values = _label(query.get("label", ""))
    wanted = parse({"metric": metric, "since": since, "evaluator": query.get("evaluator", "")}, [], now)
    with store as snapshot:  # opened last, so that a wrong option is named first
        rows = [_rows(snapshot, wanted, query, group, (label, value)) for group, value in enumerate(values)]
        known = all_series(snapshot)
    _refuse(rows, known, label, values)
    # Scores and the share of unscored answers, with half of alpha each: "no worse" needs both, "worse" one.
    scores, lost = DifferenceSequence(alpha / 2), DifferenceSequence(alpha / 2)
    for together in _independent(merge(*rows, key=itemgetter("id")), milliseconds(now)):
        first = together[0]
        stratum = (known[first["evaluator"]].stratum, first["part"])
        weight = sum(1 / one["probability"] for one in together)
        scaled = [(one["score"] - worst) / (best - worst) for one in together if one["score"] is not None]
        lost.add(stratum, first["side"], len(scaled) / len(together), weight)
        if scaled:
            scores.add(stratum, first["side"], min(max(fmean(scaled), 0.0), 1.0), weight)
    relative = margin / (highest - lowest)
    both = (scores.answer(relative), lost.answer(relative))
    low, high = ((highest - lowest) * end for end in scores.ends())
    scored_low, scored_high = lost.ends()
    answers_each = len(rows[1]) / max(lost.counts[1], 1)
    missing = [one.missing(relative) for one in (scores, lost)]
    return Verdict(
        metric=metric,
        label=label,
        values=values,
        margin=margin,
        answer="worse" if "worse" in both else "not yet" if "not yet" in both else "no worse",
        interval=(low, high),
        unscored_interval=(-scored_high, -scored_low),
        counts=tuple(dict(Counter(one["status"] for one in some)) for some in rows),
        compared=lost.counts,
        missing=None if None in missing else ceil(answers_each * max(one or 0 for one in missing)),
    )


def _number(query: Mapping[str, str], name: str, default: float) -> float:
    given = query.get(name) or default
    try:
        return float(given)
    except ValueError:
        raise BadFilterError(f"{name} must be a number, got {printable(str(given), 40)!r}") from None


def _label(text: str) -> tuple[str, tuple[str, str]]:
    name, _, both = text.partition("=")
    old, _, new = (one.strip() for one in both.partition(","))
    if not (name and old and new) or "," in new or old == new:
        what = "must be NAME=OLD,NEW with two different values, such as prompt_version=v7,v8"
        raise BadFilterError(f"label {what}, got {printable(text, 80)!r}")
    return name, (old, new)


def _rows(
    snapshot: Snapshot, wanted: Filter, query: Mapping[str, str], side: int, pair: tuple[str, str]
) -> list[sqlite3.Row]:
    some = Filtered(snapshot, replace(wanted, labels=(pair,)))
    value = "(SELECT value FROM json_each(results.labels) WHERE key = ?)"
    return snapshot.execute(
        f"SELECT id, {side} AS side, evaluator, status, score, probability, judged, "
        f"coalesce({value}, '') AS part, coalesce({value}, cluster) AS cluster "
        f"FROM results NOT INDEXED WHERE {some.where} ORDER BY id",
        (query.get("by", ""), query.get("cluster", ""), *some.parameters),
    ).fetchall()


def _independent(answers: Iterable[sqlite3.Row], end: int) -> Iterator[list[sqlite3.Row]]:
    """Yield each answer alone, or the answers of a cluster when they are complete, as the monitor does."""
    # Times are the cluster's own and not after the `end`, so that a worker's wrong clock holds up no other.
    opened: OrderedDict[tuple[Any, ...], list[sqlite3.Row]] = OrderedDict()
    latest: dict[tuple[Any, ...], int] = {}
    idle, longest = 1_000 * IDLE_SECONDS, 1_000 * LONGEST_SECONDS
    now = 0
    for one in answers:
        moment = min(one["judged"], end)
        now = max(now, moment)
        while opened and latest[next(iter(opened))] < now - idle:
            yield opened.popitem(last=False)[1]
        if one["cluster"] is None:
            yield [one]
            continue
        name = (one["side"], one["evaluator"], one["part"], one["cluster"])
        if name in opened or moment - latest.get(name, 0) > longest:
            opened.setdefault(name, []).append(one)
            opened.move_to_end(name)
        latest[name] = max(moment, latest.get(name, 0))
        if name in opened and moment - opened[name][0]["judged"] > longest:
            yield opened.pop(name)
    yield from (answers for name, answers in opened.items() if latest[name] < end - idle)


def _refuse(
    rows: Sequence[Sequence[sqlite3.Row]],
    known: Mapping[int, ResultSeries],
    label: str,
    values: Sequence[str],
) -> None:
    for value, found in zip(values, rows, strict=True):
        if not found:
            what = f"label {printable(label, 80)}={printable(value, 80)} has no answer in the store"
            raise BadFilterError(f"{what}; check label, metric and since, or wait for its first results")
    used = {one["evaluator"] for one in (*rows[0], *rows[1])}
    judges = {known[series].fingerprint: known[series].model for series in used}
    if len(judges) > 1:
        shown = [f"{one} ({printable(model, 60)})" for one, model in sorted(judges.items())]
        names = ", ".join(shown[:8])
        raise BadFilterError(f"evaluator must name one of the {len(judges)} that judged: {names}")
