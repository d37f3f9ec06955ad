"""Every expression of the dashboards on Prometheus' engine, over metrics made by the worker's code."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from generate.dashboards.files import FOLDER
from tests.generate.dashboards.promql import plain
from tests.generate.dashboards.traffic import JOB, MINUTES, PLAIN_JOB, input_series
from tests.rules.rule_files import FILES, rules
from tests.toolbox import run, tool

_WINDOWS = ("5m", "1h", "1d")
# The variables for "All" and for one value.
_ALL = {
    **dict.fromkeys(("job", "instance", "metric", "app", "model", "endpoint"), ".*"),
    "__interval": "1m",
    "__rate_interval": "4m",
}
_CHOSEN = {
    **_ALL,
    "job": JOB,
    "instance": "(worker-0:8080|worker-1:8080)",
    "metric": "relevance",
    "app": "support",
    "model": "small-2",
    "endpoint": "primary",
}
_NO_LABELS = {**_ALL, "job": PLAIN_JOB}
# Panels without data if the settings name no event labels; each says so.
_NEED_LABELS = {"Mean by app", "Mean by model", "Mean by prompt_version", "Worst labels, last hour"}
# The worker without labels keeps its evaluator.
_NEED_MORE = _NEED_LABELS | {"Evaluator changes"}
# Panels and annotations without data here, each with its reason.
_WITHOUT_DATA: Mapping[str, str] = {}


def _queries() -> Iterator[tuple[str, str]]:
    """Title and expression of every query, annotations included."""
    for path in sorted(FOLDER.glob("*.json")):
        document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        for panel in document["panels"]:
            for target in panel.get("targets", ()):
                yield panel["title"], target["expr"]
        for mark in document["annotations"]["list"]:
            yield mark["name"], mark["expr"]


def _expressions() -> dict[str, str]:
    """Each expression once, with a title that uses it."""
    found: dict[str, str] = {}
    for title, expr in _queries():
        for values in (_ALL, _CHOSEN, _NO_LABELS):
            if title in _WITHOUT_DATA or (values is _NO_LABELS and title in _NEED_MORE):
                continue
            for window in _WINDOWS:
                found.setdefault(plain(expr, {**values, "window": window}), title)
    return found


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Run promtool once over some hours; returns its findings."""
    folder = tmp_path_factory.mktemp("promtool")
    recorded = [rule["record"] for rule in rules(FILES / "rules.yaml")]
    exprs = [*_expressions(), *recorded]
    # Only the presence of data counts; other tests check the numbers of the rules.
    tests = [
        {
            "expr": f"count({expr}) > bool 0",
            "eval_time": f"{MINUTES - 1}m",
            "exp_samples": [{"labels": "{}", "value": 1}],
        }
        for expr in exprs
    ]
    document = {
        "rule_files": [str(FILES / "rules.yaml"), str(FILES / "alerts.yaml")],
        "evaluation_interval": "1m",
        "tests": [{"interval": "1m", "input_series": input_series(), "promql_expr_test": tests}],
    }
    file = folder / "tests.yaml"
    file.write_text(json.dumps(document), encoding="utf-8")  # JSON is YAML, and faster to write
    return run(tool("promtool"), "test", "rules", file)


@pytest.mark.tools
@pytest.mark.timeout(600)
def test_every_expression_returns_data(answers: str) -> None:
    assert "SUCCESS" in answers


@pytest.mark.tools
def test_promtool_reads_every_expression(tmp_path: Path) -> None:
    promtool = tool("promtool")
    file = tmp_path / "rules.yaml"
    listed = [
        {"record": f"panel:expression:{index}", "expr": expr} for index, expr in enumerate(_expressions())
    ]
    file.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": listed}]}), encoding="utf-8")
    assert f"{len(listed)} rules found" in run(promtool, "check", "rules", "--lint=none", file)
    listed[0]["expr"] = "sum by (job (up)"
    file.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": listed}]}), encoding="utf-8")
    with pytest.raises(AssertionError, match="parse error"):
        run(promtool, "check", "rules", "--lint=none", file)
