"""Proven errors of a relevance verdict lower the score; suspicions only mark it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from judge.chat import ChatRequest
from judge.endpoints.clients import ScriptedChat
from judge.errors import JudgeConfigurationError
from judge.evaluate.evaluator import Evaluator
from judge.metric import Outcome, ScoredOutcome, UnscoredOutcome
from judge.metrics.relevance import Relevance
from judge.offline.server import OfflineChat
from schemas import QAEvent, Scored
from tests.judge.replies import listed_claim, relevance_reply
from tests.judge.tasks import make_task

PAGES = {
    "Page-1": "The tower is **330 metres** tall.\nIt was completed in 1889.",
    "Page-2": "The lift is safe.",
}


def _outcome(
    answer: str,
    *claims: dict[str, Any],
    metric: Relevance | None = None,
    context: dict[str, str] | None = None,
) -> Outcome:
    task = make_task("relevance", question="How tall is the tower?", answer=answer, context=context or PAGES)
    return (metric or Relevance()).interpret(task, json.dumps(relevance_reply(claims)))


def _scored(answer: str, *claims: dict[str, Any], **given: Any) -> ScoredOutcome:
    outcome = _outcome(answer, *claims, **given)
    assert isinstance(outcome, ScoredOutcome)
    return outcome


def _kinds(found: Any) -> list[str]:
    return [one.kind for one in found]


def test_a_short_answer_is_believed() -> None:
    """An answer that shares no word with its page is a suspicion, because code cannot prove it wrong."""
    page = {"Page-1": "The first patent for this device was granted to a Scot in Boston."}
    claim = listed_claim("Alexander Graham Bell.", [1], "granted to a Scot")
    outcome = _scored(
        "Alexander Graham Bell. Evidence: [Page 1]",
        claim,
        context=page,
    )
    assert outcome.score == 5
    assert "support_not_borne_out" in _kinds(outcome.suspicions)


@pytest.mark.parametrize(
    ("claim", "words", "kind"),
    [
        ("The tower is 330 feet tall.", "The tower is 330 metres tall", "units_differ"),
        ("The tower is 303 metres tall.", "The tower is 330 metres", "numbers_differ"),
        ("It was completed in 1898.", "It was completed in 1889", "dates_differ"),
        ("The lift is not safe.", "The lift is safe.", "polarity_differs"),
    ],
)
def test_a_contradiction_is_shown(claim: str, words: str, kind: str) -> None:
    """A contradicted number, unit, date or polarity is a correction that quotes the claim."""
    page = 2 if "lift" in claim else 1
    outcome = _scored(
        f"{claim} [Page {page}]",
        listed_claim(claim, [page], words),
    )
    assert outcome.score == 1
    assert _kinds(outcome.corrections) == [kind, "score_lowered"]
    assert claim in outcome.corrections[0].detail


def test_a_quotation_without_its_markup_is_found() -> None:
    """A quotation without the page's markup is found and published as the page has it."""
    claim = listed_claim("The tower is 330 metres tall.", [1], "The tower is 330 metres tall.")
    outcome = _scored("The tower is 330 metres tall. [Page 1]", claim)
    assert (outcome.score, outcome.corrections, outcome.objection) == (5, (), None)
    listed = outcome.evidence["claims"][0]
    assert listed["page_span"] == "The tower is **330 metres** tall"
    assert listed["inexact"] is True


def test_an_invented_quotation_is_sent_back() -> None:
    """The objection names the invented quotation."""
    outcome = _scored(
        "The tower is tall. [Page 1]",
        listed_claim("The tower is tall.", [1], "It is the tallest of all towers"),
    )
    assert outcome.score == 1
    assert outcome.objection is not None
    assert "claims[0].page_span" in outcome.objection


def test_ten_lines_without_a_tag_that_the_judge_leaves_out_count() -> None:
    """Ten omitted claims without a citation count as unsupported: 1 of 11 scores 2."""
    invented = "\n".join(f"The tower was painted green in the year 19{number}." for number in range(10, 20))
    claim = listed_claim("The tower is 330 metres tall.", [1], "330 metres** tall")
    outcome = _scored(f"The tower is 330 metres tall. [Page 1]\n{invented}", claim)
    assert outcome.score == 2
    assert _kinds(outcome.corrections) == ["claim_not_listed"] * 10 + ["score_lowered"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("Hi! Thanks for asking.", "Let me know if you need anything else!"),
        ("# The tower", "I hope this helps."),
        ("Here is what the pages say:", "Would you like to know more?"),
        ("**Overview**", "We look forward to your visit."),
        ("Hallo! Gerne helfe ich Ihnen weiter.", "Kann ich sonst noch etwas f\u00fcr Sie tun?"),
        ("Bonjour, merci pour votre question.", "N'h\u00e9sitez pas \u00e0 revenir vers nous."),
        ("\u00a1Hola! Con gusto le ayudo.", "Esperamos su visita muy pronto."),
        ("Merhaba! Size yard\u0131mc\u0131 olay\u0131m.", "Ba\u015fka bir sorunuz var m\u0131?"),
        ("\u0645\u0631\u062d\u0628\u0627! \u0634\u0643\u0631\u0627 \u0644\u0633\u0624\u0627\u0644\u0643.", (
                "\u0644\u0627 \u062a\u062a\u0631\u062f\u062f \u0641\u064a \u0637\u0631\u062d "
                "\u0627\u0644\u0645\u0632\u064a\u062f."
            )),
    ],
)  # fmt: skip
def test_greetings_headings_and_offers_are_no_claims(before: str, after: str) -> None:
    """The judge may omit greetings, headings and offers, on their own line or beside a claim."""
    claim = listed_claim("The tower is 330 metres tall.", [1], "330 metres** tall")
    for gap in ("\n", " "):
        answer = f"{before}{gap}The tower is 330 metres tall. [Page 1]{gap}{after}"
        outcome = _scored(answer, claim)
        assert (outcome.score, outcome.corrections) == (5, ()), answer


