"""Compare the results of files with people's scores: agreement beyond chance by metric and judge."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import orjson

from judge.metric import Metric
from judge.text.printable import printable
from schemas import Result, Scored
from streams.batch.sources import format_of, read_lines
from streams.errors import SettingsError
from streams.monitoring.statistics.agreement import kappa, kappa_interval
from streams.store.views.labels import HumanScore, Scales, parse_score

MOST_VALUES: Final = 12
"""Limit of values in a printed table of choices."""


@dataclass(frozen=True, slots=True)
class HumanLabel:
    """One person's score of one answer, as written in a file."""

    number: int
    result_id: str
    event_id: str
    metric: str
    score: Any
    who: str


@dataclass(frozen=True, slots=True)
class Agreement:
    """The agreement of one judge with people."""

    metric: str
    judge: str
    fingerprint: str
    pairs: tuple[tuple[str, str], ...]
    """A person's choice and the judge's, as shown."""
    kappa: float | None
    interval: tuple[float, float] | None
    people: Mapping[str, tuple[str, ...]]
    """People's choices by event id."""

    @property
    def same(self) -> int:
        """Number of equal choices."""
        return sum(human == judge for human, judge in self.pairs)

    def as_json(self) -> dict[str, Any]:
        """Return the JSON form; `confusion` counts a person's choice by the judge's."""
        counts = Counter(self.pairs)
        humans, judges = ({pair[place]: None for pair in self.pairs} for place in (0, 1))
        found = asdict(self) | {"labels": len(self.pairs), "same": self.same}
        found["confusion"] = {
            human: {judge: counts[human, judge] for judge in judges if counts[human, judge]}
            for human in humans
        }
        return {name: value for name, value in found.items() if name not in ("pairs", "people")}

    def lines(self) -> list[str]:
        """Return the text form: a line, and a person's choice (rows) by the judge's (columns)."""
        shown = "no kappa (all choices are equal)" if self.kappa is None else f"kappa {self.kappa:.2f}"
        ends = "" if self.interval is None else f" (95%: {self.interval[0]:.2f} to {self.interval[1]:.2f})"
        same = f"{self.same} of {len(self.pairs)} labels equal the judge's score"
        told = [f"{self.metric}, {printable(self.judge, 60)} ({self.fingerprint}): {same}, {shown}{ends}"]
        values = sorted({one for pair in self.pairs for one in pair}, key=_order)
        if len(values) > MOST_VALUES:
            return told
        counts = Counter(self.pairs)
        table = [["person \\ judge", *values]]
        table += [[human, *(str(counts[human, judge] or "") for judge in values)] for human in values]
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        rows = ("  ".join(map(str.rjust, row, widths)).rstrip() for row in table)
        return told + [f"  {row}" for row in rows]


def read_human_labels(path: Path) -> list[HumanLabel]:
    """Read people's scores: columns event_id or result_id, and score; optionally metric and who.

    Raises:
        SettingsError: The file cannot be read, or a line is no label.
    """
    try:
        with path.open("rb") as handle:
            lines = read_lines(handle, format_of(path, None), path.name)
            labels = [_label(line.number, line.value, line.problem, path) for line in lines]
    except OSError as error:
        raise SettingsError([f"--labels {path}: cannot be read ({error.strerror}); check the path"]) from None
    if labels and all(one.score is None for one in labels):
        raise SettingsError([f"--labels {path}: no line has a score; rename the column with people's scores"])
    return labels


def _label(number: int, value: bytes, problem: str, path: Path) -> HumanLabel:
    try:
        row = orjson.loads(value or b"{}")
    except orjson.JSONDecodeError:
        row = None
    if problem or not isinstance(row, dict):
        raise SettingsError([f"--labels {path}: line {number} is no label ({problem or 'not JSON'})"])
    texts = {name: str(row.get(name) or "") for name in ("result_id", "event_id", "metric", "who")}
    if not (texts["event_id"] or texts["result_id"]):
        names = ", ".join(printable(name, 40) for name in row) or "nothing"
        raise SettingsError(
            [f"--labels {path}: line {number} has no event_id or result_id, but {names}; rename the column"]
        )
    return HumanLabel(number=number, score=row.get("score"), **texts)


def agreements(
    labels: Sequence[HumanLabel],
    results: Iterable[Result],
    metrics: Mapping[str, Metric],
    path: Path,
) -> list[Agreement]:
    """Compare people's scores with results, each person's latest score of an answer.

    Raises:
        SettingsError: A label names no metric though there are several, or is no score of its metric.
    """
    scales = Scales(
        {name: metric.score_range for name, metric in metrics.items()},
        {name: metric.labels for name, metric in metrics.items()},
    )
    known: dict[tuple[str, str], dict[str, HumanLabel]] = {}
    for label in labels:
        for key in _keys(label, metrics, path):
            known.setdefault(key, {})[label.who] = label
    groups: dict[tuple[str, str, str], list[tuple[HumanScore, Scored]]] = {}
    for result in results:
        if not isinstance(result, Scored):
            continue
        found = known.get((result.result_id, "")) or known.get((result.event_id, result.metric)) or {}
        judge = (result.metric, result.evaluator.model, result.evaluator.fingerprint)
        for label in found.values():
            human = _parsed(label, result, scales, path)
            if human.score is not None:
                groups.setdefault(judge, []).append((human, result))
    return [_agreement(key, pairs) for key, pairs in groups.items()]


def _keys(label: HumanLabel, metrics: Mapping[str, Metric], path: Path) -> Iterator[tuple[str, str]]:
    if label.result_id:
        yield label.result_id, ""
    elif label.metric or len(metrics) == 1:
        yield label.event_id, label.metric or next(iter(metrics))
    else:
        known = ", ".join(metrics)
        raise SettingsError(
            [f"--labels {path}: line {label.number} needs a metric, one of {known}; add a column metric"]
        )


def _parsed(label: HumanLabel, result: Scored, scales: Scales, path: Path) -> HumanScore:
    verdict = {
        "metric": result.metric,
        "score": result.score,
        "result": {"kind": result.kind, "value": result.value},
    }
    try:
        return parse_score(verdict, label.score, scales)
    except ValueError as error:
        what = f"line {label.number}: {printable(str(label.score), 60)!r} is no score of {result.metric}"
        raise SettingsError([f"--labels {path}: {what} ({error}); correct it"]) from None


def _agreement(key: tuple[str, str, str], found: Sequence[tuple[HumanScore, Scored]]) -> Agreement:
    chosen = [(_choice(human.score, human.value), _choice(one.score, one.value)) for human, one in found]
    shown = tuple((_shown(human), _shown(judge)) for human, judge in chosen)
    people: dict[str, tuple[str, ...]] = {}
    for (_, one), (human, _) in zip(found, shown, strict=True):
        people[one.event_id] = (*people.get(one.event_id, ()), human)
    return Agreement(*key, shown, kappa(chosen), kappa_interval(chosen), people)


def _choice(score: int | None, value: bool | float | str | None) -> float | str:
    """Return a choice as a number, or as a name for true, false and labels."""
    if value is None:
        return float(score or 0)
    return str(value).lower() if isinstance(value, bool) else value


def _shown(choice: float | str) -> str:
    return choice if isinstance(choice, str) else f"{choice:.6g}"


def _order(shown: str) -> tuple[bool, float, str]:
    try:
        return False, float(shown), shown
    except ValueError:
        return True, 0.0, shown
