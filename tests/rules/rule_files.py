"""Reads rules, alerts, their promtool tests and their runbooks."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from tests.places import ROOT
from tests.rules.hurry import seconds_of

FILES = ROOT / "helm" / "files"
RUNBOOKS = ROOT / "docs" / "alerts.md"
RULE_FILES = (FILES / "rules.yaml", FILES / "alerts.yaml")
TEST_FILES = tuple(sorted((FILES / "tests").glob("*.yaml")))

_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_NAME = re.compile(r"\b(?:\w+:)?judgestream_\w+(?::\w+)?")
_PARTS_OF_A_HISTOGRAM = re.compile(r"_(bucket|count|sum)$")


def load(path: Path) -> Any:
    """Read a YAML file."""
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def rules(path: Path) -> list[dict[str, Any]]:
    """All rules of a file, in order."""
    return [rule for group in load(path)["groups"] for rule in group["rules"]]


def alerts() -> dict[str, dict[str, Any]]:
    """The alerts by name."""
    return {rule["alert"]: rule for rule in rules(FILES / "alerts.yaml")}


def recorded() -> set[str]:
    """Names of the recorded series."""
    return {rule["record"] for rule in rules(FILES / "rules.yaml")}


def names(expr: str) -> set[str]:
    """The project's series in an expression: recorded ones, and metrics without a histogram's suffix."""
    found = set(_NAME.findall(_STRING.sub('""', expr)))
    return {name if ":" in name else _PARTS_OF_A_HISTOGRAM.sub("", name) for name in found}


def expectations() -> list[tuple[str, str, bool]]:
    """The expectations of promtool tests by time: test name, alert name, whether it fires."""
    found: list[tuple[str, str, bool]] = []
    for path in TEST_FILES:
        for test in load(path)["tests"]:
            cases = sorted(test.get("alert_rule_test", ()), key=lambda case: seconds_of(case["eval_time"]))
            found.extend((test["name"], case["alertname"], bool(case["exp_alerts"])) for case in cases)
    return found


def headings() -> set[str]:
    """The runbooks' headings."""
    text = RUNBOOKS.read_text(encoding="utf-8")
    return set(re.findall(r"^### (\w+)$", text, flags=re.MULTILINE))
