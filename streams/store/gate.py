"""A release gate: whether the answers with one label value score worse than those with another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import merge
from typing import Any, Final

from judge.text.printable import printable
from streams.errors import BadFilterError
from streams.monitoring.statistics.sequences import Answer, DifferenceSequence
from streams.store.charts import ResultSeries, all_series
from streams.store.database import Snapshot
from streams.store.query import Filter, conditions

MAX_EVALUATORS_SHOWN: Final = 8


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer at this look."""

    metric: str
    label: str
    values: tuple[str, str]
    margin: float
    answer: Answer
    interval: tuple[float, float]
    """By how many points of the scale the second value's mean is better than the first's."""
    unscored_interval: tuple[float, float]
    """Of the share of answers without a score, the second value's minus the first's."""
    counts: tuple[Mapping[str, int], Mapping[str, int]]
    """By status, the number of each value's answers."""
    missing: int | None
    """About how many more answers of the second value decide; None if that cannot be said."""

    def text(self) -> str:
        more = "" if self.missing is None else f" (about {self.missing} more)"
        shown = " against ".join(
            f"{printable(value, 80)} ({_told(count)})"
            for value, count in zip(reversed(self.values), reversed(self.counts), strict=True)
        )
        low, high = self.interval
        lost_low, lost_high = (100 * end for end in self.unscored_interval)
        return (
            f"{self.answer}{more if self.answer == 'not yet' else ''}: {self.metric} of "
            f"{printable(self.label, 80)} {shown}\n"
            f"mean {low:+.3f} to {high:+.3f}, margin {self.margin:g}; "
            f"without a score {lost_low:+.1f} to {lost_high:+.1f} % of the answers"
        )


def _told(count: Mapping[str, int]) -> str:
    return ", ".join(f"{number} {status}" for status, number in sorted(count.items())) or "no answers"


def look(
    snapshot: Snapshot,
    wanted: Filter,
    *,
    label: str,
    values: tuple[str, str],
    by: str | None,
    scale: tuple[float, float],
    margin: float,
    alpha: float,
) -> Verdict:
    """Compare the live answers of a filter that have these two values of a label.

    The answers are taken in the order in which they reached the store, so each look continues the one before.
    Scores and the share of answers without a score are compared with half of alpha each; "no worse" needs
    both, "worse" one. `scale` has the worst and the best score.

    Raises:
        BadFilterError: A value has no answers, or several evaluators gave the scores.
    """
    known, (worst, best) = all_series(snapshot), scale
    scores, lost = DifferenceSequence(alpha / 2), DifferenceSequence(alpha / 2)
    counts: tuple[Counter[str], Counter[str]] = (Counter(), Counter())
    rows = [_rows(snapshot, wanted, (label, value), by, group) for group, value in enumerate(values)]
    _refuse(rows, known, label, values)
    for _, group, series, status, score, probability, part in merge(*rows):
        stratum = (known[series].stratum, part)
        counts[group][status] += 1
        lost.add(stratum, group, float(status == "scored"), probability)
        if status == "scored":
            scaled = min(max((score - worst) / (best - worst), 0.0), 1.0)
            scores.add(stratum, group, scaled, probability)
    relative = margin / abs(best - worst)
    both = (scores.answer(relative), lost.answer(relative))
    low, high = (abs(best - worst) * end for end in scores.ends())
    scored_low, scored_high = lost.ends()
    missing = [one.missing(relative) for one in (scores, lost)]
    return Verdict(
        metric=str(wanted.metric),
        label=label,
        values=values,
        margin=margin,
        answer="worse" if "worse" in both else "not yet" if "not yet" in both else "no worse",
        interval=(low, high),
        unscored_interval=(-scored_high, -scored_low),
        counts=(dict(counts[0]), dict(counts[1])),
        missing=None if None in missing else max(one or 0 for one in missing),
    )


def _rows(
    snapshot: Snapshot, wanted: Filter, pair: tuple[str, str], by: str | None, group: int
) -> list[tuple[Any, ...]]:
    """Return id, group, evaluator's series, status, score, probability and part of each answer, by id."""
    some = conditions(snapshot, replace(wanted, labels=(*wanted.labels, pair)))
    part = "coalesce((SELECT value FROM json_each(results.labels) WHERE key = ?), '')"
    return [
        tuple(row)
        for row in snapshot.rows(
            f"SELECT id, {group}, evaluator, status, score, probability, {part} "
            f"FROM results NOT INDEXED WHERE {some.where} ORDER BY id",
            (by or "", *some.parameters),
        )
    ]


def _refuse(
    rows: Sequence[Sequence[tuple[Any, ...]]],
    known: Mapping[int, ResultSeries],
    label: str,
    values: tuple[str, str],
) -> None:
    """Refuse a value without answers, and scores of several evaluators."""
    for value, found in zip(values, rows, strict=True):
        if not found:
            what = f"label {printable(label, 80)}={printable(value, 80)} has no answer in the store"
            raise BadFilterError(
                f"{what}; check --label, --metric and --since, or wait for its first results"
            )
    judges = {known[series].fingerprint: known[series].model for _, _, series, *_ in (*rows[0], *rows[1])}
    if len(judges) > 1:
        shown = [f"{one} ({printable(model, 60)})" for one, model in sorted(judges.items())]
        names = ", ".join(shown[:MAX_EVALUATORS_SHOWN])
        raise BadFilterError(f"evaluator must name one of the {len(judges)} that judged: {names}")
