from __future__ import annotations

import json

import pytest

from judge.chat import ChatRequest
from judge.endpoint.scripted import ScriptedChat
from judge.errors import EventError
from judge.metric import Metric
from judge.metrics.coverage.metric import Coverage
from judge.metrics.prompting import parse_fenced
from judge.metrics.relevance.metric import Relevance
from judge.offline.coverage_rules import coverage_evidence
from judge.text.redaction import KINDS, Redactor
from judge.verdict.evaluator import Judge
from judge.verdict.guarded_metric import GuardedMetric, TextLimits
from schemas import Failed, QAEvent, Scored
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
    """The task's topic is outside the process, too."""
    for metric in (Coverage(), Relevance()):
        assert "@" not in repr(guarded(metric).select(EVENT))
    assert guarded(Coverage(), redact=False).select(EVENT) == Coverage().select(EVENT)


def test_a_task_of_an_older_worker_is_redacted_before_it_is_sent() -> None:
    """Tasks may have been waiting in Kafka since before redaction was turned on."""
    task = make_task("coverage", question=EVENT.question, answer=EVENT.answer, reference=EVENT.reference)
    request = guarded(Coverage()).prepare(task)
    assert isinstance(request, ChatRequest)
    assert "@" not in request.messages[1].content
    assert parse_fenced(request.messages[1].content)["answer"] == "Ada is reached at [email]. [Page 1]"


async def test_spans_are_verified_against_what_was_sent() -> None:
    """A judge quotes the redacted texts; the result holds nothing else."""
    answer, reference = EVENT.answer, EVENT.reference or ""
    redact = Redactor(KINDS).redact
    chat = ScriptedChat([json.dumps(coverage_evidence(reference=redact(reference), answer=redact(answer)))])
    metric = guarded(Coverage())
    task = make_task("coverage", question="Where is she?", answer=answer, reference=reference)
    result = await Judge(metric, chat).judge(task)
    assert isinstance(result, Scored)
    assert result.corrections == ()
    assert result.evidence["facts"][0]["matched"]  # type: ignore[call-overload, index] # JSON of a known shape
    assert "@" not in result.model_dump_json()


def test_redaction_starts_another_series() -> None:
    """Other texts give other scores, so that the evaluator's fingerprint must differ."""
    assert guarded(Coverage()).scoring_version != Coverage().scoring_version
    assert guarded(Coverage(), redact=False).scoring_version == Coverage().scoring_version


@pytest.mark.parametrize(
    ("name", "length", "fails"), [("answer", 10, False), ("answer", 11, True), ("question", 6, True)]
)
async def test_a_text_beyond_its_bound_is_not_judged(name: str, length: int, fails: bool) -> None:
    """Nothing is cut in silence: the result says which text, how long, and what the bound is."""
    metric = guarded(Coverage(), limits=TextLimits(question=5, answer=10), redact=False)
    chat = ScriptedChat([json.dumps(coverage_evidence(reference="r", answer="x"))])
    texts = {"question": "q", "answer": "a", name: "x" * length}
    task = make_task("coverage", question=texts["question"], answer=texts["answer"], reference="r")
    result = await Judge(metric, chat).judge(task)
    assert isinstance(result, Failed) is fails
    if isinstance(result, Failed):
        assert result.error_type == "context_too_long"
        assert f"{name} must be at most {5 if name == 'question' else 10}" in result.detail
        with pytest.raises(EventError, match=f"max_{name}_chars"):
            metric.prepare(task)
