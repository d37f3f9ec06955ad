"""The settings and programs of docs/own-metrics.md work."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from judge import QAEvent, Score
from judge.metric import ScoredOutcome
from judge.metrics.base import outcome_on, read_scale
from streams.judging.metrics import build_metric
from streams.settings.tree import Settings
from tests.places import ROOT

PAGE = (ROOT / "docs" / "own-metrics.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", PAGE, re.DOTALL)
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
