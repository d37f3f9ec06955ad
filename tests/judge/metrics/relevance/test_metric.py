from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge.chat import ChatMessage, ChatRequest
from judge.errors import InvalidVerdictError
from judge.metric import Inputs, Metric, Outcome, ScoredOutcome, UnscoredOutcome
from judge.metrics.packs.pack import parse_pack
from judge.metrics.prompting import parse_fenced
from judge.metrics.relevance import MAX_LISTED_MISSING, RELEVANCE_SCHEMA, Relevance
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
BUILT = {"claim_span": "Gustave Eiffel's company built it.", "pages": [3], "page": 3,
    "page_span": "built by the company"}  # fmt: skip
PACK = parse_pack(
    b"""
response_schema: {properties: {score: {}}}
messages: [{role: user, content: "{question}|{answer}|{context}"}]
""",
    dialect="yaml",
    origin="p",
)
NO = {"supported": False, "page": None, "page_span": None}


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


def _kinds(outcome: ScoredOutcome | UnscoredOutcome) -> list[str]:
    return [*(one.kind for one in outcome.corrections), *(one.kind for one in outcome.suspicions)]


def test_a_good_answer() -> None:
    """If every claim is supported, the judge's verdict is published, with the offsets of all spans."""
    outcome = _judge(_reply(TALL, PARIS, BUILT))
    assert outcome.verdict == {"score": 5, "justification": "All fine."}
    assert outcome.corrections == ()
    assert outcome.score_exact is None
    for claim in outcome.evidence["claims"]:
        page = PAGES[f"Page-{claim['page']}"]
        assert page[claim["page_start"] : claim["page_end"]] == claim["page_span"]
        assert ANSWER[claim["claim_start"] : claim["claim_end"]] == claim["claim_span"]


@pytest.mark.parametrize("score", [1, 2, 3, 4])
def test_a_score_is_never_raised(score: int) -> None:
    """A score below the cap is kept even if all claims hold."""
    outcome = _judge(_reply(TALL, PARIS, BUILT, score=score))
    assert outcome.score == score
    assert outcome.corrections == ()


@pytest.mark.parametrize(
    ("upheld", "total", "cap"),
    # All; 4/5 > 3/5; 3/5 and 2/5 are "about half"; 1/5 < 2/5; none.
    [(5, 5, 5), (4, 5, 4), (3, 5, 3), (2, 5, 3), (1, 5, 2), (0, 5, 1)],
)
@pytest.mark.parametrize("flaw", [NO, {"relevant": False}])
def test_a_score_above_what_the_claims_allow_is_lowered(
    upheld: int, total: int, cap: int, flaw: dict[str, Any]
) -> None:
    """The score is capped by the share of supported and relevant claims, and the justification says so."""
    answer = "\n".join(f"Claim number {n} holds. [Page 1]" for n in range(total))
    claims = [
        {"claim_span": f"Claim number {n} holds.", "pages": [1], "page": 1, "page_span": "Claims hold"}
        | ({} if n < upheld else flaw)
        for n in range(total)
    ]
    outcome = _judge(_reply(*claims), answer=answer, context={"Page-1": "Claims hold."})
    assert outcome.score == cap
    if cap == 5:
        assert outcome.corrections == ()
        return
    assert _kinds(outcome) == ["score_lowered"]
    flawed = total - upheld
    verb = "is" if flawed == 1 else "are"
    assert outcome.verdict["justification"] == (
        f"All fine. Lowered from 5 to {cap}: {flawed} of {total} claims {verb} not both relevant and "
        "supported by a"
        " cited page."
    )


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        ({"page_span": "The tower stands in Rome"}, "span_not_in_page"),
        ({"page_span": None}, "span_not_in_page"),
        ({"page_span": ""}, "span_not_in_page"),
        ({"page_span": "At 330 metres the tower"}, "span_not_in_page"),  # these words are on Page-1
        ({"page": 1, "page_span": "At 330 metres the tower"}, "page_not_cited"),
        ({"page": 9}, None),  # wrong number, but the words are on the cited page
        ({"page": None}, None),
    ],
)
def test_support_needs_words_of_a_cited_page(change: dict[str, Any], kind: str | None) -> None:
    """Support needs a quotation of a cited page with content words."""
    outcome = _judge(_reply(TALL, {**PARIS, **change}, BUILT))
    assert _kinds(outcome) == ([kind, "score_lowered"] if kind else [])
    assert outcome.score == (4 if kind else 5)
    claim = outcome.evidence["claims"][1]
    assert claim["supported"] is (kind is None)
    assert claim["page"] == (None if kind else 2)


