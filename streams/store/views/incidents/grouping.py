"""Which alerts belong together: one cause makes every series that it touches fall at about the same time.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from statistics import median
from typing import Final

from schemas import Alert

QUIET: Final = timedelta(minutes=30)
"""A drop that begins within this time after the latest word of an incident belongs to it: what falls again
soon after it recovered falls for the same reason more often than not."""
ID_CHARS: Final = 12
LATEST: Final = "latest"
"""In place of an id: what an alert of Prometheus leads to, which knows no ids."""

Part = tuple[str, tuple[tuple[str, str], ...]]
"""A metric and the labels of a part of the traffic; no labels are all of it."""


@dataclass(slots=True)
class Incident:
    """Drops that belong together.

    Attributes:
        incident_id: Follows from the first alert, so it is the same in every process.
        drops: Its alerts of a drop, in the order in which they were raised.
        last_at: When the latest alert, or the latest recovery, was raised.
        open_series: Series that have dropped and not recovered.
        recovered_at: When the first series recovered, and when the last one did.
        alert_ids: Of all its alerts, drops and recoveries: each leads to it.
    """

    incident_id: str
    drops: list[Alert] = field(default_factory=list)
    last_at: datetime | None = None
    open_series: set[tuple[object, ...]] = field(default_factory=set)
    recovered_at: list[datetime] = field(default_factory=list)
    alert_ids: set[str] = field(default_factory=set)

    @property
    def raised_at(self) -> datetime:
        """When the first alert was raised."""
        return self.drops[0].raised_at

    @property
    def started_at(self) -> datetime:
        """When it seems to have begun: the median of what the alerts before the first recovery say."""
        # Those of all traffic, if there are any: a part has fewer answers.
        first = [one for one in self.drops if not self.recovered_at or one.raised_at <= self.recovered_at[0]]
        whole = [one for one in first if not one.labels] or first
        began = median(one.started_at.timestamp() for one in whole)
        return datetime.fromtimestamp(min(began, self.raised_at.timestamp()), self.raised_at.tzinfo)

    @property
    def ended_at(self) -> datetime | None:
        """When the last series recovered; None while one has not."""
        return None if self.open_series or not self.recovered_at else self.recovered_at[-1]

    @property
    def parts(self) -> list[Part]:
        """The parts of the traffic that fell, the whole first, in the order in which they did."""
        found = dict.fromkeys((one.metric, tuple(sorted(one.labels.items()))) for one in self.drops)
        return sorted(found, key=lambda part: len(part[1]))

    @property
    def metrics(self) -> Sequence[str]:
        """The metrics that fell."""
        return list(dict.fromkeys(one.metric for one in self.drops))


def group(alerts: Iterable[Alert]) -> list[Incident]:
    """Put alerts together.

    Args:
        alerts: All that are known, in any order, repeats included.

    Returns:
        Incidents in the order in which they began.
    """
    unique = {alert.alert_id: alert for alert in alerts}
    incidents: list[Incident] = []
    for alert in sorted(unique.values(), key=lambda one: (one.raised_at, one.alert_id)):
        series = (alert.metric, alert.fingerprint, tuple(sorted(alert.labels.items())), alert.measure)
        if alert.kind == "recovered":
            _recover(incidents, series, alert)
            continue
        current = incidents[-1] if incidents else None
        if current is None or current.last_at is None or alert.started_at > current.last_at + QUIET:
            current = Incident(alert.alert_id[:ID_CHARS])
            incidents.append(current)
        current.drops.append(alert)
        current.alert_ids.add(alert.alert_id)
        current.open_series.add(series)
        current.last_at = alert.raised_at
    return incidents


def find(incidents: Sequence[Incident], key: str, *, metric: str | None = None) -> Incident | None:
    """Find an incident; None where there is none.

    Args:
        incidents: The latest first.
        key: Its id, the id of one of its alerts, or `LATEST`: the latest that is not over, else the latest.
        metric: With `LATEST`, one in which this metric fell.
    """
    if key != LATEST:
        return next((one for one in incidents if key == one.incident_id or key in one.alert_ids), None)
    fell = [one for one in incidents if metric is None or metric in one.metrics]
    return next((one for one in fell if one.ended_at is None), fell[0] if fell else None)


def _recover(incidents: Sequence[Incident], series: tuple[object, ...], alert: Alert) -> None:
    for incident in reversed(incidents):
        if series in incident.open_series:
            incident.open_series.discard(series)
            incident.alert_ids.add(alert.alert_id)
            incident.recovered_at.append(alert.raised_at)
            incident.last_at = alert.raised_at
            return
