from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge.chat import ChatReply, ChatRequest
from judge.endpoints.clients import Line, ScriptedChat
from judge.errors import EventError, InvalidVerdictError
from judge.metric import ScoredOutcome
from judge.metrics.coverage.metric import Coverage
from judge.metrics.coverage.parts import PART_BYTES, merge_replies, split_reference
from judge.metrics.prompting import parse_fenced
from judge.text.redaction import Redactor
from judge.text.sentences import sentences
from judge.verdict.evaluator import Judge
from judge.verdict.guarded_metric import GuardedMetric, TextLimits
from schemas import Failed, Scored, Unscored, Usage
from tests.judge.built_tasks import task_for
from tests.judge.replies import coverage_reply, listed_item

NAMES = [
    f"{first}{second}el"
    for first in ("Bar", "Cor", "Dal", "Fen", "Gor", "Hul")
    for second in "abdefgiklmnoprstu"
]
SENTENCES = [
    f"The river {name} has {place + 200} bridges of grey granite in all." for place, name in enumerate(NAMES)
]
LONG = " ".join(SENTENCES * 5)  # 102 sentences of 11 words, five times: 5,610 words


def honest(reference: str, answer: str) -> str:
    """The reply of a judge that lists each sentence as a fact."""
    listed = (reference[start:end] for start, end in sentences(reference))
    facts = [listed_item(one, one if one in answer else None) for one in listed]
    term = listed_item("granite", "granite" if "granite" in answer else None)
    return json.dumps(coverage_reply(facts, terms=[term]))


def honest_chat(limit_chars: int) -> ScriptedChat:
    """A judge whose replies are cut at a length."""

    def say(request: ChatRequest) -> Line:
        event = parse_fenced(request.messages[-1].content)
        text = honest(event["reference"], event["answer"])
        usage = Usage(input_tokens=10, output_tokens=1)
        reply = ChatReply(text, "scripted-1", usage, 0.5)
        return reply if len(text) <= limit_chars else EventError("reply_cut", "cut", reply=reply)

    return ScriptedChat(say)


def judged(
    chat: ScriptedChat, *, answer: str, reference: str = LONG, **arguments: Any
) -> Scored | Unscored | Failed:
    metric = arguments.pop("metric", Coverage())
    return asyncio.run(
        Judge(metric, chat, **arguments).judge(task_for(metric, answer=answer, reference=reference))
    )


@given(
    st.lists(
        st.sampled_from([*SENTENCES[:8], "東京は日本の首都です。", "x. ", "\n\n", "no end"]), max_size=300
    ),
    st.none() | st.just(2),
)
def test_a_split_loses_nothing(pieces: list[str], parts: int | None) -> None:
    """A split keeps every sentence once and in order, and bounds the size or number of parts."""
    reference = " ".join(pieces)
    split = split_reference(reference, parts=parts)
    whole = [reference[start:end] for start, end in sentences(reference)]
    assert [part[start:end] for part in split for start, end in sentences(part)] == whole or len(split) == 1
    if parts is None:
        longest = max((len(sentence.encode()) for sentence in whole), default=0)
        assert (
            all(len(part.encode()) <= PART_BYTES + longest + len(whole) for part in split) or len(split) == 1
        )
    else:
        assert len(split) <= parts


def test_a_short_reference_is_one_part() -> None:
    """A short reference costs one call."""
    chat = honest_chat(100_000)
    result = judged(chat, answer=SENTENCES[0], reference=" ".join(SENTENCES[:3]))
    assert isinstance(result, Scored)
    assert len(chat.requests) == 1


