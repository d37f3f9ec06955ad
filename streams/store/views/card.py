"""One incident in a few lines: what fell, from what to what, since when, why, the folded parts, the link."""

from __future__ import annotations

from collections.abc import Sequence

from judge.text.printable import printable
from schemas import Alert
from streams.store.views.incidents import Incident, Part, part_name
from streams.store.views.report import Report, short

SHOWN_PARTS = 3
SUMMARY_CHARS = 400


def lead(incident: Incident) -> Alert:
    """Return the alert that says most: the first mean of the whole traffic, else the first alert."""
    return min(incident.drops, key=lambda one: (bool(one.labels), one.measure != "mean", one.raised_at))


def card(incident: Incident, report: Report | None = None, link: str | None = None) -> Sequence[str]:
    """Describe an incident in at most four lines; without a report there is no cause."""
    first = lead(incident)
    lines = [printable(first.summary, SUMMARY_CHARS)]
    if report is not None:
        lines.append(f"cause: {_cause(report, first.metric)}")
    folded = [one for one in incident.parts if one != _part(first)]
    if folded:
        shown = ", ".join(part_name(*one) for one in folded[:SHOWN_PARTS])
        more = f" and {len(folded) - SHOWN_PARTS} more" if len(folded) > SHOWN_PARTS else ""
        lines.append(f"also: {shown}{more}")
    if link is not None:
        lines.append(link)
    return lines


def _cause(report: Report, metric: str) -> str:
    """Return the causes with their share of the fall."""
    found = next((one.finding for one in report.metrics if one.metric == metric), None)
    if found is None or not found.causes or found.fall <= 0:
        return "no label value stands out"
    return ", ".join(
        f"{short(one)} ({min(one.contribution / found.fall, 1):.0%} of the fall of {found.fall:.2f})"
        for one in found.causes
    )


def _part(alert: Alert) -> Part:
    return alert.metric, tuple(sorted(alert.labels.items()))