def test_a_claim_with_several_pages_is_compared_with_all() -> None:
    """A claim that cites several pages needs support from one of them."""
    answer = "It stands in Paris. [Pages 1-3]"
    outcome = _judge(_reply({**PARIS, "pages": [1, 2, 3], "page": 1}), answer=answer)
    assert outcome.score == 5
    assert outcome.evidence["claims"][0]["page"] == 2


def test_a_missing_page_never_goes_with_full_marks() -> None:
    """A missing cited page caps the score at 4, even if another page supports the claim."""
    answer = "It stands in Paris. [Page 2] [Page 9]"
    outcome = _judge(_reply({**PARIS, "pages": [2, 9]}), answer=answer)
    assert outcome.score == 4
    assert outcome.verdict["justification"].endswith(
        "Lowered from 5 to 4: Page-9 cited, but not in the context."
    )


def test_a_claim_whose_page_is_missing_is_unsupported() -> None:
    """A claim whose only cited page is missing is unsupported."""
    answer = "It stands in Paris. [Page 9]\nThe tower is 330 metres tall. [Page 1]"
    outcome = _judge(_reply({**PARIS, "pages": [9], "page": 9}, TALL), answer=answer)
    assert _kinds(outcome) == ["page_missing", "score_lowered"]
    assert outcome.score == 3  # one of two


def test_a_claim_without_a_tag_is_unsupported() -> None:
    """A claim without a citation is unsupported even if a page contains its words."""
    answer = "It stands in Paris.\nThe tower is 330 metres tall. [Page 1]"
    outcome = _judge(_reply(PARIS, TALL), answer=answer)
    assert _kinds(outcome) == ["pages_corrected", "no_page_cited", "score_lowered"]
    assert outcome.evidence["claims"][0]["pages"] == []
    assert outcome.score == 3


def test_the_answers_tags_count_not_the_judges() -> None:
    """The pages of a claim are those that the answer cites; the judge's list is corrected."""
    outcome = _judge(_reply(TALL, {**PARIS, "pages": [7]}, BUILT))
    assert _kinds(outcome) == ["pages_corrected"]
    assert "Page-7" in outcome.corrections[0].detail
    assert outcome.evidence["claims"][1]["pages"] == [2]
    assert outcome.score == 5


def test_an_invented_claim_is_dropped() -> None:
    """A claim that is not in the answer is dropped."""
    invented = {**PARIS, "claim_span": "It stands in Lyon."}
    outcome = _judge(_reply(TALL, PARIS, BUILT, invented))
    assert _kinds(outcome) == ["span_not_in_answer"]
    assert outcome.score == 5


def test_a_claim_that_the_judge_leaves_out_is_unsupported() -> None:
    """A cited claim that the judge omits is added as unsupported."""
    outcome = _judge(_reply(TALL))
    assert _kinds(outcome) == ["claim_not_listed", "claim_not_listed", "score_lowered"]
    assert outcome.score == 2  # one of three
    added = [claim for claim in outcome.evidence["claims"] if claim.get("added")]
    assert [claim["claim_span"] for claim in added] == [
        "It stands in Paris.",
        "Gustave Eiffel's company built it.",
    ]
    assert [claim["pages"] for claim in added] == [[2], [3]]


def test_several_claims_may_stand_in_one_line() -> None:
    """Several claims of one line count separately and account for the line."""
    answer = "The tower is 330 metres tall and it stands in Paris. [Pages 1, 2]"
    claims = (
        {**TALL, "claim_span": "The tower is 330 metres tall", "pages": [1, 2]},
        {**PARIS, "claim_span": "it stands in Paris", "pages": [1, 2]},
    )
    outcome = _judge(_reply(*claims), answer=answer)
    assert outcome.corrections == ()
    assert len(outcome.evidence["claims"]) == 2


def test_one_claim_cannot_stand_for_two_lines() -> None:
    """A claim that spans two lines accounts for the line that it covers most."""
    both = {**TALL, "claim_span": "The tower is 330 metres tall. Evidence: [Page 1]\nIt stands in Paris."}
    outcome = _judge(_reply(both, BUILT))
    assert _kinds(outcome) == ["claim_not_listed", "score_lowered"]
    assert outcome.score == 4  # two of three


def test_the_same_words_in_two_lines_are_two_claims() -> None:
    """Equal claims are told apart by the pages that the judge names."""
    answer = "It stands in Paris. [Page 1]\nIt stands in Paris. [Page 2]"
    outcome = _judge(_reply(PARIS, {**PARIS, "pages": [1], **NO}), answer=answer)
    assert _kinds(outcome) == ["score_lowered"]
    assert [(claim["pages"], claim["supported"]) for claim in outcome.evidence["claims"]] == [
        ([1], False),
        ([2], True),
    ]


