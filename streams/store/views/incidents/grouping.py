"""Groups alerts: one cause makes all affected series fall at about the same time. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from statistics import median
from typing import Final

from schemas import Alert

QUIET: Final = timedelta(minutes=30)
"""A drop that starts within this time after an incident's latest alert or recovery belongs to it: a new fall
soon after a recovery usually has the same cause."""
ID_CHARS: Final = 12
LATEST: Final = "latest"
"""Used instead of an id by links of Prometheus alerts, which contain no ids."""

Part = tuple[str, tuple[tuple[str, str], ...]]
"""A metric and the labels of a part of the traffic; no labels: all of it."""


@dataclass(slots=True)
class Incident:
    """A group of drops.

    Attributes:
        incident_id: Derived from the first alert, so it is the same in every process.
        drops: Its drop alerts, oldest first.
        last_at: Time of the latest alert or recovery.
        open_series: Series that dropped and have not recovered.
        recovered_at: Times of the first and the last recovery.
        alert_ids: Ids of all its alerts and recoveries; each links to it.
    """

    incident_id: str
    drops: list[Alert] = field(default_factory=list)
    last_at: datetime | None = None
    open_series: set[tuple[object, ...]] = field(default_factory=set)
    recovered_at: list[datetime] = field(default_factory=list)
    alert_ids: set[str] = field(default_factory=set)

    @property
    def raised_at(self) -> datetime:
        """Time of the first alert."""
        return self.drops[0].raised_at

    @property
    def started_at(self) -> datetime:
        """Estimated start: the median of the estimates in the alerts before the first recovery."""
        # Of the whole traffic if possible: a part has fewer answers.
        first = [one for one in self.drops if not self.recovered_at or one.raised_at <= self.recovered_at[0]]
        whole = [one for one in first if not one.labels] or first
        began = median(one.started_at.timestamp() for one in whole)
        return datetime.fromtimestamp(min(began, self.raised_at.timestamp()), self.raised_at.tzinfo)

    @property
    def ended_at(self) -> datetime | None:
        """Time of the last recovery; None while a series has not recovered."""
        return None if self.open_series or not self.recovered_at else self.recovered_at[-1]

    @property
    def parts(self) -> list[Part]:
        """The parts of the traffic that fell, the whole first, then in order of their alerts."""
        found = dict.fromkeys((one.metric, tuple(sorted(one.labels.items()))) for one in self.drops)
        return sorted(found, key=lambda part: len(part[1]))

    @property
    def metrics(self) -> Sequence[str]:
        """The metrics that fell."""
        return list(dict.fromkeys(one.metric for one in self.drops))


def group(alerts: Iterable[Alert]) -> list[Incident]:
    """Group alerts into incidents.

    Args:
        alerts: All known alerts, in any order, possibly repeated.

    Returns:
        Incidents in order of their start.
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
    """Return an incident; None if there is none.

    Args:
        incidents: All incidents, the latest first.
        key: Its id, the id of one of its alerts, or `LATEST`: the latest open one, else the latest.
        metric: With `LATEST`, only incidents in which this metric fell.
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
