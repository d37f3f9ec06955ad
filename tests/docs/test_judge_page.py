"""The settings of docs/judge.md are valid, and its figures are those of the code."""

from __future__ import annotations

import re

import yaml

from judge.endpoints.endpoint import MISCONFIGURED_SECONDS
from judge.endpoints.health import (
    CHANCE,
    FEW_FAILURES,
    LATEST,
    MOST_NEUTRAL_CALLS,
    NEUTRAL_CALLS,
    OUTAGE_CALLS,
    PAID_TRIES,
    SILENT_SECONDS,
    UNWELL_SHARE,
)
from judge.endpoints.limiter import FIRST_PAUSE_SECONDS
from judge.endpoints.openai_chat import MAX_REPLY_BYTES
from judge.endpoints.options import CONFIRM_SECONDS
from judge.endpoints.retrying import TRIES_BEFORE_NEXT
from judge.evaluate.evaluator import DEFAULT_REPAIR_ATTEMPTS
from judge.metrics.coverage import MAX_REFERENCE_BYTES
from streams.judging.endpoints import PATIENCE
from streams.settings.judge import JudgeSettings
from streams.settings.tree import Settings
from tests.places import ROOT

PAGE = ROOT / "docs" / "judge.md"
TEXT = PAGE.read_text(encoding="utf-8")


def test_the_settings_are_valid() -> None:
    """The example of the page is valid."""
    (block,) = re.findall(r"^```yaml\n(.*?)^```", TEXT, re.DOTALL | re.MULTILINE)
    assert JudgeSettings.model_validate(yaml.safe_load(block)["judge"]).budget.when_spent == "defer"


def test_the_figures_are_those_of_the_code() -> None:
    """The page has the defaults and limits of the code."""
    defaults = JudgeSettings()
    assert f"`judge.timeout_seconds` ({defaults.timeout_seconds:g})" in TEXT
    assert f"{PATIENCE.first_wait_seconds:g} s to {PATIENCE.longest_wait_seconds:g} s" in TEXT
    assert (PATIENCE.breaker_failures, FEW_FAILURES, SILENT_SECONDS) == (10, 3, 3)  # "three within 3 s"
    assert f"each {PATIENCE.longest_breaker_seconds:g} s at most" in TEXT
    assert f"confirmed for {CONFIRM_SECONDS:g} s" in TEXT
    assert f"pauses of {FIRST_PAUSE_SECONDS:g}, 1, 2" in TEXT
    assert f"left out for {MISCONFIGURED_SECONDS / 60:g} minutes" in TEXT
    assert f"a body beyond {MAX_REPLY_BYTES // 2**20} MiB" in TEXT
    assert (TRIES_BEFORE_NEXT, CHANCE) == (2, 1e-4)  # "after two failures", "one in 10,000"
    assert (PAID_TRIES, NEUTRAL_CALLS, MOST_NEUTRAL_CALLS, OUTAGE_CALLS) == (3, 4, 9, 5)
    assert f"the latest {LATEST}" in TEXT
    assert f"more than {UNWELL_SHARE:.0%} of its events" in TEXT
    assert DEFAULT_REPAIR_ATTEMPTS == 2  # "two repair turns"
    assert f"more than {MAX_REFERENCE_BYTES:,}\n  bytes" in TEXT


def test_links_lead_somewhere() -> None:
    """Links lead to existing pages."""
    for name in re.findall(r"\]\((?!http)([^)#]+)", TEXT):
        assert (PAGE.parent / name).exists(), name


def test_the_example_of_a_judge_for_each_metric_is_valid() -> None:
    """The example of the page is valid."""
    section = TEXT.partition("## Which judge for which metric")[2].partition("\n## ")[0]
    example = "\n".join(line[4:] for line in section.splitlines() if line.startswith("    "))
    settings = Settings.model_validate(yaml.safe_load(example))
    assert settings.metrics["relevance"].endpoints == ("small", "large")
