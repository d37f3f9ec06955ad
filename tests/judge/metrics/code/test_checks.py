from __future__ import annotations

from typing import Any

import pytest

from judge.errors import JudgeConfigurationError
from judge.evaluate.guard import GuardedMetric, TextLimits
from judge.metric import ScoredOutcome
from judge.metrics.code import CodeMetric
from judge.text.redaction import Redactor
from schemas import JudgeTask, QAEvent
from tests.judge.tasks import make_task


def regex(pattern: str, **options: Any) -> CodeMetric:
    return CodeMetric("x", "regex", pattern=pattern, **options)


def contains(*texts: str, **options: Any) -> CodeMetric:
    return CodeMetric("x", "contains", texts=texts, **options)


def json_valid(schema: str | None = None) -> CodeMetric:
    return CodeMetric("x", "json_valid", schema=schema)


def similarity() -> CodeMetric:
    return CodeMetric("x", "similarity")


def latency(label: str, **options: Any) -> CodeMetric:
    return CodeMetric("x", "latency", label=label, **options)


def outcome(check: CodeMetric, task: JudgeTask) -> ScoredOutcome:
    decided = check.prepare(task)
    assert isinstance(decided, ScoredOutcome)
    return decided


@pytest.mark.parametrize("pattern", [r"(a)\1", "(?=a)", "(", "a{1001}", "a" * 1001])
def test_a_pattern_that_is_not_linear_is_refused(pattern: str) -> None:
    with pytest.raises(JudgeConfigurationError, match="pattern must be"):
        regex(pattern)


def test_a_hostile_pattern_takes_linear_time() -> None:
    """`(a+)+$` runs in linear time; backtracking would take 2^200,000 steps."""
    found = outcome(regex("(a+)+$"), make_task("x", answer="a" * 200_000 + "b"))
    assert found.value is False


def test_an_invalid_json_schema_is_refused() -> None:
    for schema in ('{"type": 7}', "{", "[]"):
        with pytest.raises(JudgeConfigurationError, match="schema is not a JSON Schema"):
            json_valid(schema)


def test_a_check_selects_only_the_texts_that_it_reads() -> None:
    event = QAEvent(event_id="e", question="q", answer="a", reference="r", context={"p": "t"})
    taken = latency("latency").select(event)
    assert (taken.question, taken.answer, taken.reference, taken.context) == ("", "", None, None)
    taken = similarity().select(event)
    assert (taken.question, taken.answer, taken.reference, taken.context) == ("", "a", "r", None)


def test_other_settings_are_another_evaluator() -> None:
    """`scoring_version` depends on the settings and is the same in every process."""
    one, other = regex("a"), regex("b")
    assert one.scoring_version != other.scoring_version
    assert one.scoring_version == regex("a").scoring_version
    assert one.scoring_version.startswith("code-2, regex, ")


def test_texts_are_redacted_before_a_check_reads_them() -> None:
    guarded = GuardedMetric(contains("ada@example.com"), redactor=Redactor(("emails",)), limits=TextLimits())
    found = guarded.prepare(make_task("x", answer="Write to ada@example.com."))
    assert isinstance(found, ScoredOutcome)
    assert found.value is False
    assert guarded.process is None
