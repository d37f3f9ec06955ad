"""From worse answers to a notification: worker, Prometheus, Alertmanager and the shipped rules.

Every duration of the shipped rules is divided by 240 (`tests/rules/hurry.py`): an hour takes 15 seconds, a
minute between scrapes a quarter of a second. Limits, expressions and labels are unchanged, and Prometheus
scrapes what the worker counted. Response times do not shrink: a scrape has a quarter of a second instead of
ten, and a busy machine misses several in a row; a pause of three seconds is a stuck worker. The alerts on
missing workers and those on no progress are therefore not required to stay silent; promtool's tests cover
them. Two installations run side by side: the answers of one get worse and recover, those of the other stay
good.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.alerting.installation import installation
from tests.alerting.monitoring import monitoring
from tests.integration.deadlines import until

pytestmark = [pytest.mark.tools, pytest.mark.timeout(480)]

_FACTOR = 240
_RATE = 8.0
"""Events a second, about 4.4 of them sampled: some 65 judged answers in an hour of 15 seconds; 30 are
enough."""
_APPS = ("policy", "science")
"""Two apps reach the 50 answers of a baseline sooner than six."""
_OF_PAUSES = {
    "JudgestreamWorkerDown",
    "JudgestreamNoWorker",
    "JudgestreamWorkerStuck",
    "JudgestreamNoProgress",
}
"""Alerts on a pause of the machine; see the module's docstring."""
_ALERT = "JudgestreamDrop"


async def test_a_drop_is_notified_and_calm_traffic_is_not(tmp_path: Path) -> None:
    """The drop alert reaches the webhook and is resolved after the drop; calm traffic of the same length
    fires none.
    """
    async with (
        installation("dropping", rate=_RATE, apps=_APPS) as dropping,
        installation("calm", rate=_RATE, apps=_APPS) as calm,
        monitoring(tmp_path, (dropping.scraped, calm.scraped), factor=_FACTOR) as watch,
    ):

        async def both_have_a_past() -> bool:
            expr = 'judgestream_monitor_state{slice="all", metric="relevance", measure="mean"} == 1'
            return len(await watch.query(expr)) == 2

        await until(both_have_a_past, "a baseline of both installations", deadline_seconds=240)
        assert await watch.rule_errors() == []
        firing = await watch.query('group by (alertname) (max_over_time(ALERTS{alertstate="firing"}[1h]))')
        assert {one["metric"]["alertname"] for one in firing} <= _OF_PAUSES

        dropping.worse = True
        await until(
            lambda: watch.notified("firing", _ALERT, "dropping"),
            "the alert at the webhook",
            deadline_seconds=90,
        )
        told = next(alert for alert in watch.received if alert["labels"]["alertname"] == _ALERT)
        assert told["labels"]["severity"] == "critical"
        assert told["annotations"]["summary"].startswith("Answers got worse: ")
        assert told["annotations"]["runbook_url"].endswith("/alerts.html#judgestreamdrop")

        dropping.worse = False
        await until(
            lambda: watch.notified("resolved", _ALERT, "dropping"), "the resolved alert", deadline_seconds=150
        )

        fired = await watch.query(
            'group by (alertname) (max_over_time(ALERTS{job="calm", alertstate="firing"}[1h]))'
        )
        assert {one["metric"]["alertname"] for one in fired} <= _OF_PAUSES
        told_of = {(alert["labels"]["job"], alert["labels"]["alertname"]) for alert in watch.received}
        assert {job for job, name in told_of if name not in _OF_PAUSES} == {"dropping"}
        assert await watch.rule_errors() == []
