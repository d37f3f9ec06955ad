from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge.chat import ChatMessage, ChatRequest
from judge.endpoints.clients import ScriptedChat
from judge.errors import EventError
from judge.metric import Metric, Outcome
from judge.metrics.coverage.metric import Coverage
from judge.metrics.relevance.metric import Relevance
from judge.verdict.evaluator import Judge
from judge.verdict.fitting import CUT_KIND, estimated_tokens, fit, request_tokens, shares
from schemas import Failed, JudgeTask, Scored
from tests.judge.built_tasks import task_for
from tests.judge.replies import coverage_reply, listed_claim, listed_item, relevance_reply


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 0),
        # 9 letters at 0.3 and a stop: 2.7 + 1, rounded up.
        ("A few words.", 4),
        # 4 digits, a point, a line end.
        ("19.85\n", 6),
        # Two Cyrillic letters, two bytes each.
        ("да", 2),
        # Two Chinese characters, three bytes each.
        ("日本", 4),
        # One emoji, four bytes.
        ("😀", 3),
        ("    ", 0),
    ],
)
def test_tokens_are_estimated_from_characters(text: str, tokens: int) -> None:
    """Tokens are estimated with the weights of the module."""
    assert estimated_tokens(text) == tokens


@given(st.text(), st.text())
def test_the_estimate_of_a_whole_is_that_of_its_parts(one: str, other: str) -> None:
    """The estimate is additive, except for rounding."""
    parts = estimated_tokens(one) + estimated_tokens(other)
    assert parts - 1 <= estimated_tokens(one + other) <= parts


@given(st.dictionaries(st.text(max_size=3), st.integers(0, 1000), max_size=8), st.integers(0, 5000))
def test_shares_are_fair_and_use_the_room(sizes: dict[str, int], room: int) -> None:
    """Shares are fair among cut texts, and nothing is cut while there is room."""
    given_ = shares(sizes, room)
    assert given_.keys() == sizes.keys()
    assert sum(given_.values()) <= room
    cut = [given_[name] for name in sizes if given_[name] < sizes[name]]
    if cut:
        assert max(given_.values()) <= min(cut) + len(sizes)
        assert room - sum(given_.values()) < len(sizes)
    else:
        assert given_ == sizes


def words(count: int, name: str) -> str:
    return " ".join(f"{name}{chr(97 + number % 26)}" for number in range(count))


def plain(task: JudgeTask) -> ChatRequest | Outcome:
    pages = "".join(f"{name}: {text}" for name, text in (task.context or {}).items())
    return ChatRequest((ChatMessage("user", f"{task.question}{task.answer}{task.reference or ''}{pages}"),))


def fitted(task: JudgeTask, limit_tokens: int) -> Any:
    request = plain(task)
    assert isinstance(request, ChatRequest)
    return fit(task, request, plain, limit_tokens=limit_tokens)


SENTENCES = [f"Sentence number {name} says {words(12, name)}."
    for name in ("one", "two", "three", "four", "five")]  # fmt: skip
TEXT = " ".join(SENTENCES)


def test_a_request_within_the_limit_is_not_cut() -> None:
    """A request of exactly the limit is not cut."""
    task = task_for(Coverage(), reference=TEXT)
    request = plain(task)
    assert isinstance(request, ChatRequest)
    whole = fitted(task, request_tokens(request))
    assert (whole.task, whole.cuts, whole.request) == (task, (), request)
    assert fitted(task, request_tokens(request) - 1).cuts


def test_of_a_reference_the_beginning_is_kept() -> None:
    """A reference keeps its first sentences; the result records the cut."""
    task = task_for(Coverage(), reference=TEXT)
    request = plain(task)
    assert isinstance(request, ChatRequest)
    result = fitted(task, request_tokens(request) - estimated_tokens(SENTENCES[4]))
    kept = " ".join(SENTENCES[:4])
    assert result.task.reference == kept
    assert kept in result.request.messages[0].content
    assert "five" not in result.request.messages[0].content
    assert [cut.kind for cut in result.cuts] == [CUT_KIND]
    told = f"reference: 4 of 5 sentences ({sum(map(len, SENTENCES[:4]))} of {len(TEXT)} characters) were sent"
    assert result.cuts[0].detail.startswith(told)
    assert result.cuts[0].detail.endswith(f"{len(kept) + 1}-{len(TEXT)}")


def test_of_a_page_the_sentences_nearest_to_its_claims_are_kept() -> None:
    """A page keeps the sentences nearest to the claims that cite it, in order, with marks at gaps."""
    page = " ".join(
        [*SENTENCES[:2], "The tower was completed in 1889 in Paris.", *SENTENCES[2:], "The tower is green."]
    )
    answer = "The tower was completed in 1889. [Page 1]\nSentence number four says fourb. [Page 2]"
    task = task_for(Relevance(), answer=answer, context={"Page-1": page, "Page-2": "Short."})
    request = plain(task)
    assert isinstance(request, ChatRequest)
    room = estimated_tokens(
        "The tower was completed in 1889 in Paris.The tower is green."
    ) + 3 * estimated_tokens("\n[…]\n")
    limit = request_tokens(request) - estimated_tokens(page) + room
    result = fitted(task, limit)
    text = result.request.messages[0].content
    assert "Page-1: […]\nThe tower was completed in 1889 in Paris.\n[…]\nThe tower is green." in text
    assert text.endswith("Page-2: Short.")
    assert result.task.context == task.context
    assert [cut.detail.partition(":")[0] for cut in result.cuts] == ["Page-1"]
    assert "2 of 7 sentences" in result.cuts[0].detail


