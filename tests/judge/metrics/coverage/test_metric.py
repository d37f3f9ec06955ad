from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge.chat import ChatRequest
from judge.errors import InvalidVerdictError
from judge.metric import Inputs, Metric, ScoredOutcome, UnscoredOutcome
from judge.metrics.coverage import Coverage
from judge.metrics.packs.pack import parse_pack
from schemas import CoverageVerdict, QAEvent
from tests.judge.replies import coverage_reply, listed_item
from tests.judge.tasks import make_task

SNAPSHOT = Path(__file__).parent / "snapshots" / "coverage.evidence.txt"
REFERENCE = "The Eiffel Tower is in Paris. It was completed in 1889."
ANSWER = "The Eiffel Tower, built in 1889, is located in Paris, France."

IN_PARIS = ("The Eiffel Tower is in Paris.", "The Eiffel Tower is in Paris.", ANSWER)
IN_1889 = ("It was completed in 1889.", "It was completed in 1889.", "built in 1889")
TERM = ("Eiffel Tower", "Eiffel Tower", "The Eiffel Tower")

Given = tuple[str, str, str | None]
PACK = parse_pack(b'[{role: user, content: "{question}|{reference}|{answer}"}]', dialect="yaml", origin="p")


def _item(given: Given, *, matched: bool | None = None) -> dict[str, Any]:
    name, span, answer_span = given
    return listed_item(span, answer_span, name=name, matched=matched)


def _reply(
    facts: Iterable[Given] = (),
    conclusions: Iterable[Given] = (),
    terms: Iterable[Given] = (),
    *,
    similar: bool = True,
) -> str:
    lists = [map(_item, given) for given in (facts, conclusions, terms)]
    return json.dumps(coverage_reply(*lists, similar=similar))


def _judge(reply: str, *, reference: str = REFERENCE, answer: str = ANSWER) -> ScoredOutcome:
    metric = Coverage()
    outcome = metric.interpret(make_task("coverage", reference=reference, answer=answer), reply)
    assert isinstance(outcome, ScoredOutcome)
    CoverageVerdict.model_validate(dict(outcome.verdict))
    orjson.dumps(outcome.evidence)
    return outcome


def _kinds(outcome: ScoredOutcome) -> list[str]:
    return [*(one.kind for one in outcome.corrections), *(one.kind for one in outcome.suspicions)]


@given(
    st.lists(st.sampled_from([IN_PARIS, IN_1889, ("x", "Paris", "Paris"), ("y", "nowhere", "1889"),
        ("z", "1889", "z")])),
    st.lists(st.sampled_from([IN_PARIS, ("it is old", "completed in 1889", None), ("w", "Tower", "tower")])),
    st.lists(st.sampled_from([TERM, ("Paris", "Paris", "Paris"), ("1889", "1889", "1889"),
        ("Tower", "Tower", "art")])),
)  # fmt: skip
def test_no_list_does_better_than_the_texts_allow(
    facts: list[Given], conclusions: list[Given], terms: list[Given]
) -> None:
    """If the answer shares no word with the reference, no item is matched."""
    outcome = _judge(_reply(facts, conclusions, terms), answer="Bananas ripen quickly.")
    lists = (outcome.evidence[name] for name in ("facts", "conclusions", "terms"))
    matched = [one for listed in lists for one in listed if one["matched"]]
    assert matched == []
    # Without any fact the metric's rule gives the neutral ratio; only then the score may exceed 1.
    assert outcome.score <= 1 or not outcome.evidence["facts"]


# Asking


def test_the_metric_is_one() -> None:
    """Name, range, mode and versions of the metric are as published."""
    metric: Metric = Coverage()
    assert (metric.name, metric.score_range, metric.mode, metric.scoring_version) == (
        "coverage", (0, 5), "evidence", "coverage-5",
    )  # fmt: skip


def test_an_event_gives_its_three_texts() -> None:
    """The metric selects question, answer and reference, and no pages."""
    event = QAEvent(event_id="e", question="q", answer="a", reference="r", context={"Page-1": "p"})
    assert Coverage().select(event) == Inputs(question="q", answer="a", reference="r")


def test_the_reply_limit_grows_with_the_reference_and_a_longer_one_is_too_long() -> None:
    """3,000 bytes give about 40 items of 75 to 95 tokens; beyond 12,000 bytes nothing is asked."""
    limits = []
    for size in (1_000, 12_000):
        request = Coverage().prepare(make_task("coverage", reference="a" * size, answer="a"))
        assert isinstance(request, ChatRequest)
        limits.append(request.max_output_tokens)
    assert limits == [4_096, 15_600]
    outcome = Coverage().prepare(make_task("coverage", reference="a" * 12_001, answer="a"))
    assert outcome == UnscoredOutcome("too_long", evidence={"reference_bytes": 12_001, "limit": 12_000})


def test_the_rendered_prompt() -> None:
    request = Coverage().prepare(
        make_task("coverage", question="Where is it, and from when?", reference=REFERENCE, answer=ANSWER)
    )
    assert isinstance(request, ChatRequest)
    rendered = "\n".join(f"--- {message.role}\n{message.content}" for message in request.messages) + "\n"
    assert rendered == SNAPSHOT.read_text("utf-8")


# Invalid replies


REPLIES = st.text() | st.sampled_from(
    [
        "",
        "{}",
        "[]",
        '{"facts": ' + "[" * 100_000,
        '{"facts": ' + "9" * 10_000 + "}",
        '{"facts": NaN, "score": NaN}',
        '{"score": 1e999}',
        '{"score": ' + "9" * 5_000 + "}",
        '{"score": true, "rationale": []}',
        '{"score": 5, "rationale": [1, 2, 3, 4, 5]}',
        '{"score": 5, "rationale": {"a": 1}}',
        '{"score": 4.0}',
        '{"score": null}',
        '{"score": -1}',
        '{"score": 6}',
        '{"score": 5, "rationale": ["\\ud800"]}',
    ]
)


@given(REPLIES, st.sampled_from([None, PACK]))
def test_no_reply_breaks_anything(reply: str, pack: Any) -> None:
    task = make_task("coverage", reference=REFERENCE, answer=ANSWER)
    with pytest.raises(InvalidVerdictError):
        Coverage(pack=pack).interpret(task, reply)


@given(st.text(), st.text(), st.text(), st.booleans())
def test_no_span_breaks_anything(name: str, reference_span: str, answer_span: str, matched: bool) -> None:
    """Arbitrary characters in a reply give a serialisable outcome."""
    listed = [listed_item(reference_span, answer_span, name=name, matched=matched)]
    reply = coverage_reply(listed, listed, listed)
    for reference in (REFERENCE, reference_span + " x", "\ud800 half a pair"):
        outcome = _judge(json.dumps(reply), reference=reference.encode("utf-8", "replace").decode())
        orjson.dumps([outcome.verdict, outcome.evidence, [one.detail for one in outcome.corrections]])
