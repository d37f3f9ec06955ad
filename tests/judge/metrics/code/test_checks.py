from __future__ import annotations

import json
from typing import Any

import pytest

from judge.errors import EventError, JudgeConfigurationError
from judge.metric import ScoredOutcome, UnscoredOutcome
from judge.metrics.code.checks import Check, Contains, FromLabel, Length, Similarity
from judge.metrics.code.json_valid import JsonValid
from judge.metrics.code.metric import CodeMetric
from judge.metrics.code.regex import Regex
from judge.text.redaction import Redactor
from judge.verdict.guarded_metric import GuardedMetric, TextLimits
from schemas import JudgeTask, QAEvent
from tests.judge.tasks import make_task

PERSON = json.dumps({"type": "object", "required": ["name"], "properties": {"age": {"type": "integer"}}})


def outcome(check: Check, task: JudgeTask) -> ScoredOutcome:
    decided = CodeMetric("x", check).prepare(task)
    assert isinstance(decided, ScoredOutcome)
    return decided


@pytest.mark.parametrize(
    ("check", "answer", "value", "score"),
    [
        (Regex(r"TICKET-\d+"), "See TICKET-12.", True, 1),
        (Regex(r"TICKET-\d+"), "No ticket.", False, 0),
        (Regex(r"(?i)as an ai", good=False), "As an AI, I cannot.", True, 0),
        (Regex(r"(?i)as an ai", good=False), "Of course.", False, 1),
        (Contains(("refund", "30 days")), "A REFUND within 30 days.", True, 1),
        (Contains(("refund", "30 days")), "A refund.", False, 0),
        (Contains(("refund", "30 days"), need="any"), "A refund.", True, 1),
        (Contains(("Refund",), ignore_case=False), "A refund.", False, 0),
        (Contains(("sorry",), good=False), "Sorry!", True, 0),
        (JsonValid(), '{"a": [1]}', True, 1),
        (JsonValid(), '```json\n{"a": 1}\n```\n', True, 1),
        (JsonValid(), "", False, 0),
        (JsonValid(), '{"a": 1} and more', False, 0),
        (JsonValid(), "NaN", False, 0),
        (JsonValid(), "[" * 100_000, False, 0),
        (JsonValid(PERSON), '{"name": "Ada", "age": 36}', True, 1),
        (JsonValid(PERSON), '{"name": "Ada", "age": "old"}', False, 0),
        (JsonValid(PERSON), "[]", False, 0),
    ],
)
def test_true_and_false(check: Check, answer: str, value: bool, score: int) -> None:
    """`value` is whether the check matched; `score` is 1 if that is good."""
    found = outcome(check, make_task("x", answer=answer))
    assert (found.value, found.score, found.kind) == (value, score, "boolean")
    assert found.verdict["score"] is value


def test_a_breach_of_the_schema_is_named() -> None:
    """The justification names the path and the violated rule."""
    found = outcome(JsonValid(PERSON), make_task("x", answer='{"name": "A", "age": "old"}'))
    assert (
        found.verdict["justification"] == "the answer violates the schema: age: 'old' is not of type "
        "'integer'"
    )


@pytest.mark.parametrize(
    ("check", "task", "value"),
    [
        # 3 words; 12 characters; 2 sentences.
        (Length(), {"answer": "One two three."}, 3.0),
        (Length("characters"), {"answer": "One two thre"}, 12.0),
        (Length("sentences"), {"answer": "It rained. It stopped."}, 2.0),
        (Length(of="question"), {"question": "Why so?"}, 2.0),
        (Length(), {"answer": ""}, 0.0),
        # A value above the scale counts as its upper end.
        (Length("characters", (0, 5)), {"answer": "123456"}, 5.0),
        # The longest common subsequence of "it rains now" and "it rains" has 2 words: 2 * 2 / (3 + 2).
        (Similarity(), {"answer": "It rains now", "reference": "it rains"}, 0.8),
        (Similarity(), {"answer": "It rains.", "reference": "It rains."}, 1.0),
        (Similarity(), {"answer": "yes", "reference": "no"}, 0.0),
    ],
)
def test_numbers(check: Check, task: dict[str, Any], value: float) -> None:
    """Counts and similarities; the evidence keeps the exact value of one that was clamped."""
    found = outcome(check, make_task("x", **task))
    assert (found.kind, found.value) == ("number", value)
    if isinstance(check, Length):
        assert found.evidence == {"value": 6.0 if check.score_range == (0, 5) else value}


