"""The form of rules and alerts; needs no tool."""

from __future__ import annotations

import re
from typing import Any

import pytest

from generate.dashboards.common import RUNBOOKS as RUNBOOKS_URL
from streams.telemetry.catalogue import CATALOGUE
from tests.places import ROOT
from tests.rules.rule_files import FILES, RULE_FILES, TEST_FILES, expectations, hurried, load, names, rules

RUNBOOKS = (ROOT / "docs" / "alerts.md").read_text(encoding="utf-8")
ALERTS = {rule["alert"]: rule for rule in rules(FILES / "alerts.yaml")}
RECORDED = [rule["record"] for rule in rules(FILES / "rules.yaml")]
each_alert = pytest.mark.parametrize("alert", ALERTS.values(), ids=ALERTS)


@each_alert
def test_an_alert_has_a_severity_and_a_description(alert: dict[str, Any]) -> None:
    name, notes = alert["alert"], alert["annotations"]
    assert alert["labels"]["severity"] in {"critical", "warning"}
    assert 20 <= len(notes["summary"]) <= 180
    assert notes["summary"].endswith(".")
    assert "{{ $labels.job }}" in notes["summary"]
    assert re.search(r"\$value|\d", notes["description"])
    assert notes["runbook_url"] == f"{RUNBOOKS_URL}#{name.lower()}"


@each_alert
def test_an_alert_has_a_runbook(alert: dict[str, Any]) -> None:
    assert set(re.findall(r"^### (\w+)$", RUNBOOKS, flags=re.MULTILINE)) == set(ALERTS)
    chapter = re.split(r"^##", RUNBOOKS.split(f"### {alert['alert']}\n")[1], flags=re.MULTILINE)[0]
    for part in ("**Means.**", "**First look.**", "**Likely causes.**", "**Do.**"):
        assert part in chapter, part


@each_alert
def test_an_alert_is_seen_to_fire_to_be_silent_and_to_recover(alert: dict[str, Any]) -> None:
    histories: dict[str, list[bool]] = {}
    for test, name, fires in expectations():
        if name == alert["alert"]:
            histories.setdefault(test, []).append(fires)
    assert any(
        not history[0] and any(history) and not history[-1] and len(history) >= 3
        for history in histories.values()
    )


def test_promtool_tests_speak_of_alerts_that_exist() -> None:
    """A misspelt one would always be silent."""
    assert {name for _, name, _ in expectations()} == set(ALERTS)


def test_every_recorded_series_is_well_named() -> None:
    assert len(set(RECORDED)) == len(RECORDED)
    for name in RECORDED:
        assert re.fullmatch(r"[a-z_]+:judgestream_[a-z_]+:[a-z0-9_]+", name), name


@pytest.mark.parametrize("file", ["rules.yaml", "alerts.yaml"])
def test_rules_use_existing_series(file: str) -> None:
    known = {spec.name for spec in CATALOGUE} | set(RECORDED)
    for rule in rules(FILES / file):
        assert names(rule["expr"]) <= known, rule


def test_promtool_tests_order_the_groups() -> None:
    """It is random otherwise."""
    groups = {group["name"] for path in RULE_FILES for group in load(path)["groups"]}
    for path in TEST_FILES:
        assert set(load(path)["group_eval_order"]) <= groups, path


def test_hurried_rules_keep_their_names() -> None:
    rule = "record: x:y:mean1h\nexpr: sum_over_time(x:y:increase1h[7d:1h] offset 6h)\nfor: 5m\ninterval: 1m"
    assert hurried(rule, 60) == (
        "record: x:y:mean1h\nexpr: sum_over_time(x:y:increase1h[10080s:60s] offset 360s)\nfor: "
        "5s\ninterval: 1s"
    )
    with pytest.raises(ValueError, match="factor must divide every duration, got 7 for 1m"):
        hurried("for: 1m", 7)