@pytest.mark.parametrize("order", [(PARIS, {**PARIS, **NO}), ({**PARIS, **NO}, PARIS)])
def test_a_claim_judged_twice_and_not_alike_does_not_count(order: tuple[dict[str, Any], ...]) -> None:
    """A claim with two contradictory verdicts counts once, as unsupported."""
    outcome = _judge(_reply(TALL, BUILT, *order))
    assert _kinds(outcome) == ["duplicate_claim", "score_lowered"]
    assert outcome.score == 4  # two of three


def test_an_answer_without_claims_has_no_score() -> None:
    """An answer without claims is unscored with reason `no_claims`."""
    outcome = _outcome(_reply(score=1), answer="I cannot answer that.")
    assert isinstance(outcome, UnscoredOutcome)
    assert (outcome.reason, outcome.verdict) == ("no_claims", None)


def test_a_judge_that_only_invents_is_asked_again() -> None:
    """A reply with only invented claims is invalid, not `no_claims`."""
    with pytest.raises(InvalidVerdictError, match=r"claims\[0\].claim_span .* copy"):
        _outcome(_reply({**PARIS, "claim_span": "The monument is Parisian."}), answer="It stands in Paris.")


def test_a_judge_that_lists_nothing_finds_every_tagged_claim_added() -> None:
    """An empty list adds every cited claim as unsupported and scores 1."""
    outcome = _judge(_reply())
    assert outcome.score == 1
    assert _kinds(outcome) == ["claim_not_listed"] * 3 + ["score_lowered"]


@pytest.mark.parametrize("score", [0, 6, -1, 10**30, 4.5, "five", "4/5", None, True])
def test_a_score_out_of_its_range_is_invalid(score: Any) -> None:
    """The error names the score."""
    with pytest.raises(InvalidVerdictError, match=r"score|integer"):
        _outcome(_reply(TALL, PARIS, BUILT, score=score))


@pytest.mark.parametrize("score", [4.0, "4", " 4.0 "])
def test_a_whole_number_is_one_however_it_is_written(score: Any) -> None:
    """Quoted and decimal spellings of an integer are accepted."""
    assert _judge(_reply(TALL, PARIS, BUILT, score=score)).score == 4


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"pages": ["1"]}, "claims[0].pages[0]"),
        ({"pages": [-1]}, "claims[0].pages[0]"),
        ({"page": 10**12}, "claims[0].page"),
        ({"supported": "yes"}, "claims[0].supported"),
        ({"claim_span": None}, "claims[0].claim_span"),
        ({"page_span": 3}, "claims[0].page_span"),
    ],
)
def test_a_wrong_part_is_named(change: dict[str, Any], path: str) -> None:
    """The error names the path of the invalid part."""
    with pytest.raises(InvalidVerdictError) as error:
        _outcome(_reply({**TALL, **change}))
    assert path in error.value.detail


@given(
    st.text() | st.sampled_from(['{"claims": []}', '{"claims": [', '{"claims": NaN}', '{"score": 1e400}',
        "{}",
                                 '{"score": null, "justification": "none"}',
                                 '{"score": 3, "justification": 4}']),
    st.sampled_from([None, PACK]),
)  # fmt: skip
def test_no_reply_breaks_anything(reply: str, pack: Any) -> None:
    """Any malformed reply raises `InvalidVerdictError`."""
    with pytest.raises(InvalidVerdictError):
        Relevance(pack).interpret(make_task("relevance", answer=ANSWER, context=PAGES), reply)


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
    """Of 2,000 pages only the cited one is selected."""
    context = {f"Page-{n}": f"Text {n}." for n in range(2000)}
    event = QAEvent(event_id="e", question="q", answer="A. [Page 1234]", context=context)
    assert Relevance().select(event).context == {"Page-1234": "Text 1234."}


def test_the_request() -> None:
    """A request has constant instructions, the cited pages and the names of missing pages."""
    answer = "It is tall. [Page 2] It is old. [Pages 8-9] It is here. [Page 1]"
    request = Relevance().prepare(
        make_task("relevance", question="How?", answer=answer, context={**PAGES, "Page-3": "unused"})
    )
    assert isinstance(request, ChatRequest)
    assert request.response_schema is RELEVANCE_SCHEMA
    assert list(parse_fenced(request.messages[1].content).items()) == [
        ("question", "How?"),
        ("answer", answer),
        ("Page-2", PAGES["Page-2"]),
        ("Page-1", PAGES["Page-1"]),
        ("missing_pages", "Page-8\nPage-9"),
    ]


def test_the_list_of_missing_pages_is_bounded() -> None:
    """The list of missing pages is truncated."""
    request = Relevance().prepare(
        make_task("relevance", answer="A. [Page 1] B. [Pages 2-9999]", context={"Page-1": "x"})
    )
    assert isinstance(request, ChatRequest)
    lines = parse_fenced(request.messages[1].content)["missing_pages"].split("\n")
    assert len(lines) == MAX_LISTED_MISSING + 1
    assert lines[-1] == "and 800 more"  # a range names 1,000 pages at most: 2..1001


