"""The shipped rules and alerts on Prometheus' own engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.helm.chart import manifests, of_kind
from tests.rules.rule_files import RULE_FILES, TEST_FILES, hurried, load
from tests.rules.situations import promtool_test, table
from tests.toolbox import run, tool

pytestmark = [pytest.mark.tools, pytest.mark.timeout(600)]
_SITUATIONS = table()["situations"]
_WITHOUT_SCORES = {f"judgestream-{name}" for name in ("scores", "scores-long", "drop", "objective")}
"""Groups whose rules have no input in the situations; they would take half of the time."""


def test_promtool_accepts_the_rules() -> None:
    run(tool("promtool"), "check", "rules", "--lint=all", "--lint-fatal", *RULE_FILES)


@pytest.mark.parametrize("path", TEST_FILES, ids=lambda path: path.stem)
def test_the_promtool_tests_pass(path: Path) -> None:
    run(tool("promtool"), "test", "rules", path)


def test_hurried_rules_do_the_same(tmp_path: Path) -> None:
    """With an hour made a minute, the tests of the drop alerts pass."""
    (tmp_path / "tests").mkdir()
    quality = next(path for path in TEST_FILES if path.stem == "quality")
    for path, name in ((quality, "tests/quality.yaml"), *((path, path.name) for path in RULE_FILES)):
        text = hurried(path.read_text(encoding="utf-8"), 60)
        (tmp_path / name).write_text(text, encoding="utf-8")
    run(tool("promtool"), "test", "rules", tmp_path / "tests" / "quality.yaml")


@pytest.mark.parametrize("row", _SITUATIONS, ids=lambda row: row["what"])
def test_in_each_situation_these_alerts_fire_and_no_other(row: dict[str, Any], tmp_path: Path) -> None:
    """The alerts of the table fire at the end, and no other ever; a row may name values of the chart."""
    if "chart" in row:
        (tmp_path / "values.yaml").write_text(yaml.safe_dump(row["chart"]), encoding="utf-8")
        shown = manifests("--set=prometheusRule.enabled=true", f"--values={tmp_path / 'values.yaml'}")
        documents = [one["spec"] for one in of_kind(shown, "PrometheusRule")]
    else:
        documents = [load(path) for path in RULE_FILES]
    groups = [
        group
        for document in sorted(documents, key=lambda one: "alert" in one["groups"][0]["rules"][0])
        for group in document["groups"]
        if group["name"] not in _WITHOUT_SCORES
    ]
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump({"groups": groups}), encoding="utf-8")
    document = {
        "rule_files": ["rules.yaml"],
        "evaluation_interval": "1m",
        "group_eval_order": [group["name"] for group in groups],
        "tests": [promtool_test(row)],
    }
    (tmp_path / "test.yaml").write_text(yaml.safe_dump(document), encoding="utf-8")
    run(tool("promtool"), "test", "rules", tmp_path / "test.yaml")
