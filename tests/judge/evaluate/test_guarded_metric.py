"""Texts are redacted and bounded before a metric; names by the optional engine, or a model of two rules."""

from __future__ import annotations

import importlib.util
import json
from functools import partial
from pathlib import Path

import pytest

from judge.chat import ChatRequest
from judge.errors import EventError, JudgeConfigurationError
from judge.evaluate import guard
from judge.evaluate.evaluator import Evaluator
from judge.evaluate.guard import TextLimits
from judge.metric import Inputs, Outcome
from judge.metrics.coverage import Coverage
from judge.metrics.relevance import Relevance
from judge.offline.rules import coverage_evidence
from judge.text.redaction import KINDS, Redactor
from schemas import ChatMessage, JudgeTask, QAEvent, Scored, ToolCall
from tests.judge.scripted import ScriptedChat
from tests.judge.tasks import guarded, make_task

EVENT = QAEvent(
    event_id="e",
    question="Who is reached at ada@example.com?",
    answer="Ada is reached at ada@example.com. [Page 1]",
    reference="Ada Lovelace is reached at ada@example.com.",
    context={"Page-1": "Ada's address is ada@example.com."},
)


def test_redacted_tasks_conform_to_their_schema() -> None:
    turns = [ChatMessage(role=role, content="Hi") for role in ("\u200b", "::1 " * 8)]
    calls = (ToolCall(name="::1 " * 50),)
    inputs = Inputs(question="q", answer="a", messages=tuple(turns), tool_calls=calls)
    changed = inputs.changed(Redactor(KINDS).redact).of_task()
    task = make_task("coverage").model_copy(update=changed)
    read = JudgeTask.model_validate_json(task.model_dump_json())
    assert [one.role for one in read.messages or ()] == ["?", ("[ip] " * 8)[:32]]


async def test_quotations_are_verified_against_redacted_texts() -> None:
    answer, reference = EVENT.answer, EVENT.reference or ""
    redact = Redactor(KINDS).redact
    chat = ScriptedChat([json.dumps(coverage_evidence(reference=redact(reference), answer=redact(answer)))])
    metric = guarded(Coverage(), *KINDS)
    task = make_task("coverage", question="Where is she?", answer=answer, reference=reference)
    result = await Evaluator(metric, chat).judge(task)
    assert isinstance(result, Scored)
    assert result.corrections == ()
    assert result.evidence["facts"][0]["matched"]  # type: ignore[call-overload, index] # JSON of a known shape
    assert "@" not in result.model_dump_json()


def test_redaction_starts_another_series() -> None:
    assert guarded(Coverage(), *KINDS).scoring_version != Coverage().scoring_version
    assert guarded(Coverage()).scoring_version == Coverage().scoring_version


def test_page_names_and_labels_are_redacted_too() -> None:
    task = make_task(
        "coverage", context={"ada@example.com": "One.", "bob@example.com": "Two."}, reference="It is that."
    ).model_copy(update={"labels": {"user": "ada@example.com"}})
    seen: list[JudgeTask] = []

    class Looking(Coverage):
        def prepare(self, task: JudgeTask) -> ChatRequest | Outcome:
            seen.append(task)
            return super().prepare(task)

    guarded(Looking(), *KINDS).prepare(task)
    assert seen[0].context == {"[email]": "One.", "[email] (2)": "Two."}
    assert seen[0].labels == {"user": "[email]"}


def test_a_context_is_bounded_before_anything_reads_it() -> None:
    metric = guarded(Relevance(), limits=TextLimits(context=1_000))
    fits = make_task("relevance", answer="So. [Page 1]", context={"Page-1": "a" * 990})
    assert isinstance(metric.prepare(fits), ChatRequest)
    for text in ("a" * 1_000, "\ufdfa" * 56):  # 56 * 18 = 1008
        with pytest.raises(EventError, match="context must be at most 1000 characters"):
            metric.prepare(make_task("relevance", answer="So. [Page 1]", context={"Page-1": text}))


def test_a_question_or_answer_that_is_too_long_is_cut_when_the_task_is_made() -> None:
    event = EVENT.model_copy(update={"answer": "a" * 5_000})
    metric = guarded(Coverage(), *KINDS, limits=TextLimits(answer=100))
    inputs = metric.select(event)
    assert len(inputs.answer) == 101
    with pytest.raises(
        EventError, match=r"answer must be at most 100 characters \(judge\.max_answer_chars\)"
    ):
        metric.prepare(make_task("coverage", answer=inputs.answer, reference=inputs.reference))
    fits = make_task("coverage", answer=inputs.answer[1:], reference=inputs.reference)
    assert isinstance(metric.prepare(fits), ChatRequest)


NEEDS_ENGINE = pytest.mark.skipif(
    importlib.util.find_spec("presidio_analyzer") is None, reason="the extra presidio is not installed"
)


@pytest.fixture
def model(tmp_path: Path) -> str:
    spacy = pytest.importorskip("spacy", reason="the extra presidio is not installed")
    language = spacy.blank("en")
    patterns = [{"label": "PERSON", "pattern": name} for name in ("Ada Lovelace", "Grace Hopper")]
    language.add_pipe("entity_ruler").add_patterns(patterns)
    language.to_disk(tmp_path / "model")
    return str(tmp_path / "model")


@pytest.mark.skipif(importlib.util.find_spec("presidio_analyzer") is not None, reason="presidio is installed")
def test_without_the_engine_it_is_an_error_that_says_how_to_get_it() -> None:
    with pytest.raises(
        JudgeConfigurationError, match=r"pip install \"judgestream\[presidio\]\" and python -m spacy"
    ):
        guard.redactor(["names"])


@NEEDS_ENGINE
def test_names_are_replaced_as_they_are_written(model: str) -> None:
    redactor = Redactor(["names", "emails"], find_names=partial(guard.find_names, model=model))
    assert redactor.redact("Ada Lovelace (a@example.com) met Grace Hopper.") == "[name] ([email]) met [name]."
    text = "Ada Lovelace \u00e9crivit. " * 1_500  # 36,000 characters, four parts
    assert redactor.redact(text) == "[name] \u00e9crivit. " * 1_500


@NEEDS_ENGINE
def test_a_model_that_is_missing_is_not_downloaded() -> None:
    with pytest.raises(JudgeConfigurationError, match="needs the language model no_such_model, which is not"):
        guard.load_names("no_such_model")