def test_the_rendered_prompt() -> None:
    """The rendered prompt equals its snapshot."""
    request = Relevance().prepare(
        make_task(
            "relevance", question="What is known of the tower?", answer=ANSWER + " [Page 9]", context=PAGES
        )
    )
    assert isinstance(request, ChatRequest)
    rendered = "\n".join(f"--- {message.role}\n{message.content}" for message in request.messages) + "\n"
    assert rendered == SNAPSHOT.read_text("utf-8")


@pytest.mark.parametrize("change", [{"question": " \x00"}, {"answer": "\u200b"}, {"context": None}])
def test_missing_input_is_not_asked_about(change: dict[str, Any]) -> None:
    """A blank text or a missing context is unscored without a call."""
    task = make_task("relevance", answer=ANSWER, context=PAGES).model_copy(update=change)
    for metric in (Relevance(), Relevance(pack=PACK)):
        assert metric.prepare(task) == UnscoredOutcome("missing_input")


def test_all_pages_missing_is_decided_without_a_call() -> None:
    """If no cited page is in the context, every mode scores 1, names the pages and lists the claims."""
    task = make_task("relevance", answer=ANSWER, context={"Page-7": "Something else."})
    for metric in (Relevance(), Relevance(pack=PACK)):
        outcome = metric.prepare(task)
        assert isinstance(outcome, ScoredOutcome)
        assert outcome.verdict == {
            "score": 1,
            "justification": (
                "No cited page is in the context: Page-1, Page-2, Page-3. No claim of the answer "
                "is supported."
            ),
        }
        assert [claim["supported"] for claim in outcome.evidence["claims"]] == [False] * 3
        RelevanceVerdict.model_validate(dict(outcome.verdict))


def test_an_answer_without_tags_is_put_to_the_judge() -> None:
    """The judge decides whether an answer without citations makes claims."""
    assert isinstance(Relevance().prepare(make_task("relevance", answer="No idea.", context={})), ChatRequest)


# Verbatim


def _verbatim(score: Any, *, answer: str = ANSWER, context: dict[str, str] | None = None) -> Outcome:
    reply = f"I think:\n```json\n{json.dumps({'score': score, 'justification': 'Good.'})}\n```"
    task = make_task("relevance", answer=answer, context=PAGES if context is None else context)
    return Relevance(PACK).interpret(task, reply)


@pytest.mark.parametrize(
    ("answer", "cap"),
    [
        (ANSWER, 5),
        ("Here is what I found:\n" + ANSWER, 5),
        (ANSWER + "\nI hope that helps.", 5),
        (ANSWER + "\nMillions of tourists visit the tower every year.", 4),
        (ANSWER + " [Page 9]", 4),
        ("The tower is 330 metres tall. [Page 1]\nB. [Page 9]", 3),  # 1 of 2 can be supported
        ("The tower is 330 metres tall. [Page 1]\nB. [Page 9]\nC. [Page 8]", 2),  # one of three
        ("The tower stands in Paris.", 1),  # no claim cites anything
    ],
)
def test_missing_pages_and_uncited_claims_lower_the_score(answer: str, cap: int) -> None:
    """Missing pages and uncited claims lower the judge's own score."""
    outcome = _verbatim(5, answer=answer)
    assert isinstance(outcome, ScoredOutcome)
    assert outcome.score == cap
    assert [one.kind for one in outcome.corrections] == (["score_lowered"] if cap < 5 else [])
    assert outcome.verdict["justification"].startswith("Good.")
    assert (f"Lowered from 5 to {cap}" in outcome.verdict["justification"]) is (cap < 5)


def test_no_claims_can_be_said() -> None:
    """A score of null means no claims; it is invalid if the answer cites pages."""
    outcome = _verbatim(None, answer="I cannot answer that.")
    assert isinstance(outcome, UnscoredOutcome)
    assert outcome.reason == "no_claims"
    with pytest.raises(InvalidVerdictError, match="whole number from 1 to 5"):
        _verbatim(None)


def test_a_pack_replaces_the_prompts_and_is_verbatim() -> None:
    """A pack sets messages, hash and schema; its context has only the cited pages."""
    metric = Relevance(pack=PACK)
    assert (metric.mode, metric.prompt_hash) == ("verbatim", PACK.hash)
    assert metric.schema_hash not in ("none", Relevance().schema_hash)
    task = make_task("relevance", question="q", answer="A. [page 1]", context={"p. 1": "x", "Page-2": "y"})
    request = metric.prepare(task)
    assert isinstance(request, ChatRequest)
    assert request.messages == (ChatMessage("user", 'q|A. [page 1]|{\n "Page-1": "x"\n}'),)
    assert request.response_schema is PACK.response_schema
