from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge.chat import ChatRequest
from judge.errors import InvalidVerdictError
from judge.metric import Inputs, Metric, Outcome, ScoredOutcome
from judge.metrics.packs.pack import parse_pack
from judge.metrics.relevance import Relevance
from schemas import QAEvent, RelevanceVerdict
from tests.judge.replies import relevance_reply
from tests.judge.tasks import make_task

SNAPSHOT = Path(__file__).parent / "snapshots" / "relevance.evidence.txt"
ANSWER = (
    "The tower is 330 metres tall. Evidence: [Page 1]\n"
    "It stands in Paris. Evidence: [Page 2]\n"
    "Gustave Eiffel's company built it. Evidence: [Page 3]"
)
PAGES = {
    "Page-1": "At 330 metres the tower is the tallest structure of the city.",
    "Page-2": "The tower stands in Paris, on the Champ de Mars.",
    "Page-3": "It was built by the company of Gustave Eiffel.",
}
TALL = {
    "claim_span": "The tower is 330 metres tall.",
    "pages": [1],
    "page": 1,
    "page_span": "At 330 metres the tower",
}
PARIS = {
    "claim_span": "It stands in Paris.",
    "pages": [2],
    "page": 2,
    "page_span": "The tower stands in Paris",
}
PACK = parse_pack(
    b"""
response_schema: {properties: {score: {}}}
messages: [{role: user, content: "{question}|{answer}|{context}"}]
""",
    dialect="yaml",
    origin="p",
)


def _reply(*claims: Mapping[str, Any], score: Any = 5) -> str:
    given = ({"justification": "So it says.", "supported": True, "relevant": True, **one} for one in claims)
    return json.dumps(relevance_reply(given, score=score))


def _outcome(reply: str, *, answer: str = ANSWER, context: dict[str, str] | None = None) -> Outcome:
    task = make_task("relevance", answer=answer, context=PAGES if context is None else context)
    outcome = Relevance().interpret(task, reply)
    orjson.dumps([outcome.verdict, outcome.evidence])
    return outcome


def _judge(reply: str, *, answer: str = ANSWER, context: dict[str, str] | None = None) -> ScoredOutcome:
    outcome = _outcome(reply, answer=answer, context=context)
    assert isinstance(outcome, ScoredOutcome)
    RelevanceVerdict.model_validate(dict(outcome.verdict))
    assert outcome.score == outcome.verdict["score"]
    return outcome


@given(
    st.text() | st.sampled_from(['{"claims": []}', '{"claims": [', '{"claims": NaN}', '{"score": 1e400}',
        "{}",
                                 '{"score": null, "justification": "none"}',
                                 '{"score": 3, "justification": 4}']),
    st.sampled_from([None, PACK]),
)  # fmt: skip
def test_no_reply_breaks_anything(reply: str, pack: Any) -> None:
    with pytest.raises(InvalidVerdictError):
        Relevance(pack=pack).interpret(make_task("relevance", answer=ANSWER, context=PAGES), reply)


@given(
    st.lists(
        st.builds(
            dict,
            claim_span=st.sampled_from([TALL["claim_span"], PARIS["claim_span"], "in", "tower",
                "[Page 2]"]) | st.text(),
            pages=st.lists(st.integers(0, 9), max_size=3),
            page=st.none() | st.integers(0, 9),
            page_span=st.none() | st.sampled_from(["tower", "330", "the", "Paris"]) | st.text(),
            supported=st.booleans(),
            relevant=st.booleans(),
        ),
        max_size=5,
    ),
    st.integers(1, 5),
)  # fmt: skip
def test_full_marks_need_every_claim(claims: list[dict[str, Any]], score: int) -> None:
    """The score never exceeds the judge's, and is 5 only if every claim of the answer is upheld."""
    outcome = _judge(_reply(*claims, score=score))
    assert 1 <= outcome.score <= score
    listed = outcome.evidence["claims"]
    assert {2, 1, 3} <= {page for claim in listed for page in claim["pages"]}
    if outcome.score == 5:
        assert all(claim["supported"] and claim["relevant"] and claim["page_span"] for claim in listed)


# Asking


def test_the_metric_is_one() -> None:
    """Name, range, mode and versions of the metric are as published."""
    metric: Metric = Relevance()
    assert (metric.name, metric.score_range, metric.mode, metric.scoring_version) == (
        "relevance", (1, 5), "evidence", "relevance-5",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("context", "selected"),
    [
        (None, None),
        ({}, {}),
        ({"Page-7": "x"}, {}),
        ({**PAGES, "Page-4": "not cited"}, PAGES),
        ({"page 1": "one", "2": "two", "Cover": "no"}, {"Page-1": "one", "Page-2": "two"}),
        ({"page_1": "lenient", "Page-1": "canonical"}, {"Page-1": "canonical"}),
        ({"page 1": "first", "page_1": "second"}, {"Page-1": "first"}),
        ({"Page-1": ""}, {"Page-1": ""}),
    ],
)
def test_only_cited_pages_travel(context: dict[str, str] | None, selected: dict[str, str] | None) -> None:
    """A task holds only the cited pages, under canonical names; a context of None stays None."""
    event = QAEvent(event_id="e", question="q", answer=ANSWER, reference="r", context=context)
    assert Relevance().select(event) == Inputs(question="q", answer=ANSWER, context=selected)


def test_only_the_cited_one_of_many_pages_is_selected() -> None:
    context = {f"Page-{n}": f"Text {n}." for n in range(2000)}
    event = QAEvent(event_id="e", question="q", answer="A. [Page 1234]", context=context)
    assert Relevance().select(event).context == {"Page-1234": "Text 1234."}


def test_the_rendered_prompt() -> None:
    request = Relevance().prepare(
        make_task(
            "relevance", question="What is known of the tower?", answer=ANSWER + " [Page 9]", context=PAGES
        )
    )
    assert isinstance(request, ChatRequest)
    rendered = "\n".join(f"--- {message.role}\n{message.content}" for message in request.messages) + "\n"
    assert rendered == SNAPSHOT.read_text("utf-8")


# Verbatim
