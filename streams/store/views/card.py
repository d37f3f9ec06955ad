"""One incident in a few lines: what fell, from what to what, since when, why, the folded parts, the link.

`Folding` is for what follows alerts one by one: a log, or a terminal.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final, Literal

from judge.text.printable import printable
from schemas import Alert
from streams.store.views.incidents import Incident, Part, find, group, part_name, title
from streams.store.views.report import IncidentReport, short

SHOWN_PARTS: Final = 3
SUMMARY_CHARS: Final = 400
REMEMBERED_ALERTS: Final = 500

Step = Literal["began", "part", "recovered", "over"]


def lead(incident: Incident) -> Alert:
    """Return the alert that says most: the first mean of the whole traffic, else the first alert."""
    return min(incident.drops, key=lambda one: (bool(one.labels), one.measure != "mean", one.raised_at))


def card(incident: Incident, report: IncidentReport | None = None, link: str | None = None) -> Sequence[str]:
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


def _cause(report: IncidentReport, metric: str) -> str:
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


class Folding:
    """Folds the alerts of a stream into incidents, as they come."""

    def __init__(self) -> None:
        self._alerts: deque[Alert] = deque(maxlen=REMEMBERED_ALERTS)

    def add(self, alert: Alert) -> tuple[Step, str | None, str]:
        """Return what an alert means, the id of its incident (None if its drop is not known), and words."""
        if alert not in self._alerts:
            self._alerts.append(alert)
        incident = find(group(self._alerts), alert.alert_id)
        part = part_name(*_part(alert))
        if incident is None:
            return "recovered", None, printable(alert.summary, SUMMARY_CHARS)
        key = incident.incident_id
        if alert.kind == "recovered":
            is_over = incident.ended_at == alert.raised_at
            return ("over", key, title(incident)) if is_over else ("recovered", key, part)
        if alert is incident.drops[0]:
            return "began", key, printable(alert.summary, SUMMARY_CHARS)
        return "part", key, f"{part}: {alert.baseline.mean:.2f} to {alert.current.mean:.2f}"