@given(st.sets(st.integers(0, 101), max_size=102))
def test_parts_give_the_verdict_of_one_list(said: set[int]) -> None:
    """Merged parts give the items, evidence and score of one reply that lists everything."""
    answer = " ".join(SENTENCES[place] for place in sorted(said)) or "I say nothing of it."
    metric = Coverage()
    task = task_for(metric, answer=answer, reference=" ".join(SENTENCES))
    parts = metric.parts(task)
    assert len(parts) > 1
    merged = metric.merged([honest(part.reference or "", answer) for part in parts])
    whole = metric.interpret(task, honest(task.reference or "", answer))
    together = metric.interpret(task, merged)
    assert isinstance(whole, ScoredOutcome)
    assert isinstance(together, ScoredOutcome)
    assert (together.score_exact, together.verdict) == (whole.score_exact, whole.verdict)
    assert together.evidence["facts"] == whole.evidence["facts"]


@pytest.mark.slow
def test_a_reference_of_5000_words_does_not_end_as_a_cut_reply() -> None:
    """A judge limited to 16,000 characters (4,096 tokens) a reply judges 5,610 words.

    The answer has half of the 102 facts.
    """
    chat = honest_chat(16_000)
    result = judged(chat, answer=" ".join(SENTENCES[:51]))
    assert isinstance(result, Scored), result
    # 51 of 102 facts, the term, organization: 5 * (0.35 + 0.21 + 0.09).
    assert result.score_exact == "3.25"
    assert 9 <= len(chat.requests) <= 14
    assert result.judge is not None
    assert result.judge.tries == len(chat.requests)
    assert result.usage.output_tokens == len(chat.requests)


def test_a_reply_that_is_cut_is_asked_for_in_halves() -> None:
    """A cut reply is asked for again in halves, and its usage is counted."""
    chat = honest_chat(1_000)
    result = judged(chat, answer=SENTENCES[0], reference=" ".join(SENTENCES[:8]))
    assert isinstance(result, Scored)
    assert result.score_exact == "1.9375"  # 5 * (1/8 * 0.7 + 0.21 + 0.09)
    assert len(chat.requests) > 2
    assert result.usage.output_tokens == len(chat.requests)


@pytest.mark.parametrize(("count", "calls"), [(1, 1), (2, 3), (64, 10)])
def test_a_judge_whose_replies_are_always_cut_fails(count: int, calls: int) -> None:
    """After few calls the event fails with `reply_cut`: a sentence is not split, a part is halved at most
    twice.
    """
    chat = honest_chat(10)
    result = judged(chat, answer="x", reference=" ".join(SENTENCES[:count]))
    assert isinstance(result, Failed)
    assert result.error_type == "reply_cut"
    assert len(chat.requests) <= calls


def test_a_verbatim_reply_needs_no_parts() -> None:
    """Verbatim mode does not split the reference."""
    task = task_for(Coverage(mode="verbatim"), answer="x", reference=LONG)
    assert Coverage(mode="verbatim").parts(task, halve=True) == (task,)


def test_parts_are_redacted_before_they_are_split() -> None:
    """Redaction precedes the split."""
    metric = GuardedMetric(Coverage(), redactor=Redactor(("emails",)), limits=TextLimits())
    task = task_for(Coverage(), answer="x", reference=f"{LONG} Ask ada@example.com. {LONG}")
    assert not any("ada@" in (part.reference or "") for part in metric.parts(task))


def test_the_organization_is_that_of_most_parts() -> None:
    """`similar` is true only if more than half of the parts say so."""
    replies = [json.loads(honest("The river Barael has 200 bridges.", "")) for _ in range(3)]
    for number in range(3):
        for place, reply in enumerate(replies):
            reply["organization"]["similar"] = place < number
        merged = json.loads(merge_replies([json.dumps(reply) for reply in replies]))
        assert merged["organization"]["similar"] is (number == 2)
    assert len(merged["facts"]) == 1  # each part lists the same fact


def test_a_part_that_is_no_list_is_refused() -> None:
    """Merging an invalid part raises `InvalidVerdictError`."""
    with pytest.raises(InvalidVerdictError):
        merge_replies([honest("A b.", ""), "rubbish"])
