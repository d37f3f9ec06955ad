from __future__ import annotations

import json

import pytest

from judge.chat import ChatRequest
from judge.endpoints.clients import ScriptedChat
from judge.errors import EventError
from judge.evaluate.evaluator import Evaluator
from judge.evaluate.guard import GuardedMetric, TextLimits
from judge.metric import Inputs, Metric, Outcome
from judge.metrics.coverage import Coverage
from judge.metrics.prompting import parse_fenced
from judge.metrics.relevance import Relevance
from judge.offline.rules import coverage_evidence
from judge.text.redaction import KINDS, Redactor
from schemas import ChatMessage, Failed, JudgeTask, QAEvent, Scored, ToolCall
from tests.judge.tasks import make_task

EVENT = QAEvent(
    event_id="e",
    question="Who is reached at ada@example.com?",
    answer="Ada is reached at ada@example.com. [Page 1]",
    reference="Ada Lovelace is reached at ada@example.com.",
    context={"Page-1": "Ada's address is ada@example.com."},
)


def guarded(metric: Metric, *, limits: TextLimits | None = None, redact: bool = True) -> GuardedMetric:
    return GuardedMetric(metric, redactor=Redactor(KINDS if redact else ()), limits=limits or TextLimits())


def test_a_task_is_made_of_redacted_texts() -> None:
    for metric in (Coverage(), Relevance()):
        assert "@" not in repr(guarded(metric).select(EVENT))
    assert guarded(Coverage(), redact=False).select(EVENT) == Coverage().select(EVENT)


def test_redacted_tasks_conform_to_their_schema() -> None:
    turns = [ChatMessage(role=role, content="Hi") for role in ("\u200b", "::1 " * 8)]
    calls = (ToolCall(name="::1 " * 50),)
    inputs = Inputs(question="q", answer="a", messages=tuple(turns), tool_calls=calls)
    changed = inputs.changed(Redactor(KINDS).redact).of_task()
    task = make_task("coverage").model_copy(update=changed)
    read = JudgeTask.model_validate_json(task.model_dump_json())
    assert [one.role for one in read.messages or ()] == ["?", ("[ip] " * 8)[:32]]


def test_a_task_of_an_older_worker_is_redacted_before_it_is_sent() -> None:
    task = make_task("coverage", question=EVENT.question, answer=EVENT.answer, reference=EVENT.reference)
    request = guarded(Coverage()).prepare(task)
    assert isinstance(request, ChatRequest)
    assert "@" not in request.messages[1].content
    assert parse_fenced(request.messages[1].content)["answer"] == "Ada is reached at [email]. [Page 1]"


async def test_quotations_are_verified_against_redacted_texts() -> None:
    answer, reference = EVENT.answer, EVENT.reference or ""
    redact = Redactor(KINDS).redact
    chat = ScriptedChat([json.dumps(coverage_evidence(reference=redact(reference), answer=redact(answer)))])
    metric = guarded(Coverage())
    task = make_task("coverage", question="Where is she?", answer=answer, reference=reference)
    result = await Evaluator(metric, chat).judge(task)
    assert isinstance(result, Scored)
    assert result.corrections == ()
    assert result.evidence["facts"][0]["matched"]  # type: ignore[call-overload, index] # JSON of a known shape
    assert "@" not in result.model_dump_json()


def test_redaction_starts_another_series() -> None:
    assert guarded(Coverage()).scoring_version != Coverage().scoring_version
    assert guarded(Coverage(), redact=False).scoring_version == Coverage().scoring_version


@pytest.mark.parametrize(
    ("name", "length", "fails"), [("answer", 10, False), ("answer", 11, True), ("question", 6, True)]
)
async def test_a_text_beyond_its_bound_is_not_judged(name: str, length: int, fails: bool) -> None:
    """A text above its limit fails; the detail names text, limit and setting."""
    metric = guarded(Coverage(), limits=TextLimits(question=5, answer=10), redact=False)
    chat = ScriptedChat([json.dumps(coverage_evidence(reference="r", answer="x"))])
    texts = {"question": "q", "answer": "a", name: "x" * length}
    task = make_task("coverage", question=texts["question"], answer=texts["answer"], reference="r")
    result = await Evaluator(metric, chat).judge(task)
    assert isinstance(result, Failed) is fails
    if isinstance(result, Failed):
        assert result.error_type == "context_too_long"
        assert f"{name} must be at most {5 if name == 'question' else 10}" in result.detail
        with pytest.raises(EventError, match=f"max_{name}_chars"):
            metric.prepare(task)


def test_page_names_and_labels_are_redacted_too() -> None:
    task = make_task(
        "coverage", context={"ada@example.com": "One.", "bob@example.com": "Two."}, reference="It is that."
    ).model_copy(update={"labels": {"user": "ada@example.com"}})
    seen: list[JudgeTask] = []

    class Looking(Coverage):
        def prepare(self, task: JudgeTask) -> ChatRequest | Outcome:
            seen.append(task)
            return super().prepare(task)

    guarded(Looking()).prepare(task)
    assert seen[0].context == {"[email]": "One.", "[email] (2)": "Two."}
    assert seen[0].labels == {"user": "[email]"}


def test_a_context_is_bounded_before_anything_reads_it() -> None:
    """The context is limited by its compared length: one ligature counts as 18 characters."""
    metric = guarded(Relevance(), limits=TextLimits(context=1_000), redact=False)
    fits = make_task("relevance", answer="So. [Page 1]", context={"Page-1": "a" * 990})
    assert isinstance(metric.prepare(fits), ChatRequest)
    for text in ("a" * 1_000, "\ufdfa" * 56):  # 56 * 18 = 1008
        with pytest.raises(EventError, match="context must be at most 1000 characters"):
            metric.prepare(make_task("relevance", answer="So. [Page 1]", context={"Page-1": text}))


def test_a_question_or_answer_that_is_too_long_is_cut_when_the_task_is_made() -> None:
    event = EVENT.model_copy(update={"answer": "a" * 5_000})
    metric = guarded(Coverage(), limits=TextLimits(answer=100))
    inputs = metric.select(event)
    assert len(inputs.answer) == 101
    with pytest.raises(EventError, match="answer must be at most 100 characters"):
        metric.prepare(make_task("coverage", answer=inputs.answer, reference=inputs.reference))
