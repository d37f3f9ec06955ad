from __future__ import annotations

from datetime import timedelta
from random import Random
from typing import Any

import pytest

from schemas import Alert
from streams.store.views.incidents.grouping import LATEST, QUIET, find, group
from tests.streams.results import alert as any_alert
from tests.streams.results import at


def alert(
    name: str, raised: float, *, started: float = 0, kind: str = "drop", labels: Any = (), **further: Any
) -> Alert:
    """Return an alert that was raised this many seconds after START."""
    fields = {"labels": dict(labels), "fingerprint": "f1", "started_at": at(started), **further}
    return any_alert(f"{name:0>32}", kind, raised, **fields)


def _apps(*names: str) -> list[dict[str, str]]:
    return [{"app": name} for name in names]


def test_one_cause_is_one_incident_in_whatever_order_its_alerts_come() -> None:
    """Alerts of two metrics and three apps are one incident, in any order and repeated.

    The id is that of the first alert.
    """
    alerts = [alert("1", 30), alert("2", 31, metric="coverage")]
    alerts += [
        alert(str(3 + number), 40 + number * 60, labels=labels)
        for number, labels in enumerate(_apps("x", "y", "z"))
    ]
    shuffled = alerts * 2
    Random(1).shuffle(shuffled)
    [incident] = group(shuffled)
    assert incident.incident_id == "000000000000"
    assert len(incident.drops) == 5
    assert incident.parts[:2] == [("relevance", ()), ("coverage", ())]
    assert len(incident.parts) == 5
    assert incident.started_at == at(0)
    assert incident.ended_at is None


def test_an_incident_ends_when_its_last_series_has_recovered() -> None:
    labels = {"app": "x"}
    alerts = [alert("1", 30), alert("2", 40, labels=labels), alert("3", 200, kind="recovered")]
    assert group(alerts)[0].ended_at is None
    [incident] = group([*alerts, alert("4", 300, kind="recovered", labels=labels)])
    assert incident.ended_at == at(300)


@pytest.mark.parametrize(("later", "incidents"), [(QUIET, 1), (QUIET + timedelta(seconds=1), 2)])
def test_a_drop_that_begins_much_later_is_another_incident(later: timedelta, incidents: int) -> None:
    """A drop more than QUIET after the last alert of an incident is another incident."""
    begin = 30 + later.total_seconds()
    assert len(group([alert("1", 30), alert("2", begin + 5, started=begin, metric="coverage")])) == incidents


def test_a_recovery_without_its_drop_is_nothing() -> None:
    """A recovery without its drop, which may be deleted, is no incident."""
    assert group([alert("1", 30, kind="recovered")]) == []


def test_each_alert_leads_to_its_incident() -> None:
    """An incident is found by the id of each of its alerts and by its own."""
    first = [alert("1", 30), alert("2", 40, metric="coverage"), alert("3", 200, kind="recovered")]
    incidents = group([*first, alert("4", 9_000, started=8_900)])[::-1]
    assert [find(incidents, one.alert_id) for one in first] == [incidents[1]] * 3
    assert find(incidents, f"{4:0>32}") is incidents[0]
    assert find(incidents, incidents[1].incident_id) is not None
    assert find(incidents, "5" * 32) is None


def test_latest_prefers_an_open_incident() -> None:
    """`latest` finds the latest incident that has not ended, else the latest one.

    Relevance fell twice and recovered twice; coverage fell in the first incident and has not recovered.
    """
    alerts = [alert("1", 30), alert("2", 40, metric="coverage"), alert("3", 200, kind="recovered")]
    alerts += [alert("4", 9_000, started=8_900), alert("5", 9_100, kind="recovered")]
    second, first = incidents = group(alerts)[::-1]
    assert find(incidents, LATEST) is first
    assert find(incidents, LATEST, metric="coverage") is first
    assert find([second], LATEST, metric="relevance") is second
    assert find([second], LATEST, metric="coverage") is None
    assert find([], LATEST) is None