def labelled(labels: dict[str, str]) -> JudgeTask:
    return make_task("x").model_copy(update={"labels": labels})


def test_latency_and_cost_come_from_labels() -> None:
    """A label is scaled and clamped: 1,500 ms are 1.5 s; 90 s are the end of a scale of 60."""
    check = FromLabel("latency_ms", (0, 60), 0.001)
    assert outcome(check, labelled({"latency_ms": "1500"})).value == 1.5
    slow = outcome(check, labelled({"latency_ms": "90000"}))
    assert (slow.value, slow.evidence) == (60.0, {"value": 90.0})
    assert check.outcome(labelled({})) == UnscoredOutcome("missing_input")


@pytest.mark.parametrize("written", ["fast", "nan", "1e999"])
def test_a_label_that_is_no_number_fails(written: str) -> None:
    """A label that is not a finite number is a `metric_error`."""
    with pytest.raises(EventError, match="label latency must be a number") as caught:
        FromLabel("latency", (0, 60)).outcome(labelled({"latency": written}))
    assert caught.value.error_type == "metric_error"


@pytest.mark.parametrize(
    "check",
    [Similarity(), Regex("a", of="reference"), Contains(("a",), of="reference"), Length(of="reference")],
)
def test_without_the_text_there_is_nothing_to_judge(check: Check) -> None:
    """A missing text is unscored as `missing_input`."""
    assert check.outcome(make_task("x")) == UnscoredOutcome("missing_input")


@pytest.mark.parametrize("pattern", [r"(a)\1", "(?=a)", "(", "a{1001}", "a" * 1001])
def test_a_pattern_that_is_not_linear_is_refused(pattern: str) -> None:
    """A pattern outside RE2, invalid or too large is refused."""
    with pytest.raises(JudgeConfigurationError, match="pattern must be"):
        Regex(pattern)


def test_a_hostile_pattern_takes_linear_time() -> None:
    """`(a+)+$` runs in linear time; backtracking would take 2^200,000 steps."""
    found = outcome(Regex("(a+)+$"), make_task("x", answer="a" * 200_000 + "b"))
    assert found.value is False


def test_an_invalid_json_schema_is_refused() -> None:
    """An invalid JSON Schema is refused at configuration."""
    for schema in ('{"type": 7}', "{", "[]"):
        with pytest.raises(JudgeConfigurationError, match="schema is not a JSON Schema"):
            JsonValid(schema)


def test_a_schema_that_points_elsewhere_fetches_nothing() -> None:
    """A remote `$ref` is not fetched and is a `metric_error`."""
    check = JsonValid('{"$ref": "http://127.0.0.1:9/schema.json"}')
    with pytest.raises(EventError, match="cannot be applied") as caught:
        check.outcome(make_task("x", answer="{}"))
    assert caught.value.error_type == "metric_error"


def test_a_check_selects_only_the_texts_that_it_reads() -> None:
    """A check selects only the texts that it reads."""
    event = QAEvent(event_id="e", question="q", answer="a", reference="r", context={"p": "t"})
    taken = CodeMetric("x", FromLabel("latency", (0, 60))).select(event)
    assert (taken.question, taken.answer, taken.reference, taken.context) == ("", "", None, None)
    taken = CodeMetric("x", Similarity()).select(event)
    assert (taken.question, taken.answer, taken.reference, taken.context) == ("", "a", "r", None)


def test_other_settings_are_another_evaluator() -> None:
    """`scoring_version` depends on the settings and is the same in every process."""
    one, other = CodeMetric("x", Regex("a")), CodeMetric("x", Regex("b"))
    assert one.scoring_version != other.scoring_version
    # The first 12 digits of the SHA-256 of "Regex(pattern='a', of='answer', good=True)".
    assert one.scoring_version == "code-1, regex 1, 6f5dcb015460"


def test_texts_are_redacted_before_a_check_reads_them() -> None:
    """A check sees the redacted text."""
    guarded = GuardedMetric(
        CodeMetric("x", Contains(("ada@example.com",))), redactor=Redactor(("emails",)), limits=TextLimits()
    )
    found = guarded.prepare(make_task("x", answer="Write to ada@example.com."))
    assert isinstance(found, ScoredOutcome)
    assert found.value is False
    assert guarded.process is None
