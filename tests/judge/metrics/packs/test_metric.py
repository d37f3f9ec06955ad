from __future__ import annotations

import json
import re

import pytest

from judge.chat import ChatRequest
from judge.errors import InvalidVerdictError
from judge.metric import ScoredOutcome, UnscoredOutcome
from judge.metrics.packs.metric import MAX_VERDICT_BYTES, PackMetric
from judge.metrics.packs.pack import parse_pack
from tests.judge.built_tasks import task_for

PACK = parse_pack(
    b"""
response_schema: {type: object, properties: {score: {type: integer}, why: {type: array}}, required: [score]}
messages:
  - {role: system, content: Rate it.}
  - {role: user, content: "{question} / {answer} / {context}"}
""",
    dialect="yaml",
    origin="tone.yaml",
)
METRIC = PackMetric("tone", PACK, score_range=(1, 5))


def test_the_pack_is_filled_in_and_its_schema_sent() -> None:
    """The request is the pack's messages and its response schema."""
    task = task_for(METRIC, question="q", answer="a", reference="r", context={"Page-1": "x"})
    assert task.reference is None
    request = METRIC.prepare(task)
    assert isinstance(request, ChatRequest)
    assert [message.content for message in request.messages] == ["Rate it.", 'q / a / {\n "Page-1": "x"\n}']
    assert request.response_schema is PACK.response_schema
    assert METRIC.mode == "verbatim"
    assert len(METRIC.prompt_hash) == len(METRIC.schema_hash) == 12


@pytest.mark.parametrize(
    "texts",
    [{"question": " "}, {"answer": "\n"}, {"context": None}, {"context": {}}, {"context": {"Page-1": " "}}],
)
def test_a_missing_text_leaves_nothing_to_judge(texts: dict[str, object]) -> None:
    """A blank text that the templates use is `missing_input`; no call is made."""
    given: dict[str, object] = {"question": "q", "answer": "a", "context": {"Page-1": "x"}} | texts
    assert METRIC.prepare(task_for(METRIC, **given)) == UnscoredOutcome(reason="missing_input")  # type: ignore[arg-type]  # as the parameters say


def test_the_judges_verdict_is_taken_as_it_is() -> None:
    """The verdict keeps all its keys and is found in prose; 4.0 becomes the integer 4."""
    outcome = METRIC.interpret(task_for(METRIC), 'Well: {"score": 4.0, "why": ["fine"]}')
    assert outcome == ScoredOutcome(verdict={"score": 4, "why": ["fine"]}, score=4)
    assert isinstance(outcome, ScoredOutcome)
    assert type(outcome.verdict["score"]) is int


@pytest.mark.parametrize(
    ("reply", "told"),
    [
        ('{"score": 5, "why": "fine"}', "why: 'fine' is not of type 'array'"),
        ('{"score": 5, "why": {"a": 1}}', "is not of type 'array'"),
    ],
)
def test_the_response_schema_is_checked(reply: str, told: str) -> None:
    """The reply is validated against the schema, because endpoints may not enforce it; a quoted score is
    accepted.
    """
    with pytest.raises(InvalidVerdictError, match=re.escape(told)):
        METRIC.interpret(task_for(METRIC), reply)
    assert METRIC.interpret(task_for(METRIC), '{"score": "5", "why": []}').score == 5  # type: ignore[union-attr]  # scored


@pytest.mark.parametrize("written", ["5", "5.0", '"5"', '" 5.00 "', "5e0"])
def test_five_is_five_however_it_is_written(written: str) -> None:
    """Every spelling of 5 is published as the integer."""
    outcome = METRIC.interpret(task_for(METRIC), f'{{"score": {written}}}')
    assert outcome == ScoredOutcome(verdict={"score": 5}, score=5)


def test_a_forced_zero_of_the_judges_own_is_no_score() -> None:
    """A forced zero for missing input is unscored; any other 0 is a score."""
    metric = PackMetric("cover", PACK, score_range=(0, 5))
    verdict = {"score": 0, "rationale": ["Fact: Evaluation not possible due to missing input.", "Score: 0"]}
    outcome = metric.interpret(task_for(metric), json.dumps(verdict))
    assert outcome == UnscoredOutcome("missing_input", verdict=verdict)
    scored = metric.interpret(task_for(metric), '{"score": 0, "rationale": ["Nothing is covered."]}')
    assert isinstance(scored, ScoredOutcome)


@pytest.mark.parametrize("score", [0, 6, 4.5, "four", "4/5", "4,0", "٤", True, None, [4], -1, 1e300])
def test_an_invalid_score_is_refused(score: object) -> None:
    """The error names the range of the score."""
    with pytest.raises(InvalidVerdictError, match="whole number from 1 to 5"):
        METRIC.interpret(task_for(METRIC), json.dumps({"score": score}))


def test_a_verdict_has_a_bounded_size() -> None:
    """A verdict above 65,536 bytes is refused."""
    with pytest.raises(InvalidVerdictError, match="at most 65536 bytes"):
        METRIC.interpret(task_for(METRIC), json.dumps({"score": 1, "more": "x" * MAX_VERDICT_BYTES}))
