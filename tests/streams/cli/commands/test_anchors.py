"""`judgestream anchors`: its usage errors name the option and the remedy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.streams.cli.conftest import Command


def test_add_names_the_metrics_that_have_a_judge(command: Command, written: Callable[..., Path]) -> None:
    settings = written(metrics={"coverage": {}, "length": {"code": {"json_valid": {}}}})
    for wrong in ("relevance", "length"):
        ended = command("anchors", "add", "--metric", wrong, "--config", settings)
        assert ended.code == 2
        assert f"--metric must be one with a judge (coverage), got {wrong!r}" in ended.err
    ended = command("anchors", "add", "--metric", "coverage", "--config", settings, "--store", "none.sqlite3")
    assert ended.code == 2
    assert "there is no store at none.sqlite3" in ended.err
    ended = command("anchors", "add", "--metric", "coverage", "--count", "19", "--config", settings)
    assert ended.code == 2
    assert "20" in ended.err
