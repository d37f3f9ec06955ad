from __future__ import annotations

import csv
import re
import shlex
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
import yaml

from judge import QAEvent, Score
from judge.endpoints import health
from judge.endpoints.endpoint import MISCONFIGURED_SECONDS
from judge.endpoints.lane import KEPT_SECONDS, TAKE_OVER_FACTOR
from judge.endpoints.limiter import FIRST_PAUSE_SECONDS
from judge.endpoints.openai_chat import MAX_REPLY_BYTES
from judge.endpoints.options import CONFIRM_SECONDS
from judge.endpoints.retrying import TRIES_BEFORE_NEXT
from judge.evaluate.evaluator import DEFAULT_REPAIR_ATTEMPTS
from judge.metric import ScoredOutcome
from judge.metrics.base import outcome_on, read_scale
from judge.metrics.coverage import MAX_REFERENCE_BYTES
from streams.judging.agent import WAITING_BATCHES, WAITING_BYTES
from streams.judging.endpoints import PATIENCE
from streams.judging.metrics import build_metric
from streams.settings.judge import BatchSettings, JudgeSettings, LaneSettings
from streams.settings.load import load_settings
from streams.settings.tree import Settings
from streams.worker.run import CLOSE_SECONDS, stop_seconds
from tests.places import ROOT, blocks
from tests.streams.cli.processes import call
from tests.toolbox import run, tool

DEPLOY = ROOT / "docs" / "deploy.md"
PAGES = (DEPLOY, ROOT / "docs" / "scaling.md", ROOT / "docs" / "upgrading.md")
UNIT = ROOT / "deploy" / "systemd" / "judgestream.service"


