"""One incident instead of its alerts: on a card, in the worker's log, in `judgestream tail`."""

from __future__ import annotations

from datetime import UTC, datetime

from structlog.testing import capture_logs

from schemas import Alert
from streams.cli.records import RecordLines
from streams.settings.broker import TopicSettings
from streams.store.views.causes import Cause, Fall
from streams.store.views.incidents import Folding, group
from streams.store.views.report import IncidentReport, MetricReport, card
from streams.worker.agents import tell_incident
from tests.streams.records import make_record
from tests.streams.results import alert

WORDS = "relevance of all answers fell from 4.47 to 1.30 (95% interval 1.03-2.85) since about 14:00 UTC"
DROPS = [
    alert("part-first", labels={"app": "docs"}, seconds=1),
    alert("whole", summary=WORDS, seconds=2, link="http://explorer/explore/incident/whole"),
    *(alert(f"p{number}", labels={"app": f"app-{number}"}, seconds=3 + number) for number in range(36)),
]
RECOVERED = [
    alert(f"up-{one.alert_id}", "recovered", labels=dict(one.labels), seconds=100 + number)
    for number, one in enumerate(DROPS)
]


def report() -> IncidentReport:
    """A report of a fall by 3.00, 2.40 of it by a new prompt."""
    cause = Cause(
        kind="new", where=(("prompt_version", "v8"),), contribution=2.4, error=0.2,
        before=None, after=1, share_before=0, share_after=0.8,
    )  # fmt: skip
    finding = Fall(before=4.47, after=1.47, fall=3, low=2, high=4, causes=(cause,), mix={})
    return IncidentReport(
        group(DROPS)[0], (MetricReport(metric="relevance", finding=finding, judged=(9, 9)),)
    )


def test_the_card_leads_with_the_whole_traffic_the_cause_and_the_folded_parts() -> None:
    """38 alerts are four lines; 2.40 of 3.00 points are 80%, and 37 parts are folded after three."""
    assert card(group(DROPS)[0], report(), "http://explorer") == [
        WORDS,
        "cause: prompt_version=v8 is new (80% of the fall of 3.00)",
        "also: relevance of app=docs, relevance of app=app-0, relevance of app=app-1 and 34 more",
        "http://explorer",
    ]


def test_the_log_has_one_warning_for_the_start_and_one_for_the_end() -> None:
    folding = Folding()
    with capture_logs() as lines:
        known = {tell_incident(folding, one) for one in (*DROPS, *RECOVERED)}
    assert known == {group(DROPS)[0].incident_id}
    warned = [line for line in lines if line["log_level"] == "warning"]
    assert [line["event"] for line in warned] == ["incident", "incident is over"]
    assert len({line["incident"] for line in lines}) == 1
    assert warned[1]["summary"] == "relevance fell, 38 parts affected"


def test_tail_leads_with_the_incident() -> None:
    write = RecordLines(TopicSettings()).line

    def line(one: Alert) -> str:
        timestamp = datetime(2026, 1, 1, tzinfo=UTC).timestamp()
        value = one.model_dump_json().encode()
        record = make_record(value, topic="qa.alerts", offset=1, timestamp=timestamp)
        return write(record).removeprefix("00:00:00 0@1 ")

    lines = [line(one) for one in (*DROPS[1:], *RECOVERED[1:])]
    assert lines[0] == f"INCIDENT whole: {WORDS}; http://explorer/explore/incident/whole"
    assert lines[1] == "part whole: relevance of app=app-0: 4.00 to 4.00"
    assert lines[-1] == "INCIDENT whole is over: relevance fell, 37 parts affected"
    assert sum(text.startswith("INCIDENT") for text in lines) == 2
    assert line(alert("late", "recovered", labels={"app": "x"})).startswith(
        "recovered of an earlier incident"
    )