def test_pages_that_no_claim_cites_keep_their_beginning() -> None:
    """An uncited page keeps its first sentences."""
    task = task_for(Relevance(), answer="x [Page 1]", context={"Page-1": TEXT}).model_copy(
        update={"answer": "x"}
    )
    request = plain(task)
    assert isinstance(request, ChatRequest)
    room = estimated_tokens("".join(SENTENCES[:3])) + 4 * estimated_tokens("\n[…]\n")
    result = fitted(task, request_tokens(request) - estimated_tokens(TEXT) + room)
    assert f"{' '.join(SENTENCES[:3])}\n[…]" in result.request.messages[0].content


@pytest.mark.parametrize("reference", ["Short. " * 3, "x" * 9000, TEXT])
def test_an_event_that_cannot_be_cut_is_too_long(reference: str) -> None:
    """Questions, answers and single sentences are not cut; the error names the remedy."""
    task = task_for(Coverage(), question="why? " * 500, reference=reference)
    with pytest.raises(EventError, match="context_tokens") as caught:
        fitted(task, 800)
    assert caught.value.error_type == "context_too_long"


@given(st.lists(st.text(max_size=400), max_size=4), st.none() | st.text(max_size=400), st.integers(1, 400))
def test_every_request_fits_or_is_too_long(
    pages: list[str], reference: str | None, limit_tokens: int
) -> None:
    """Any request fits its limit after cutting, or the event fails with `context_too_long`."""
    context = {f"Page-{number}": text for number, text in enumerate(pages, 1)}
    answer = "".join(f"This is said. [Page {number}]\n" for number in range(1, len(pages) + 1)) or "x"
    task = task_for(Relevance(), answer=answer).model_copy(
        update={"context": context, "reference": reference}
    )
    try:
        result = fitted(task, limit_tokens)
    except EventError as error:
        too_long = error
        result = None
    if result is None:
        assert too_long.error_type == "context_too_long"
        return
    assert request_tokens(result.request) <= limit_tokens
    assert result.task.context == context
    if reference is not None:
        assert reference.startswith(result.task.reference)
    if not result.cuts:
        assert result.request == plain(task)


GREEN = json.dumps(coverage_reply([listed_item("The tower is green.", "The tower is green.")]))


def judge_of(metric: Metric, reply: str, context_tokens: int | None) -> tuple[Judge, ScriptedChat]:
    chat = ScriptedChat([reply])
    return Judge(metric, chat, context_tokens=context_tokens, max_output_tokens=500, repair_attempts=0), chat


async def test_only_the_sent_part_of_a_reference_is_verified() -> None:
    """Only the sent part of a reference is verified, and the result records the cut."""
    reference = f"The tower is green. {words(1500, 'Filler')}. {words(1500, 'Other')}."
    judge, chat = judge_of(Coverage(), GREEN, 3000)
    result = await judge.judge(task_for(judge.metric, answer="The tower is green.", reference=reference))
    assert isinstance(result, Scored)
    assert "Filler" not in chat.requests[0].messages[1].content
    assert [correction.kind for correction in result.corrections] == [CUT_KIND]
    # One fact of one, no terms, similar: 5 * (0.7 + 0.21 + 0.09) = 5.
    assert result.score == 5


async def test_a_quotation_is_verified_against_the_whole_page() -> None:
    """A quotation of a cut page is verified against the whole page."""
    page = f"{words(1500, 'Filler')}. The tower is green and high. {words(1500, 'Other')}."
    claim = listed_claim("The tower is green.", [1], "The tower is green and high.")
    judge, chat = judge_of(Relevance(), json.dumps(relevance_reply([claim])), 3000)
    task = task_for(judge.metric, answer="The tower is green. [Page 1]", context={"Page-1": page})
    result = await judge.judge(task)
    assert isinstance(result, Scored)
    assert "The tower is green and high." in chat.requests[0].messages[1].content
    assert "Filler" not in chat.requests[0].messages[1].content
    assert [correction.kind for correction in result.corrections] == [CUT_KIND]
    assert result.score == 5


async def test_an_answer_that_does_not_fit_costs_no_call() -> None:
    """An answer that does not fit fails without a call; without a configured window it is sent."""
    answer = "The tower is green. " * 1000
    judge, chat = judge_of(Coverage(), GREEN, 3000)
    result = await judge.judge(task_for(judge.metric, answer=answer, reference="The tower is green."))
    assert isinstance(result, Failed)
    assert (result.error_type, result.judge, result.cost_usd) == ("context_too_long", None, 0.0)
    assert not chat.requests
    judge, chat = judge_of(Coverage(), GREEN, None)
    assert isinstance(
        await judge.judge(task_for(judge.metric, answer=answer, reference="The tower is green.")), Scored
    )
