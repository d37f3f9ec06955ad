"""Reports on incidents from the store: causes, common findings and examples."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import orjson

from schemas import Alert
from streams.store.packing import unpacked
from streams.store.reader import Asking
from streams.store.verdicts import rows_of, stretch
from streams.store.views.incidents.causes import Finding, find_causes
from streams.store.views.incidents.grouping import Incident, group
from streams.store.views.incidents.table import Answer

MAX_ALERTS: Final = 20_000
BEFORE: Final = 3_000
"""Number of latest judged answers before the fall to compare with."""
AFTER: Final = 3_000
EXAMPLES: Final = 10
LOOKED_AT: Final = 300
"""Number of answers since to analyse for common findings."""
NO_END: Final = 1 << 60
COMMON: Final = 8
COMMON_CHARS: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricReport:
    """One metric of an incident.

    Attributes:
        metric: The metric.
        finding: Its fall and the causes.
        corrections: Kinds of corrections and suspicions, with the share of the answers before and since.
        unsupported: Items most often rejected since: kind, text, number of answers, number before.
        before: The latest answers before.
        worst: The worst answers since.
        judged: Number of answers of the finding, before and since.
    """

    metric: str
    finding: Finding
    corrections: Mapping[str, tuple[float, float]]
    unsupported: Sequence[tuple[str, str, int, int]]
    before: Sequence[Mapping[str, Any]]
    worst: Sequence[Mapping[str, Any]]
    judged: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Report:
    """An incident and its metrics, the most significant fall first."""

    incident: Incident
    metrics: tuple[MetricReport, ...]


def known_incidents(asking: Asking) -> list[Incident]:
    """Return all incidents of the alerts in the store, the latest first."""
    rows = asking.rows("SELECT body FROM alerts ORDER BY raised DESC LIMIT ?", (MAX_ALERTS,))
    return group(Alert.model_validate(unpacked(row[0])) for row in rows)[::-1]


def report_on(
    asking: Asking,
    incident: Incident,
    *,
    ranges: Mapping[str, tuple[float, float]],
    product_labels: Collection[str],
) -> Report:
    """Return the report on an incident.

    Args:
        asking: The store.
        incident: One of `known_incidents`.
        ranges: Lowest and highest score by metric; by default those of the scores.
        product_labels: Labels that identify the answering product.
    """
    made = [
        _metric_report(asking, incident, metric, ranges.get(metric), product_labels)
        for metric in incident.metrics
    ]
    found = [one for one in made if one is not None]

    def clearness(one: MetricReport) -> float:
        finding = one.finding
        return finding.fall / max(finding.high - finding.low, 1e-9)

    return Report(incident, tuple(sorted(found, key=clearness, reverse=True)))


def _metric_report(
    asking: Asking,
    incident: Incident,
    metric: str,
    scale: tuple[float, float] | None,
    product_labels: Collection[str],
) -> MetricReport | None:
    fingerprints = {one.fingerprint for one in incident.drops if one.metric == metric}
    started = _milliseconds(incident.started_at)
    # Until the first recovery: later answers are good again.
    until = _milliseconds(incident.recovered_at[0]) if incident.recovered_at else NO_END
    before, after = (
        [row for row in rows if row["fingerprint"] in fingerprints]
        for rows in (
            stretch(asking, metric, since=0, until=started, limit=BEFORE, latest=True),
            stretch(asking, metric, since=started, until=until, limit=AFTER, latest=False),
        )
    )
    if not before or not after:
        return None
    ends = scale or (
        min(row["score"] for row in (*before, *after)),
        max(row["score"] for row in (*before, *after)) + 1,
    )
    labels = {row["labels"]: orjson.loads(row["label_text"]) for row in (*before, *after)}
    finding = find_causes(
        _answers(before, labels), _answers(after, labels), scale=ends, product_labels=product_labels
    )
    worst = sorted(after, key=lambda row: (row["score"], -row["at"]))
    bodies = [_bodies(asking, rows[:LOOKED_AT]) for rows in (before, worst)]
    return MetricReport(
        metric=metric,
        finding=finding,
        corrections=_marks(bodies[0], bodies[1]),
        unsupported=_unsupported(bodies[0], bodies[1]),
        before=rows_of(asking, [row["id"] for row in before[:EXAMPLES]]),
        worst=rows_of(asking, [row["id"] for row in worst[:EXAMPLES]]),
        judged=(len(before), len(after)),
    )


def _answers(rows: Iterable[Any], labels: Mapping[int, Mapping[str, str]]) -> list[Answer]:
    return [Answer(labels[row["labels"]], row["score"], row["probability"]) for row in rows]


def _bodies(asking: Asking, rows: Sequence[Any]) -> list[dict[str, Any]]:
    return [one["result"] for one in rows_of(asking, [row["id"] for row in rows])]


def _marks(
    before: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]]
) -> dict[str, tuple[float, float]]:
    def shares(results: Sequence[Mapping[str, Any]]) -> Counter[str]:
        kinds: Counter[str] = Counter()
        for result in results:
            marks = (*(result.get("corrections") or ()), *(result.get("suspicions") or ()))
            kinds.update({one["kind"] for one in marks})
        return kinds

    was, now = shares(before), shares(after)
    found = {kind: (was[kind] / max(len(before), 1), now[kind] / max(len(after), 1)) for kind in {*was, *now}}
    return dict(sorted(found.items(), key=lambda item: item[1][0] - item[1][1])[:COMMON])


def _unsupported(
    before: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]]
) -> list[tuple[str, str, int, int]]:
    was, now = _not_upheld(before), _not_upheld(after)
    often = [
        (kind, text, times, was[kind, text]) for (kind, text), times in now.items() if times > was[kind, text]
    ]
    # Claims and facts are more informative than terms.
    return sorted(often, key=lambda one: (one[0] == "term", one[3] - one[2]))[:COMMON]


def _not_upheld(results: Iterable[Mapping[str, Any]]) -> Counter[tuple[str, str]]:
    """Return the number of answers in which each claim was unsupported, or each item missed."""
    found: Counter[tuple[str, str]] = Counter()
    for result in results:
        evidence = result.get("evidence")
        if not isinstance(evidence, dict):
            continue
        here = set()
        for name, kind in (
            ("claims", "claim"),
            ("facts", "fact"),
            ("conclusions", "conclusion"),
            ("terms", "term"),
        ):
            for item in evidence.get(name) or ():
                if not isinstance(item, dict):
                    continue
                upheld = (
                    item.get("supported") and item.get("relevant") if kind == "claim" else item.get("matched")
                )
                text = str(item.get("item") or item.get("claim_span") or "")
                if not upheld and text:
                    here.add((kind, " ".join(text.split())[:COMMON_CHARS]))
        found.update(here)
    return found


def _milliseconds(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)
