from __future__ import annotations

import json
from typing import Any

import pytest

from judge.errors import EventError, JudgeConfigurationError
from judge.evaluate.guard import GuardedMetric, TextLimits
from judge.metric import ScoredOutcome, UnscoredOutcome
from judge.metrics.code import CodeMetric
from judge.text.redaction import Redactor
from schemas import JudgeTask, QAEvent
from tests.judge.tasks import make_task

PERSON = json.dumps({"type": "object", "required": ["name"], "properties": {"age": {"type": "integer"}}})


def regex(pattern: str, **options: Any) -> CodeMetric:
    return CodeMetric("x", "regex", pattern=pattern, **options)


def contains(*texts: str, **options: Any) -> CodeMetric:
    return CodeMetric("x", "contains", texts=texts, **options)


def json_valid(schema: str | None = None) -> CodeMetric:
    return CodeMetric("x", "json_valid", schema=schema)


def length(**options: Any) -> CodeMetric:
    return CodeMetric("x", "length", **options)


def similarity() -> CodeMetric:
    return CodeMetric("x", "similarity")


def latency(label: str, **options: Any) -> CodeMetric:
    return CodeMetric("x", "latency", label=label, **options)


def outcome(check: CodeMetric, task: JudgeTask) -> ScoredOutcome:
    decided = check.prepare(task)
    assert isinstance(decided, ScoredOutcome)
    return decided


@pytest.mark.parametrize(
    ("check", "answer", "value", "score"),
    [
        (regex(r"TICKET-\d+"), "See TICKET-12.", True, 1),
        (regex(r"TICKET-\d+"), "No ticket.", False, 0),
        (regex(r"(?i)as an ai", good=False), "As an AI, I cannot.", True, 0),
        (regex(r"(?i)as an ai", good=False), "Of course.", False, 1),
        (contains("refund", "30 days"), "A REFUND within 30 days.", True, 1),
        (contains("refund", "30 days"), "A refund.", False, 0),
        (contains("refund", "30 days", need="any"), "A refund.", True, 1),
        (contains("Refund", ignore_case=False), "A refund.", False, 0),
        (contains("sorry", good=False), "Sorry!", True, 0),
        (json_valid(), '{"a": [1]}', True, 1),
        (json_valid(), '```json\n{"a": 1}\n```\n', True, 1),
        (json_valid(), "", False, 0),
        (json_valid(), '{"a": 1} and more', False, 0),
        (json_valid(), "NaN", False, 0),
        (json_valid(), "[" * 100_000, False, 0),
        (json_valid(PERSON), '{"name": "Ada", "age": 36}', True, 1),
        (json_valid(PERSON), '{"name": "Ada", "age": "old"}', False, 0),
        (json_valid(PERSON), "[]", False, 0),
    ],
)
def test_true_and_false(check: CodeMetric, answer: str, value: bool, score: int) -> None:
    """`value` is whether the check matched; `score` is 1 if that is good."""
    found = outcome(check, make_task("x", answer=answer))
    assert (found.value, found.score, found.kind) == (value, score, "boolean")
    assert found.verdict["score"] is value


def test_a_breach_of_the_schema_is_named() -> None:
    """The justification names the path and the violated rule."""
    found = outcome(json_valid(PERSON), make_task("x", answer='{"name": "A", "age": "old"}'))
    assert (
        found.verdict["justification"] == "the answer violates the schema: age: 'old' is not of type "
        "'integer'"
    )


