"""The form of rules and alerts; needs no tool."""

from __future__ import annotations

import re
from typing import Any

import pytest

from generate.dashboards.common import RUNBOOKS as RUNBOOKS_URL
from streams.telemetry.catalogue import CATALOGUE
from tests.rules.hurry import hurried
from tests.rules.rule_files import (
    FILES,
    RUNBOOKS,
    TEST_FILES,
    alerts,
    expectations,
    headings,
    load,
    names,
    recorded,
    rules,
)

ALERTS = alerts()
CATALOGUED = {spec.name for spec in CATALOGUE}
each_alert = pytest.mark.parametrize("alert", ALERTS.values(), ids=ALERTS)


@each_alert
def test_an_alert_has_a_severity_and_a_description(alert: dict[str, Any]) -> None:
    """An alert has a severity, a summary sentence, a description with a number, and its runbook."""
    name, notes = alert["alert"], alert["annotations"]
    assert alert["labels"]["severity"] in {"critical", "warning"}
    assert 20 <= len(notes["summary"]) <= 180
    assert notes["summary"].endswith(".")
    assert "{{ $labels.job }}" in notes["summary"]
    assert re.search(r"\$value|\d", notes["description"])
    assert notes["runbook_url"] == f"{RUNBOOKS_URL}#{name.lower()}"


@each_alert
def test_an_alert_has_a_runbook(alert: dict[str, Any]) -> None:
    """The runbook has the alert's heading with meaning, first look, likely causes and actions."""
    text = RUNBOOKS.read_text(encoding="utf-8")
    assert headings() == set(ALERTS)
    chapter = re.split(r"^##", text.split(f"### {alert['alert']}\n")[1], flags=re.MULTILINE)[0]
    for part in ("**Means.**", "**First look.**", "**Likely causes.**", "**Do.**"):
        assert part in chapter, part


@each_alert
def test_an_alert_is_seen_to_fire_to_be_silent_and_to_recover(alert: dict[str, Any]) -> None:
    """A promtool test expects the alert silent, firing and silent again."""
    histories: dict[str, list[bool]] = {}
    for test, name, fires in expectations():
        if name == alert["alert"]:
            histories.setdefault(test, []).append(fires)
    assert any(
        not history[0] and any(history) and not history[-1] and len(history) >= 3
        for history in histories.values()
    )


def test_promtool_tests_speak_of_alerts_that_exist() -> None:
    """Promtool tests name only existing alerts; a misspelt one would always be silent."""
    assert {name for _, name, _ in expectations()} == set(ALERTS)


def test_every_recorded_series_is_well_named() -> None:
    series = [rule["record"] for rule in rules(FILES / "rules.yaml")]
    assert len(set(series)) == len(series)
    for name in series:
        assert re.fullmatch(r"[a-z_]+:judgestream_[a-z_]+:[a-z0-9_]+", name), name


@pytest.mark.parametrize("file", ["rules.yaml", "alerts.yaml"])
def test_rules_use_existing_series(file: str) -> None:
    known = CATALOGUED | recorded()
    for rule in rules(FILES / file):
        assert names(rule["expr"]) <= known, rule


def test_promtool_tests_order_the_groups() -> None:
    """Every promtool test sets the order of the groups, which is otherwise random."""
    groups = {
        group["name"] for file in ("rules.yaml", "alerts.yaml") for group in load(FILES / file)["groups"]
    }
    for path in TEST_FILES:
        assert set(load(path)["group_eval_order"]) <= groups, path


def test_hurried_rules_keep_their_names() -> None:
    """Durations are divided; windows in names are kept."""
    rule = "record: x:y:mean1h\nexpr: sum_over_time(x:y:increase1h[7d:1h] offset 6h)\nfor: 5m\ninterval: 1m"
    assert hurried(rule, 60) == (
        "record: x:y:mean1h\nexpr: sum_over_time(x:y:increase1h[10080s:60s] offset 360s)\nfor: "
        "5s\ninterval: 1s"
    )
    with pytest.raises(ValueError, match="factor must divide every duration, got 7 for 1m"):
        hurried("for: 1m", 7)
