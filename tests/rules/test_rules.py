"""The shipped rules and alerts on Prometheus' own engine."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.rules.hurry import hurried
from tests.rules.rule_files import RULE_FILES, TEST_FILES
from tests.toolbox import run, tool

pytestmark = [pytest.mark.tools, pytest.mark.timeout(600)]


def test_promtool_accepts_the_rules() -> None:
    """Promtool's linter accepts the rules."""
    run(tool("promtool"), "check", "rules", "--lint=all", "--lint-fatal", *RULE_FILES)


def test_promtool_refuses_a_broken_rule(tmp_path: Path) -> None:
    """Promtool refuses a rule that does not parse."""
    file = tmp_path / "rules.yaml"
    file.write_text(
        RULE_FILES[0].read_text(encoding="utf-8").replace("sum without", "sum wihtout"), encoding="utf-8"
    )
    with pytest.raises(AssertionError, match="parse error"):
        run(tool("promtool"), "check", "rules", "--lint=all", "--lint-fatal", file)


@pytest.mark.parametrize("path", TEST_FILES, ids=lambda path: path.stem)
def test_the_promtool_tests_pass(path: Path) -> None:
    """The promtool tests pass: numbers derived by hand, and alerts that fire, stay silent and recover."""
    run(tool("promtool"), "test", "rules", path)


def test_hurried_rules_do_the_same(tmp_path: Path) -> None:
    """With an hour made a minute, the tests of the drop alerts pass."""
    (tmp_path / "tests").mkdir()
    quality = next(path for path in TEST_FILES if path.stem == "quality")
    for path, name in ((quality, "tests/quality.yaml"), *((path, path.name) for path in RULE_FILES)):
        text = hurried(path.read_text(encoding="utf-8"), 60)
        (tmp_path / name).write_text(text, encoding="utf-8")
    run(tool("promtool"), "test", "rules", tmp_path / "tests" / "quality.yaml")