@pytest.mark.parametrize(
    ("check", "task", "value"),
    [
        # 3 words; 12 characters; 2 sentences.
        (length(), {"answer": "One two three."}, 3.0),
        (length(unit="characters"), {"answer": "One two thre"}, 12.0),
        (length(unit="sentences"), {"answer": "It rained. It stopped."}, 2.0),
        (length(of="question"), {"question": "Why so?"}, 2.0),
        (length(), {"answer": ""}, 0.0),
        # A value above the scale counts as its upper end.
        (length(unit="characters", score_range=(0, 5)), {"answer": "123456"}, 5.0),
        # The longest common subsequence of "it rains now" and "it rains" has 2 words: 2 * 2 / (3 + 2).
        (similarity(), {"answer": "It rains now", "reference": "it rains"}, 0.8),
        (similarity(), {"answer": "It rains.", "reference": "It rains."}, 1.0),
        (similarity(), {"answer": "yes", "reference": "no"}, 0.0),
    ],
)
def test_numbers(check: CodeMetric, task: dict[str, Any], value: float) -> None:
    """Counts and similarities; the evidence keeps the exact value of one that was clamped."""
    found = outcome(check, make_task("x", **task))
    assert (found.kind, found.value) == ("number", value)
    if "length" in check.scoring_version:
        assert found.evidence == {"value": 6.0 if check.score_range == (0, 5) else value}


def labelled(labels: dict[str, str]) -> JudgeTask:
    return make_task("x").model_copy(update={"labels": labels})


def test_latency_and_cost_come_from_labels() -> None:
    """A label is scaled and clamped: 1,500 ms are 1.5 s; 90 s are the end of a scale of 60."""
    check = latency("latency_ms", factor=0.001)
    assert outcome(check, labelled({"latency_ms": "1500"})).value == 1.5
    slow = outcome(check, labelled({"latency_ms": "90000"}))
    assert (slow.value, slow.evidence) == (60.0, {"value": 90.0})
    assert check.prepare(labelled({})) == UnscoredOutcome("missing_input")


@pytest.mark.parametrize("written", ["fast", "nan", "1e999"])
def test_a_label_that_is_no_number_fails(written: str) -> None:
    """A label that is not a finite number is a `metric_error`."""
    with pytest.raises(EventError, match="label latency must be a number") as caught:
        latency("latency").prepare(labelled({"latency": written}))
    assert caught.value.error_type == "metric_error"


@pytest.mark.parametrize(
    "check",
    [similarity(), regex("a", of="reference"), contains("a", of="reference"), length(of="reference")],
)
def test_without_the_text_there_is_nothing_to_judge(check: CodeMetric) -> None:
    """A missing text is unscored as `missing_input`."""
    assert check.prepare(make_task("x")) == UnscoredOutcome("missing_input")


@pytest.mark.parametrize("pattern", [r"(a)\1", "(?=a)", "(", "a{1001}", "a" * 1001])
def test_a_pattern_that_is_not_linear_is_refused(pattern: str) -> None:
    """A pattern outside RE2, invalid or too large is refused."""
    with pytest.raises(JudgeConfigurationError, match="pattern must be"):
        regex(pattern)


def test_a_hostile_pattern_takes_linear_time() -> None:
    """`(a+)+$` runs in linear time; backtracking would take 2^200,000 steps."""
    found = outcome(regex("(a+)+$"), make_task("x", answer="a" * 200_000 + "b"))
    assert found.value is False


def test_an_invalid_json_schema_is_refused() -> None:
    """An invalid JSON Schema is refused at configuration."""
    for schema in ('{"type": 7}', "{", "[]"):
        with pytest.raises(JudgeConfigurationError, match="schema is not a JSON Schema"):
            json_valid(schema)


def test_a_schema_that_points_elsewhere_fetches_nothing() -> None:
    """A remote `$ref` is not fetched and is a `metric_error`."""
    check = json_valid('{"$ref": "http://127.0.0.1:9/schema.json"}')
    with pytest.raises(EventError, match="cannot be applied") as caught:
        check.prepare(make_task("x", answer="{}"))
    assert caught.value.error_type == "metric_error"


def test_a_check_selects_only_the_texts_that_it_reads() -> None:
    """A check selects only the texts that it reads."""
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
    """A check sees the redacted text."""
    guarded = GuardedMetric(contains("ada@example.com"), redactor=Redactor(("emails",)), limits=TextLimits())
    found = guarded.prepare(make_task("x", answer="Write to ada@example.com."))
    assert isinstance(found, ScoredOutcome)
    assert found.value is False
    assert guarded.process is None
