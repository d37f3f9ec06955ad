from __future__ import annotations

import sys
from pathlib import Path

import pytest

from judge.errors import JudgeConfigurationError
from judge.metric import Inputs
from judge.metrics.base import Scale
from judge.metrics.code import CodeMetric, FunctionMetric
from schemas import QAEvent


def regex(pattern: str) -> CodeMetric:
    return CodeMetric("x", "regex", pattern=pattern)


@pytest.mark.parametrize("pattern", [r"(a)\1", "(?=a)", "(?<=a)b", "(", "a{1001}", "a" * 1001])
def test_a_pattern_that_is_not_linear_is_refused(pattern: str) -> None:
    with pytest.raises(JudgeConfigurationError, match="pattern must be"):
        regex(pattern)


def test_an_invalid_json_schema_is_refused() -> None:
    for schema in ('{"type": 7}', "{", "[]"):
        with pytest.raises(JudgeConfigurationError, match="schema is not a JSON Schema"):
            CodeMetric("x", "json_valid", schema=schema)


def test_a_check_selects_only_the_texts_that_it_reads() -> None:
    event = QAEvent(event_id="e", question="q", answer="a", reference="r", context={"p": "t"})
    assert CodeMetric("x", "latency", label="latency").select(event) == Inputs("", "")
    assert CodeMetric("x", "similarity").select(event) == Inputs("", "a", "r")


def test_other_settings_are_another_evaluator() -> None:
    one, other = regex("a"), regex("b")
    assert one.scoring_version != other.scoring_version
    assert one.scoring_version == regex("a").scoring_version
    assert one.scoring_version.startswith("code-2, regex, ")


HERE = "tests.judge.metrics.code.functions"
UNIT = Scale((0.0, 1.0), "number")


def test_nothing_of_a_module_runs_until_the_metric_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "team_of_ours" / "quality"
    package.mkdir(parents=True)
    (package.parent / "__init__.py").write_text("raise SystemExit('imported')")
    (package / "__init__.py").write_text("raise SystemExit('imported')")
    (package / "tone.py").write_text("raise SystemExit('imported')\ndef tone(event): ...\nmade = tone\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    metric = FunctionMetric("tone", "team_of_ours.quality.tone:tone", UNIT)
    assert "team_of_ours" not in sys.modules
    FunctionMetric("tone", "team_of_ours.quality.tone:made", UNIT)
    with pytest.raises(JudgeConfigurationError, match="defines no tune"):
        FunctionMetric("tone", "team_of_ours.quality.tone:tune", UNIT)
    with pytest.raises(JudgeConfigurationError, match=r"no module team_of_ours\.quality\.voice"):
        FunctionMetric("tone", "team_of_ours.quality.voice:tone", UNIT)
    assert metric.process is not None


def test_other_code_and_another_scale_are_another_evaluator() -> None:
    versions = [
        FunctionMetric("x", target, Scale((0, high), "number"), seconds=seconds).scoring_version
        for target, high, seconds in ((f"{HERE}:words", 1, 5), (f"{HERE}:words", 1, 60),
                                      (f"{HERE}:words", 9, 5), ("tests.judge.tasks:make_task", 1, 5))
    ]  # fmt: skip
    assert versions[0] == versions[1]
    assert len({*versions}) == 3


@pytest.mark.parametrize(
    "code", ["from math import*", "def _make():\n global f\n f = len\n_make()", "try: f = 1\nfinally: 0"]
)
def test_a_name_is_found_however_a_module_defines_it(
    code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"defines_{abs(hash(code))}"
    (tmp_path / f"{name}.py").write_text(code, "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    assert FunctionMetric("x", f"{name}:f", UNIT).scoring_version