def documents(heading: str) -> list[dict[str, Any]]:
    found = [yaml.safe_load(block) for block in blocks(DEPLOY, "yaml") if block.startswith(f"# {heading}\n")]
    assert found, heading
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_have_these_options(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for line in re.findall(
        r"judgestream ((?:[a-z][\w.-]* ?|--?[a-z-]+ ?|[A-Z/][\w/.]* ?)+)", page.read_text(encoding="utf-8")
    ):
        words = line.split()
        command = [words[0], words[1]] if words[0] == "config" else words[:1]
        if command[0] not in {"health", "topics", "doctor", "judge", "worker", "config"} or words[1:2] == [
            "before"
        ]:
            continue
        assert call(*command, "--help") == 0, line
        shown = capsys.readouterr().out
        for option in re.findall(r"--[a-z-]+", line):
            assert option in shown, line


def test_the_cases_for_ci_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The commands of the section pass on its files, without a key; with another rate two cases fail."""
    monkeypatch.chdir(tmp_path)
    for name in ("cases.yaml", "settings.yaml"):
        (text,) = (block for block in blocks(DEPLOY, "yaml") if block.startswith(f"# {name}\n"))
        Path(name).write_text(text)
    commands = [line.split()[2:] for line in blocks(DEPLOY, "console") for line in line.splitlines()]
    shown = [words for words in commands if words[:1] == ["config"] and words[1] in ("check", "test")]
    assert [words[1] for words in shown] == ["check", "test"]
    for words in shown:
        assert call(*words) == 0, capsys.readouterr()
    Path("settings.yaml").write_text(
        Path("settings.yaml").read_text().replace("default_rate: 0.1", "default_rate: 0.2")
    )
    assert call("config", "test", "cases.yaml") == 1
    assert "probability: expected 0.1, found 0.2" in capsys.readouterr().out


def test_targets_of_make_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for page in PAGES:
        for target in re.findall(r"(?:\$ |`)make ([a-z-]+)", page.read_text(encoding="utf-8")):
            assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def test_the_settings_are_valid(tmp_path: Path) -> None:
    of_chart = [one["config"] for one in documents("values.yaml")]
    for number, document in enumerate([*documents("/etc/judgestream/config.yaml"), *of_chart]):
        (tmp_path / f"{number}.yaml").write_text(yaml.safe_dump(document))
        load_settings(tmp_path / f"{number}.yaml", {})


def test_the_sampling_budget_of_the_page_is_valid(tmp_path: Path) -> None:
    (text,) = (one for one in blocks(ROOT / "docs/scaling.md", "yaml") if "budget" in one)
    (tmp_path / "settings.yaml").write_text(text)
    settings = load_settings(tmp_path / "settings.yaml", {})
    assert settings.sampling.most == {"gold": 1, "agents": 1, "default": 1}
    assert [name for name, _ in settings.limits] == ["sampling.budget"]


def test_the_unit_fits_the_program_and_the_page() -> None:
    lines = [line for line in UNIT.read_text(encoding="utf-8").splitlines() if re.match(r"\w+=", line)]
    unit = dict(line.split("=", 1) for line in lines)
    assert (
        unit["ExecStart"] == "/opt/judgestream/bin/judgestream worker --config /etc/judgestream/config.yaml"
    )
    assert unit["RestartPreventExitStatus"] == "2"
    assert int(unit["TimeoutStopSec"]) > stop_seconds(Settings()) + CLOSE_SECONDS
    (document,) = documents("/etc/judgestream/config.yaml")
    credential, source = unit["LoadCredential"].split(":")
    key = document["judge"]["endpoints"][0]["api_key_file"]
    assert key == f"/run/credentials/{UNIT.name}/{credential}"
    assert source in DEPLOY.read_text(encoding="utf-8")
    assert document["judge"]["cache"]["file"].startswith(f"/var/cache/{unit['CacheDirectory']}/")


@pytest.mark.tools
def test_systemd_takes_the_unit_and_rates_its_exposure_as_documented(tmp_path: Path) -> None:
    text = UNIT.read_text(encoding="utf-8")
    unit, analyze = tmp_path / UNIT.name, tool("systemd-analyze")
    unit.write_text(re.sub(r"^ExecStart=\S+", "ExecStart=/bin/true", text, flags=re.MULTILINE))
    assert run(analyze, "verify", "--man=no", unit) == ""
    said = run(analyze, "security", "--no-pager", "--offline=true", "--threshold=12", unit)
    level = re.search(r"exposure level for judgestream.service: ([\d.]+)", said)
    assert level is not None, said
    assert f"says {level[1]} of 10" in " ".join(DEPLOY.read_text(encoding="utf-8").split())


PAGE = ROOT / "docs" / "judge.md"
TEXT = PAGE.read_text(encoding="utf-8")


def test_the_settings_of_the_judge_page_are_valid() -> None:
    valid = [JudgeSettings.model_validate(yaml.safe_load(block)["judge"]) for block in blocks(PAGE, "yaml")]
    assert valid[0].budget.when_spent == "defer"
    assert valid[1].endpoints[0].lane == LaneSettings(batch=BatchSettings())
    assert f"`price_factor` ({LaneSettings(tier='flex').price_factor:g})" in TEXT
    assert (TAKE_OVER_FACTOR, KEPT_SECONDS, WAITING_BATCHES, WAITING_BYTES) == (8, 3600, 4, 256 * 2**20)


def test_the_figures_are_those_of_the_code() -> None:
    defaults = JudgeSettings()
    assert f"`judge.timeout_seconds` ({defaults.timeout_seconds:g})" in TEXT
    assert f"{PATIENCE.first_wait_seconds:g} s to {PATIENCE.longest_wait_seconds:g} s" in TEXT
    assert (health.FEW_FAILURES, health.SILENT_SECONDS) == (3, 3)  # "three within 3 s"
    assert PATIENCE.breaker_failures == 10
    assert f"each {PATIENCE.longest_breaker_seconds:g} s at most" in TEXT
    assert f"confirmed for {CONFIRM_SECONDS:g} s" in TEXT
    assert f"pauses of {FIRST_PAUSE_SECONDS:g}, 1, 2" in TEXT
    assert f"left out for {MISCONFIGURED_SECONDS / 60:g} minutes" in TEXT
    assert f"a body beyond {MAX_REPLY_BYTES // 2**20} MiB" in TEXT
    assert (TRIES_BEFORE_NEXT, health.CHANCE) == (2, 1e-4)  # "after two failures", "one in 10,000"
    assert (health.PAID_TRIES, health.OUTAGE_CALLS) == (3, 5)
    assert (health.NEUTRAL_CALLS, health.MOST_NEUTRAL_CALLS) == (4, 9)
    assert f"the latest {health.LATEST}" in TEXT
    assert f"more than {health.UNWELL_SHARE:.0%} of its events" in TEXT
    assert DEFAULT_REPAIR_ATTEMPTS == 2  # "two repair turns"
    assert f"more than {MAX_REFERENCE_BYTES:,}\n  bytes" in TEXT


def test_the_example_of_a_judge_for_each_metric_is_valid() -> None:
    section = TEXT.partition("## Which judge for which metric")[2].partition("\n## ")[0]
    example = "\n".join(line[4:] for line in section.splitlines() if line.startswith("    "))
    settings = Settings.model_validate(yaml.safe_load(example))
    assert settings.metrics["relevance"].endpoints == ("small", "large")


OWN_METRICS = ROOT / "docs" / "own-metrics.md"
YAML, PYTHON = (blocks(OWN_METRICS, kind) for kind in ("yaml", "python"))
FUNCTIONS = "\n\ndef share(event: QAEvent) -> float:\n    return 0.5\n"


@pytest.fixture
def acme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
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
    document: dict[str, Any] = yaml.safe_load(text)
    endpoints = [{"name": name, "model": "m"} for name in ("small", "large", "other")]
    settings = Settings.model_validate({**document, "judge": {"endpoints": endpoints}})
    for name, metric in settings.metrics.items():
        assert build_metric(name, metric).name == name


def test_the_labels_of_the_function_are_on_its_scale() -> None:
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
    # A longer time limit for busy machines.
    exec(PYTHON[1].replace('"rude"]', '"rude"], seconds=60'), {})  # noqa: S102 - the page's own words
    assert capsys.readouterr().out == "scored scored\n"


@pytest.mark.slow
def test_mypy_takes_the_snippets(tmp_path: Path) -> None:
    shown = [block for page in ("README.md", "docs/library.md") for block in blocks(page, "python")]
    snippets = [block for block in shown if block.startswith("from judge ")]
    assert len(snippets) == 3
    for number, snippet in enumerate(snippets):
        body = textwrap.indent(snippet, "    ")
        head = "from typing import Any\nasync def main(events: list[dict[str, str]], frame: Any) -> None:\n"
        (tmp_path / f"snippet_{number}.py").write_text(head + body)
    run(sys.executable, "-m", "mypy", "--strict", "--config-file", "", tmp_path, cwd=ROOT)


@pytest.mark.usefixtures("no_endpoint", "no_settings")
def test_the_page_runs_from_top_to_bottom(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    page = ROOT / "docs" / "files.md"
    answers, people = blocks(page, "csv")
    Path("answers.csv").write_text(answers)
    Path("people.csv").write_text(people)
    Path("columns.yaml").write_text(blocks(page, "yaml")[0])
    commands = "".join(blocks(page, "console")).replace("\\\n", "").splitlines()
    for command in commands:
        assert call(*shlex.split(command.removeprefix("$ "))[1:]) == 0, command
    said = capfd.readouterr().err
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
    assert call(*limit[1:], "--overwrite") == 1
    assert "--fail-under coverage=4.9: the mean is" in capfd.readouterr().err
