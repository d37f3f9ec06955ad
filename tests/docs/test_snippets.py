"""The settings, programs and commands of the pages are valid, and links lead somewhere."""
# ruff: noqa: ASYNC230, ASYNC240 - files of a test are small

from __future__ import annotations

import csv
import re
import shlex
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
import yaml

from judge import QAEvent, Score
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
from judge.metric import ScoredOutcome
from judge.metrics.base import outcome_on, read_scale
from judge.metrics.coverage import MAX_REFERENCE_BYTES
from streams.judging.endpoints import PATIENCE
from streams.judging.metrics import build_metric
from streams.settings.judge import JudgeSettings
from streams.settings.tree import Settings
from tests.places import ROOT
from tests.streams.cli.processes import judgestream

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


OWN_METRICS = (ROOT / "docs" / "own-metrics.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", OWN_METRICS, re.DOTALL)
YAML = [text for kind, text in BLOCKS if kind == "yaml"]
PYTHON = [text for kind, text in BLOCKS if kind == "python"]
FUNCTIONS = "\n\ndef share(event: QAEvent) -> float:\n    return 0.5\n"


@pytest.fixture
def acme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The page's module on the import path, and the files that its settings name."""
    package = tmp_path / "acme"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "metrics.py").write_text(PYTHON[0] + FUNCTIONS)
    (tmp_path / "answer.schema.json").write_text('{"type": "object"}')
    (tmp_path / "packs").mkdir()
    for name in ("tone", "helpful"):
        (tmp_path / "packs" / f"{name}.md").write_text(
            "---\nscore_range: [1, 5]\n---\n{{ item.output_text }}\n"
        )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.usefixtures("acme")
@pytest.mark.parametrize("text", YAML)
def test_the_settings_make_metrics(text: str) -> None:
    """Every metric of the settings can be built."""
    document: dict[str, Any] = yaml.safe_load(text)
    endpoints = [{"name": name, "model": "m"} for name in ("small", "large", "other")]
    settings = Settings.model_validate({**document, "judge": {"endpoints": endpoints}})
    for name, metric in settings.metrics.items():
        assert build_metric(name, metric).name == name


def test_the_labels_of_the_function_are_on_its_scale() -> None:
    """Both labels of the example function are on its scale."""
    module: dict[str, Any] = {}
    exec(PYTHON[0], module)  # noqa: S102 - the page's own words
    labels = yaml.safe_load(YAML[2])["metrics"]["politeness"]["python"]["result"]
    for answer in ("Yes, please.", "No."):
        score = module["politeness"](QAEvent(event_id="e", question="q", answer=answer))
        assert isinstance(score, Score)
        outcome = outcome_on(read_scale(labels, (0, 1)), score.value, "", None)
        assert isinstance(outcome, ScoredOutcome)
        assert outcome.kind == "label"


@pytest.mark.usefixtures("acme", "no_endpoint")
def test_the_program_runs(capsys: pytest.CaptureFixture[str]) -> None:
    """The program runs its function in a child process, without an endpoint."""
    # A longer time limit for busy machines.
    exec(PYTHON[1].replace('"rude"]', '"rude"], seconds=60'), {})  # noqa: S102 - the page's own words
    assert capsys.readouterr().out == "scored scored\n"


SNIPPETS = [
    text
    for page in ("README.md", "docs/library.md")
    for text in re.findall(r"```python\n(from judge .*?)```", (ROOT / page).read_text("utf-8"), re.DOTALL)
]


@pytest.mark.slow
def test_mypy_takes_the_snippets(tmp_path: Path) -> None:
    """The snippets pass mypy --strict in a coroutine; `events` and `frame` are the reader's."""
    assert len(SNIPPETS) == 3
    for number, snippet in enumerate(SNIPPETS):
        body = textwrap.indent(snippet, "    ")
        head = (
            "from typing import Any\n\n\nasync def main(events: list[dict[str, str]], frame: Any) -> None:\n"
        )
        (tmp_path / f"snippet_{number}.py").write_text(head + body)
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--config-file", "", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stdout


OF_FILES = re.findall(
    r"```(\w+)\n(.*?)```", (ROOT / "docs" / "files.md").read_text(encoding="utf-8"), re.DOTALL
)


async def test_the_page_runs_from_top_to_bottom(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each command ends with exit code 0 and writes its files; the limit for CI stops a worse mean."""
    monkeypatch.chdir(tmp_path)
    answers, people = (text for kind, text in OF_FILES if kind == "csv")
    Path("answers.csv").write_text(answers)
    Path("people.csv").write_text(people)
    Path("columns.yaml").write_text(next(text for kind, text in OF_FILES if kind == "yaml"))
    shown = "".join(text for kind, text in OF_FILES if kind == "console").replace("\\\n", "")
    commands = shown.splitlines()
    said = ""
    for command in commands:
        _, *words = shlex.split(command.removeprefix("$ "))
        ended = await judgestream(*words)
        assert ended.code == 0, (command, ended.err)
        said += ended.err
    with Path("results.csv").open(newline="") as handle:
        rows = list(csv.DictReader(handle))
    assert [(row["event_id"], row["question"], row["labels.model"]) for row in rows][:1] == [
        ("1", "Where is the key?", "a")
    ]
    assert "missing: The shop opens at nine" in rows[1]["reason"]
    assert {"report.html", "both.html"} <= {path.name for path in tmp_path.iterdir()}
    assert "of 3 labels equal the judge's score, kappa" in said
    assert "over 3 events scored in both runs" in said
    limit = shlex.split(commands[-1].removeprefix("$ ").replace("coverage=2", "coverage=4.9"))
    ended = await judgestream(*limit[1:], "--overwrite")
    assert ended.code == 1
    assert "--fail-under coverage=4.9: the mean is" in ended.err