@pytest.mark.parametrize(
    ("tag", "context"),
    [
        ("[1]", {"Page-1": PAGES["Page-1"]}),
        ("[^1]", {"Page-1": PAGES["Page-1"]}),
        ("(Page 1)", {"Page-1": PAGES["Page-1"]}),
        ("Evidence: Page 1", {"Page-1": PAGES["Page-1"]}),
        ("[Seite 1]", {"1": PAGES["Page-1"]}),
        ("\u30101\u2020source\u3011", {"p. 1": PAGES["Page-1"]}),
        ("(source: doc-3)", {"doc-3": PAGES["Page-1"]}),
        ("[handbook.pdf]", {"faq.md": "No.", "handbook.pdf": PAGES["Page-1"]}),
        ("[handbook]", {"faq.md": "No.", "handbook.pdf": PAGES["Page-1"]}),
        ("[2]", {"faq.md": "No.", "handbook.pdf": PAGES["Page-1"]}),
        ("(Source: 7f3a-90bc)", {"7f3a-90bc": PAGES["Page-1"]}),
    ],
)
def test_common_citation_forms_are_read(tag: str, context: dict[str, str]) -> None:
    """Common forms of citation find their page; only that page is selected, and its name keeps its number."""
    metric = Relevance()
    answer = f"The tower is 330 metres tall. {tag}"
    event = QAEvent(event_id="e", question="q", answer=answer, context=context)
    selected = metric.select(event).context
    assert selected is not None
    assert list(selected.values()) == [PAGES["Page-1"]]
    again = metric.select(event.model_copy(update={"context": selected})).context
    assert again == selected
    number = int("".join(filter(str.isdigit, next(iter(selected)).split(" ")[0])))
    claim = listed_claim("The tower is 330 metres tall.", [number], "330 metres** tall")
    outcome = _scored(answer, claim, context=dict(selected))
    assert (outcome.score, outcome.corrections) == (5, ())


def test_a_custom_citation_pattern_is_used() -> None:
    """The first group of a custom pattern is the page number."""
    metric = Relevance(citation_pattern=r"\{\{ref:(\w+)\}\}")
    claim = listed_claim("The tower is 330 metres tall.", [1], "330 metres** tall")
    outcome = _scored("The tower is 330 metres tall. {{ref:1}}", claim, metric=metric)
    assert (outcome.score, outcome.corrections) == (5, ())
    assert metric.scoring_version != Relevance().scoring_version


@pytest.mark.parametrize("pattern", ["(", r"(.)\1+", r"(?<=a)b", "a" * 501])
def test_a_pattern_that_re2_cannot_read_is_refused(pattern: str) -> None:
    """Back-references, look-around and long patterns are refused at construction."""
    with pytest.raises(JudgeConfigurationError, match="citation_pattern"):
        Relevance(citation_pattern=pattern)


def test_claims_without_any_citation_score_one() -> None:
    """Claims without a citation score 1; a citation in an unknown form is a suspicion."""
    outcome = _scored(
        "The tower is 330 metres tall {Anhang B}.", listed_claim("The tower is 330 metres tall", [], None)
    )
    assert outcome.score == 1
    assert "cites no page" in outcome.verdict["justification"]
    assert _kinds(outcome.suspicions) == ["no_citation"]
    unread = _scored(
        "The tower is 330 metres tall [Anhang 3].", listed_claim("The tower is 330 metres tall", [], None)
    )
    assert _kinds(unread.suspicions) == ["citation_not_understood", "no_citation"]


def test_traffic_that_never_cites_may_go_unscored() -> None:
    """With `without_citations="unscored"` an answer without citations is unscored, without a call."""
    metric = Relevance(without_citations="unscored")
    task = make_task("relevance", answer="The tower is 330 metres tall.", context={})
    outcome = metric.prepare(task)
    assert isinstance(outcome, UnscoredOutcome)
    assert outcome.reason == "missing_input"
    assert outcome.evidence == {"missing": "citations"}


async def test_an_invented_quotation_gets_one_repair_turn() -> None:
    """The repair turn names the quotation; a second invention loses the match."""
    good = listed_claim("The tower is 330 metres tall.", [1], "330 metres** tall")
    bad = {**good, "page_span": "It is the tallest of all towers"}
    task = make_task("relevance", answer="The tower is 330 metres tall. [Page 1]", context=PAGES)
    for second, score in ((good, 5), (bad, 1)):
        replies = iter(json.dumps(relevance_reply([one])) for one in (bad, second))
        asked: list[str] = []

        def say(request: ChatRequest, asked: list[str] = asked, replies: Iterator[str] = replies) -> str:
            asked.append(request.messages[-1].content)
            return next(replies)

        result = await Evaluator(Relevance(), ScriptedChat(say)).judge(task)
        assert isinstance(result, Scored)
        assert (result.score, len(asked)) == (score, 2)
        assert "It is the tallest of all towers" in asked[1]


async def test_the_offline_judge_knows_documents_by_name() -> None:
    """The offline judge maps a cited document name to its page."""
    answer = "The tower is 330 metres tall. (source: handbook)"
    task = make_task(
        "relevance", question="How tall is the tower?", answer=answer,
        context={"Page-2 (handbook.pdf)": "The tower is 330 metres tall."},
    )  # fmt: skip
    result = await Evaluator(Relevance(), OfflineChat()).judge(task)
    assert isinstance(result, Scored)
    assert result.score == 5
