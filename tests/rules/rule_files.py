"""Reads rules, alerts and their promtool tests; shorter durations let a test with Prometheus watch hours."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from tests.places import ROOT

FILES = ROOT / "helm" / "files"
RULE_FILES = (FILES / "rules.yaml", FILES / "alerts.yaml")
TEST_FILES = tuple(sorted((FILES / "tests").glob("*.yaml")))

_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_NAME = re.compile(r"\b(?:\w+:)?judgestream_\w+(?::\w+)?")
_PARTS_OF_A_HISTOGRAM = re.compile(r"_(bucket|count|sum)$")
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_DURATION = r"(?:\d+[smhdw])+"
# Only durations; windows in the names of recorded series stay.
_PLACES = re.compile(
    rf"(?P<before>\[|:(?=\d+[smhdw]\])|offset |(?:\w*interval|for|keep_firing_for|eval_time): )(?P<time>{_DURATION})"  # noqa: E501
)


def load(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def rules(path: Path) -> list[dict[str, Any]]:
    return [rule for group in load(path)["groups"] for rule in group["rules"]]


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


def seconds_of(duration: str) -> int:
    """Return a Prometheus duration in seconds."""
    return sum(int(count) * _UNITS[unit] for count, unit in re.findall(r"(\d+)([smhdw])", duration))


def hurried(text: str, factor: int) -> str:
    """Divide every duration in YAML of rules or promtool tests; each must then be whole milliseconds."""

    def shorter(match: re.Match[str]) -> str:
        milliseconds, rest = divmod(1000 * seconds_of(match["time"]), factor)
        if rest:
            raise ValueError(
                f"factor must divide every duration, got {factor} for {match['time']}; choose another"
            )
        shown = f"{milliseconds // 1000}s" if milliseconds % 1000 == 0 else f"{milliseconds}ms"
        return f"{match['before']}{shown}"

    return _PLACES.sub(shorter, text)
